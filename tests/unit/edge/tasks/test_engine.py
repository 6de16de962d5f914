"""The engine uses the linked bundle from the next text on."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.full_finder import FullFinder
from sottovoce.core.bundle.manifest import ENCODER, FULL_FINDER, Manifest
from sottovoce.core.bundle.signature import SIGNATURE, Signature, show_key
from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.config import Config
from sottovoce.edge.tasks.engine import open_current, open_tagger, signer
from tests.support.agent import configured, engine
from tests.support.encoder_bundle import offered, with_some_files
from tests.support.signing import lay_pulled, sign
from tests.support.tampering import change_array


def test_no_bundle_is_not_ready_until_there_is_one(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path)
    current = engine(config, lexicon_tagger)
    with pytest.raises(NotReady, match="sotto pull"):
        current.current()
    config.bundle.path.mkdir(parents=True)
    config.bundle.current.symlink_to(small_bundle_folder)
    assert current.current().bundle.id == Bundle.open(small_bundle_folder).id
    assert current.current() is current.current()


def test_a_newly_linked_bundle_is_taken_up(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    current = engine(config, lexicon_tagger)
    first = current.current().bundle.id
    other = tmp_path / "other"
    shutil.copytree(small_bundle_folder, other)
    manifest = other / "manifest.json"
    known = Manifest.from_json(manifest.read_bytes())
    manifest.write_bytes(replace(known, language="xx").to_json())
    config.bundle.current.unlink()
    config.bundle.current.symlink_to(other)
    assert current.current().bundle.id == Bundle.open(other).id != first


def _pulled(folder: Path, bundle: Path) -> Config:
    """Settings over a copy of `bundle` that lies as one that was pulled."""
    config = configured(folder)
    lay_pulled(config, bundle)
    return config


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize(
    "path", ["manifest.json", "rows.npy", "members.npy", "tokens.npy", "words.txt"]
)
def test_one_flipped_bit_and_nothing_is_released(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, path: str, running: bool
) -> None:
    config = _pulled(tmp_path, small_bundle_folder)
    current = engine(config, lexicon_tagger)
    if running:
        current.current()
    file = config.bundle.current / path
    sound = file.read_bytes()
    # The manifest's bit makes an eta of 4.0 one of 5.0: as readable as before.
    place = sound.index(b'"eta": 4.0') + 7 if path == "manifest.json" else len(sound) // 2
    file.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
    for _ in range(2):
        with pytest.raises(DataLoss, match=path) as caught:
            current.current()
        assert "sotto pull" in caught.value.fix
    file.write_bytes(sound)
    assert current.current().bundle.id == config.bundle.current.resolve().name


def test_another_backbone_is_refused(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_BUNDLE_BACKBONE="other")
    with pytest.raises(BundleMismatch, match=r"bundle\.backbone"):
        engine(config, lexicon_tagger).current()


def test_a_tagger_that_is_not_there_is_said(tmp_path: Path, small_bundle_folder: Path) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with pytest.raises(NotReady, match=r"'en', brings no tagger.*tagger\.backend"):
        open_tagger(Bundle.open(small_bundle_folder), config.tagger)


def test_with_the_finder_full_a_bundle_without_it_serves_all_but_personal(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(
        tmp_path,
        bundle=small_bundle_folder,
        SOTTO_PRIVACY_FINDER="full",
        SOTTO_PRIVACY_LEAST_POLICY="personal",
    )
    privatizer = engine(config, lexicon_tagger).current().privatizer
    assert privatizer.release("the garden", Setting(policy="names")).text
    with pytest.raises(NotReady, match="has no finder 'full'"):
        privatizer.release("the garden", Setting(policy="personal"))
    small = replace(config, privacy=replace(config.privacy, finder="small"))
    release = engine(small, lexicon_tagger).current().privatizer.release
    assert release("the garden", Setting(policy="personal")).text


def test_the_best_finder_that_is_there_reads_from_the_next_text_on(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class All:
        reach = 0

        def find(self, words: Sequence[str], session: str = "") -> NDArray[np.float32]:
            return np.tile(np.array([1, 0, 0, 0], np.float32), (len(words), 1))

    folder = with_some_files(small_bundle_folder, tmp_path / "bundle")
    network = folder / ENCODER / FULL_FINDER
    network.write_bytes(b"of another version")
    offered(folder)
    network.rename(tmp_path / "away")
    config = configured(tmp_path, bundle=folder, SOTTO_PRIVACY_LEAST_POLICY="personal")
    opened = engine(config, lexicon_tagger)

    def left() -> str:
        return opened.current().privatizer.release("the garden", Setting(policy="personal")).text

    assert left() == "the garden"
    (tmp_path / "away").rename(network)
    assert left() == "the garden"
    assert "small finder" in caplog.text
    network.unlink()
    assert left() == "the garden"
    monkeypatch.setattr(FullFinder, "load", lambda _: All())
    network.write_bytes(b"fetched")
    assert left() != "the garden"


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
