"""Public phrases are names of several words; what may be a person or a date is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.vocabulary import Mark
from sottovoce.models.public_phrases import build, collect, may_be_person
from tests.support.paths import ROOT

_PLANT, _PERSON, _GROUP, _TIME, _FOOD = 20, 18, 14, 28, 13


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    folder = tmp_path_factory.mktemp("lists")
    lemmas = (
        *((_PLANT, "Boston_ivy"), (_PERSON, "Abraham_Lincoln"), (_GROUP, "Hanseatic_League")),
        *((_TIME, "December_8"), (_FOOD, "iceberg_lettuce"), (_FOOD, "Tom_Collins")),
        *((_PLANT, "genus_Rosa"), (_FOOD, "rose_hip")),
    )
    lines = [f"{at:08} {kind:02} n 01 {text} 0 000 | x" for at, (kind, text) in enumerate(lemmas)]
    (folder / "data.noun").write_text("  1 licence\n" + "\n".join(lines), encoding="latin-1")
    brands = ["Toyota Corolla", "emoji blue bird", "Blue Bird icon", "Home Smart", "Emma Watson"]
    assert collect(folder, brands, folder) == 5
    (folder / "phrases.txt").write_text("Bell's palsy\njane eyre\n", encoding="utf-8")
    (folder / "landmarks.txt").write_text("Mont Saint-Michel\n", encoding="utf-8")
    return build(folder)


@pytest.mark.parametrize("name", ["phrases.txt", "landmarks.txt"])
def test_no_phrase_written_by_hand_may_be_a_person(name: str) -> None:
    lines = (ROOT / "models" / "vocabulary" / name).read_text("utf-8").splitlines()
    # A line in small letters was looked at by itself.
    cased = [re.findall(r"[\w'-]+", line) for line in lines if line != line.lower() and " " in line]
    assert len(cased) > 1_000
    assert [words for words in cased if may_be_person(words)] == []


@pytest.mark.parametrize(
    "text", ["Tom Collins", "Rosie and Jim", "Walker & Dunlop", "The Smiths", "garry oak"]
)
def test_what_may_be_a_person_is_told(text: str) -> None:
    assert may_be_person(text.split())


@pytest.mark.parametrize("text", ["Boston ivy", "Toyota Corolla", "Bay of Biscay"])
def test_what_is_no_person_is_told(text: str) -> None:
    assert not may_be_person(text.split())


def test_each_phrase_says_where_it_may_pass(found: dict[str, int]) -> None:
    assert found == {
        "boston_ivy": Mark.PUBLIC | Mark.NAME | Mark.SMALL,
        "hanseatic_league": Mark.PUBLIC | Mark.PLACE | Mark.COMMON,
        "iceberg_lettuce": Mark.PUBLIC | Mark.SMALL | Mark.COMMON,
        "rose_hip": Mark.PUBLIC | Mark.NAME | Mark.SMALL | Mark.COMMON,
        "toyota_corolla": Mark.PUBLIC,
        "bell_'s_palsy": Mark.PUBLIC | Mark.NAME | Mark.SMALL | Mark.COMMON,
        "jane_eyre": Mark.PUBLIC | Mark.NAME | Mark.WORD,
        "mont_saint_-_michel": Mark.PUBLIC | Mark.PLACE | Mark.NAME,
    }


def test_a_missing_list_of_phrases_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"phrases\.txt\.gz"):
        build(tmp_path)
