"""Nothing is released from a bundle that nobody this device knows vouches for."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.core.bundle.signature import SIGNATURE, Signature, show_key
from sottovoce.core.errors import BundleMismatch, DataLoss
from sottovoce.edge.config import Config
from sottovoce.edge.tasks.engine import open_current, signer
from tests.support.agent import configured
from tests.support.signing import lay_pulled, sign
from tests.support.tampering import change_array

KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
PUBLIC, ANOTHER = (key.public_key().public_bytes_raw() for key in (KEY, OTHER))


def _insisting(config: Config, key: bytes) -> Config:
    return dataclasses.replace(config, bundle=dataclasses.replace(config.bundle, key=show_key(key)))


def test_a_pulled_bundle_is_held_against_the_noted_key(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    config = configured(tmp_path)
    folder = lay_pulled(config, small_bundle_folder, KEY)
    assert open_current(config.bundle).id == folder.name
    assert signer(config.bundle) == PUBLIC
    assert open_current(_insisting(config, PUBLIC).bundle)
    with pytest.raises(BundleMismatch, match="not the configured key"):
        open_current(_insisting(config, ANOTHER).bundle)
    sign(folder, OTHER)
    with pytest.raises(BundleMismatch, match="never noted"):
        open_current(config.bundle)


def test_a_signature_that_is_gone_or_of_another_manifest_is_refused(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    config = configured(tmp_path)
    folder = lay_pulled(config, small_bundle_folder, KEY)
    (folder / SIGNATURE).write_bytes(Signature.make(b"another manifest", KEY).to_bytes())
    with pytest.raises(DataLoss, match="does not fit its manifest"):
        open_current(config.bundle)
    (folder / SIGNATURE).unlink()
    with pytest.raises(BundleMismatch, match="nobody vouches"):
        open_current(config.bundle)


@pytest.mark.parametrize("pulled", [False, True])
def test_numbers_that_void_the_promise_are_refused_whoever_signed(
    tmp_path: Path, small_bundle_folder: Path, pulled: bool
) -> None:
    unsound = Path(shutil.copytree(small_bundle_folder, tmp_path / "unsound"))
    change_array(unsound, "rows.npy", lambda rows: rows * np.float32(1_000))
    config = configured(tmp_path, bundle=None if pulled else unsound)
    if pulled:
        lay_pulled(config, unsound, KEY)
    with pytest.raises(BundleMismatch, match="unit sphere"):
        open_current(config.bundle)


def test_one_linked_by_hand_must_be_signed_only_where_a_key_is_configured(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    assert open_current(config.bundle)
    assert signer(config.bundle) is None
    with pytest.raises(BundleMismatch, match="nobody vouches") as caught:
        open_current(_insisting(config, PUBLIC).bundle)
    assert "bundle.key" in caught.value.fix
