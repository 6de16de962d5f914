"""A language is data: read, written and checked."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.errors import DataLoss, NotFound
from sottovoce.models.corpus import Language, load_language

GOOD = {"code": "it", "clitics": ["'lo"], "accents": True, "carriers": [["Ecco", None, "."]]}


def test_english_comes_with_the_package() -> None:
    english = load_language("en")
    assert english.code == "en"
    assert {"n't", "'s"} <= set(english.clitics)
    assert all(carrier.count(None) == 1 for carrier in english.carriers)
    assert english.normal_form("Café’s") == "cafe's"


def test_another_is_read_from_a_file_and_survives_json(tmp_path: Path) -> None:
    (tmp_path / "it.json").write_text(json.dumps(GOOD), encoding="utf-8")
    found = load_language(str(tmp_path / "it.json"))
    assert found == Language("it", ("'lo",), True, (("Ecco", None, "."),))
    assert Language.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize(
    "change",
    [
        {"clitics": ["’S"]},
        {"clitics": None},
        {"carriers": []},
        {"carriers": [["no", "gap"]]},
        {"carriers": [[None, None]]},
    ],
)
def test_what_describes_no_language_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(GOOD | change), encoding="utf-8")
    with pytest.raises(DataLoss, match=r"x\.json"):
        load_language(str(tmp_path / "x.json"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for name in (str(tmp_path / "xx.json"), "xx", "../languages/en"):
        with pytest.raises(NotFound, match="no description of a language"):
            load_language(name)


@given(st.text(max_size=20))
def test_normal_forms_are_final(word: str) -> None:
    for language in (Language(), Language(accents=True)):
        once = language.normal_form(word)
        assert language.normal_form(once) == once
        assert "’" not in once


def test_accents_tell_words_apart_where_the_language_keeps_them() -> None:
    composed, apart = "schön", unicodedata.normalize("NFD", "schön")
    assert Language().normal_form(composed) == Language().normal_form(apart) == "schon"
    german = Language(accents=True)
    assert german.normal_form(composed) == german.normal_form(apart) == "schön"
