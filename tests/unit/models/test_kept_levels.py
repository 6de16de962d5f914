"""Kept levels belong to one bundle, and are found for no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import EmbedLevel, Level
from sottovoce.core.errors import InvalidInput
from sottovoce.models import kept_levels
from sottovoce.models.kept_levels import Levels, digest

MEASURED_ON = "a" * 64
SIZES = {"NOUN": 1_000, "=VERB": 300}
LEVELS = Levels(
    MEASURED_ON,
    SIZES,
    {"t2t.v1": ({"strong": Level(0.1 + 0.2)}, (Level(2.0), Level(3.0)))},
    {"strong": EmbedLevel(4.0, 0.3)},
)


def test_what_is_kept_is_found_to_the_last_bit(tmp_path: Path) -> None:
    kept_levels.keep(tmp_path / "levels", LEVELS)
    assert kept_levels.find(tmp_path / "levels", MEASURED_ON, SIZES) == LEVELS


def test_without_a_file_nothing_is_found(tmp_path: Path) -> None:
    assert kept_levels.find(tmp_path, MEASURED_ON, SIZES) is None


def test_a_few_words_in_another_class_do_not_matter(tmp_path: Path) -> None:
    kept_levels.keep(tmp_path, LEVELS)
    assert kept_levels.find(tmp_path, MEASURED_ON, {"NOUN": 1_003, "=VERB": 297})


@pytest.mark.parametrize(
    "sizes",
    [
        {"NOUN": 1_011, "=VERB": 300},
        {"NOUN": 1_000, "=VERB": 296},
        {"NOUN": 1_000},
        {**SIZES, "ADJ": 1},
        {"NOUN": 1_000, "=ADJ": 300},
    ],
)
def test_levels_of_other_classes_are_not_taken(sizes: dict[str, int], tmp_path: Path) -> None:
    kept_levels.keep(tmp_path, LEVELS)
    assert kept_levels.find(tmp_path, MEASURED_ON, sizes) is None


def test_levels_of_other_words_are_not_taken(tmp_path: Path) -> None:
    kept_levels.keep(tmp_path, LEVELS)
    assert kept_levels.find(tmp_path, "b" * 64, SIZES) is None


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\x00", b"[]", b"{}", b'{"format": "levels.v9"}'])
def test_a_damaged_file_is_told_with_the_fix(data: bytes, tmp_path: Path) -> None:
    (tmp_path / kept_levels.FILE).write_bytes(data)
    with pytest.raises(InvalidInput, match="damaged") as caught:
        kept_levels.find(tmp_path, MEASURED_ON, SIZES)
    assert "--measure-levels" in caught.value.fix


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1", "true", '"3"'])
def test_no_eta_but_a_positive_number_is_taken(value: str, tmp_path: Path) -> None:
    kept_levels.keep(tmp_path, replace(LEVELS, embed={}))
    file = tmp_path / kept_levels.FILE
    file.write_text(file.read_text().replace('"eta": 2.0', f'"eta": {value}'))
    with pytest.raises(InvalidInput, match="damaged"):
        kept_levels.find(tmp_path, MEASURED_ON, SIZES)


def test_the_digest_tells_words_sources_and_names_apart(tmp_path: Path) -> None:
    sources = [tmp_path / "counts", tmp_path / "facts"]
    for folder in sources:
        folder.mkdir()
        (folder / "words.tsv").write_text("a\t1\n")
    found = {digest(["a", "b"], sources, "bert", "16")}
    found |= {digest(["b", "a"], sources, "bert", "16"), digest(["a", "b"], sources, "bert", "8")}
    (sources[0] / "README.md").write_text("only said")
    assert digest(["a", "b"], sources, "bert", "16") in found
    (sources[1] / "words.tsv").write_text("a\t2\n")
    found.add(digest(["a", "b"], sources, "bert", "16"))
    assert len(found) == 4


def test_the_shipped_levels_belong_to_the_default_bundle(
    bundle: Bundle, shipped_models: Path
) -> None:
    """After a change of the words or classes: sotto-models build-bundle --measure-levels."""
    manifest = bundle.manifest
    sources = [shipped_models / part for part in ("tagger", "frequencies", "facts")]
    names = (manifest.backbone.sha256, str(manifest.dimensions), "")
    measured_on = digest(list(bundle.words), sources, *names)
    sizes = {name: each.words for name, each in manifest.classes.items()}
    found = kept_levels.find(shipped_models / "levels", measured_on, sizes)
    assert found is not None
    assert found.by_mechanism.keys() == manifest.calibration.keys()
    for mechanism, (levels, curve) in found.by_mechanism.items():
        assert levels == manifest.calibration[mechanism]
        assert curve == manifest.curve[mechanism]
    assert found.embed == manifest.embed
