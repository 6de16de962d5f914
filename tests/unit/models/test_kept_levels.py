"""Kept levels belong to one bundle, and are found for no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import EmbedLevel, Level
from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.schema import decode, parse_object
from sottovoce.models import kept_levels
from sottovoce.models.kept_levels import Basis, Levels, digest

SIZES = {"NOUN": 1_000, "=VERB": 300}
MEASURED_ON = Basis("a" * 64, SIZES, (0.5, -0.25))
LEVELS = Levels(
    MEASURED_ON,
    {"t2t.v1": ({"strong": Level(0.1 + 0.2)}, (Level(2.0), Level(3.0)))},
    {"strong": EmbedLevel(4.0, 0.3)},
)


def test_what_is_kept_is_found_to_the_last_bit(tmp_path: Path) -> None:
    kept_levels.keep(tmp_path / "levels", LEVELS)
    assert kept_levels.find(tmp_path / "levels", MEASURED_ON) == LEVELS


def test_without_a_file_nothing_is_found(tmp_path: Path) -> None:
    assert kept_levels.find(tmp_path, MEASURED_ON) is None


def test_what_processors_round_does_not_matter(tmp_path: Path) -> None:
    kept_levels.keep(tmp_path, LEVELS)
    near = Basis("a" * 64, {"NOUN": 1_003, "=VERB": 297}, (0.505, -0.255))
    assert kept_levels.find(tmp_path, near)


@pytest.mark.parametrize(
    "other",
    [
        replace(MEASURED_ON, digest="b" * 64),
        replace(MEASURED_ON, sizes={"NOUN": 1_011, "=VERB": 300}),
        replace(MEASURED_ON, sizes={"NOUN": 1_000, "=VERB": 296}),
        replace(MEASURED_ON, sizes={"NOUN": 1_000}),
        replace(MEASURED_ON, sizes={**SIZES, "ADJ": 1}),
        replace(MEASURED_ON, sizes={"NOUN": 1_000, "=ADJ": 300}),
        replace(MEASURED_ON, sketch=(0.5, -0.27)),
        replace(MEASURED_ON, sketch=(0.5,)),
        replace(MEASURED_ON, sketch=(0.5, float("nan"))),
    ],
)
def test_levels_of_another_bundle_are_not_taken(other: Basis, tmp_path: Path) -> None:
    kept_levels.keep(tmp_path, LEVELS)
    assert kept_levels.find(tmp_path, other) is None


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\x00", b"[]", b"{}", b'{"format": "levels.v9"}'])
def test_a_damaged_file_is_told_with_the_fix(data: bytes, tmp_path: Path) -> None:
    (tmp_path / kept_levels.FILE).write_bytes(data)
    with pytest.raises(InvalidInput, match="damaged") as caught:
        kept_levels.find(tmp_path, MEASURED_ON)
    assert "--measure-levels" in caught.value.fix


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1", "true", '"3"'])
def test_no_eta_but_a_positive_number_is_taken(value: str, tmp_path: Path) -> None:
    kept_levels.keep(tmp_path, replace(LEVELS, embed={}))
    file = tmp_path / kept_levels.FILE
    file.write_text(file.read_text().replace('"eta": 2.0', f'"eta": {value}'))
    with pytest.raises(InvalidInput, match="damaged"):
        kept_levels.find(tmp_path, MEASURED_ON)


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


def test_the_default_bundle_has_the_shipped_levels(bundle: Bundle, shipped_models: Path) -> None:
    """After a change of words, classes or targets: sotto-models build-bundle --measure-levels."""
    manifest = bundle.manifest
    sizes = {name: each.words for name, each in manifest.classes.items()}
    _, raw = parse_object((shipped_models / "levels" / kept_levels.FILE).read_bytes())
    shipped = decode(Levels, raw)
    assert shipped.measured_on.sizes == pytest.approx(sizes, rel=0.01)
    for mechanism, (levels, curve) in shipped.by_mechanism.items():
        assert levels == manifest.calibration[mechanism]
        assert curve == manifest.curve[mechanism]
    assert shipped.by_mechanism.keys() == manifest.calibration.keys()
    assert shipped.embed == manifest.embed
