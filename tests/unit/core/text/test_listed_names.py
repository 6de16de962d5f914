"""The public lists of names, and their marks of a word for the finder that reads the sentence."""

from __future__ import annotations

import pytest

from sottovoce.core.text import context_finder, tagger
from sottovoce.core.text.vocabulary import Listed, Mark, listed_names


@pytest.mark.parametrize(
    ("name", "lists"),
    [
        ("Kowalski", Listed.SURNAME),
        ("smith", Listed.SURNAME | Listed.USUAL_SURNAME),
        ("NADIA", Listed.GIVEN),
        ("José", Listed.GIVEN),
        ("Dunfermline", Listed.TOWN),
        ("Lisbon", Listed.TOWN | Listed.LARGE_CITY),
        ("Paulo", Listed.PART),
    ],
)
def test_a_name_is_in_its_lists_in_any_case(name: str, lists: int) -> None:
    assert listed_names(name) & lists == lists


@pytest.mark.parametrize("word", ["", "kubernetes", "refactor", "42", "\n", "x" * 200, "\ud800"])
def test_other_words_are_in_none(word: str) -> None:
    assert not listed_names(word)


def test_the_network_is_told_the_form_and_the_lists() -> None:
    *form, marks, names = context_finder.features("Rose")
    assert tuple(form) == tagger.form_features("Rose")
    assert int(marks) & Mark.NAME
    assert int(names) & Listed.GIVEN
    assert len(form) + 2 == len(context_finder.FEATURES)
