"""The engine uses what is linked, from the next text on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import Manifest
from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.config import Config
from sottovoce.edge.tasks.engine import open_tagger
from tests.support.agent import configured, engine
from tests.support.signing import lay_pulled


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
