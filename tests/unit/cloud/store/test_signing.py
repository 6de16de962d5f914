"""The provider's key: made once, kept to itself, and never replaced unasked."""

from __future__ import annotations

import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sottovoce.cloud.store.keys import signature_of, signing_key
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import ConfigError, DataLoss
from tests.support.leftovers import age, left_of
from tests.support.signing import sign


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    file = tmp_path / "signing.key"
    made = signing_key(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert signing_key(file).private_bytes_raw() == made.private_bytes_raw()
    assert signing_key(tmp_path / "other").private_bytes_raw() != made.private_bytes_raw()
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="other users can read"):
        signing_key(file)


def test_servers_that_start_together_on_one_state_sign_with_one_key(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def start(_: int) -> bytes:
        together.wait(60)
        return signing_key(tmp_path / "signing.key").private_bytes_raw()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(start, range(8)))) == 1
    assert {file.name for file in tmp_path.iterdir()} == {"signing.key", "signing.key.pub"}


@pytest.mark.parametrize("lost", ["gone", "another's"])
def test_a_key_that_was_lost_is_not_replaced_unasked(tmp_path: Path, lost: str) -> None:
    file = tmp_path / "signing.key"
    made = signing_key(file)
    if lost == "gone":
        file.unlink()
    else:
        signing_key(tmp_path / "other")
        (tmp_path / "other").replace(file)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"is gone|does not fit") as caught:
            signing_key(file)
        assert "sotto pull --key" in caught.value.fix
    file.unlink(missing_ok=True)
    (tmp_path / "signing.key.pub").unlink()  # as the remedy says
    assert signing_key(file).private_bytes_raw() != made.private_bytes_raw()


@pytest.mark.parametrize("kind", ["empty", "no PEM", "another kind", "a folder"])
def test_what_is_no_key_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "signing.key"
    pem = X25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    data = {"empty": b"", "no PEM": b"key", "another kind": pem}.get(kind)
    if data is None:
        file.mkdir(0o700)
    else:
        file.touch(0o600)
        file.write_bytes(data)
    with pytest.raises(ConfigError, match="no private Ed25519 key"):
        signing_key(file)
    assert data is None or file.read_bytes() == data


def test_a_signature_made_with_the_bundle_goes_before_the_servers_own(
    tmp_path: Path, small_bundle: Bundle
) -> None:
    file = tmp_path / "signing.key"
    manifest = (small_bundle.folder / "manifest.json").read_bytes()
    own = signature_of(small_bundle, file)
    own.check(manifest)
    assert own.key == signing_key(file).public_key().public_bytes_raw()

    offline = tmp_path / "bundle"
    offline.mkdir()
    (offline / "manifest.json").write_bytes(manifest)
    public = sign(offline, Ed25519PrivateKey.generate())
    there = Bundle(small_bundle.folder, small_bundle.manifest, small_bundle.id)
    there.folder = offline
    assert signature_of(there, file).key == public
    (offline / "manifest.json").write_bytes(manifest + b" ")
    with pytest.raises(DataLoss, match="does not fit"):
        signature_of(there, file)


def test_what_was_left_of_the_key_goes_at_the_next_start(tmp_path: Path) -> None:
    file = tmp_path / "signing.key"
    signing_key(file)
    left_of(file).hardlink_to(file)
    age(file)
    signing_key(file)
    assert {each.name for each in tmp_path.iterdir()} == {"signing.key", "signing.key.pub"}
