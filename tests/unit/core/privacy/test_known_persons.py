"""Parts of a name found elsewhere are hidden."""

from __future__ import annotations

import pytest

from sottovoce.core.privacy.persons import (
    hide_again,
    hide_initials,
    hide_places_again,
    pass_titles,
)
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.text.vocabulary import Vocabulary
from sottovoce.core.text.words import Kind, split

PERSON = "persons"


def sight(text: str) -> Sight:
    words = split(text, ("'s",))
    ends = [0, *(word.end for word in words)]
    gaps = [text[end : word.start] for end, word in zip(ends, words, strict=False)]
    marks = Vocabulary.shipped().marks
    known = [marks(word.text) if word.kind is Kind.WORD else 0 for word in words]
    return Sight(words, gaps, known, [word.text.lower() for word in words])


def hidden(seen: Sight, hides: list[str]) -> list[str]:
    return [word.text for word, hide in zip(seen.words, hides, strict=True) if hide]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tell Rose and quarnivel", ["Rose", "quarnivel"]),
        ("Quarnivel's house; QUARNIVEL", ["Quarnivel", "QUARNIVEL"]),
        ("water the rose", []),
        ("Rose is ill", []),
        ("in May 2020", []),
        ("I moved on", []),
    ],
)
def test_parts_of_known_names_are_hidden(text: str, found: list[str]) -> None:
    seen = sight(text)
    hides = [""] * len(seen.words)
    hide_again(seen, hides, {"rose", "quarnivel", "may", "i"})
    assert hidden(seen, hides) == found


def test_a_name_that_was_found_is_hidden_in_the_same_text() -> None:
    seen = sight("Quarnivel came. Then quarnivel left.")
    hides = [PERSON, *[""] * (len(seen.words) - 1)]
    hide_again(seen, hides, frozenset())
    assert hidden(seen, hides) == ["Quarnivel", "quarnivel"]


def test_places_and_organisations_are_hidden_again_and_no_ordinary_words() -> None:
    seen = sight("is Quarnivel or zyxglorp cheap, and bath, and a rose")
    hides = [""] * len(seen.words)
    known = {"quarnivel": "places", "zyxglorp": "organisations", "bath": "places", "rose": "places"}
    hide_places_again(seen, hides, known, [0.0] * len(hides))
    assert hidden(seen, hides) == ["Quarnivel", "zyxglorp"]
    assert hides[seen.lower.index("zyxglorp")] == "organisations"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ask N. Kerr", ["N", "Kerr"]),
        ("ask J. R. Kerr", ["J", "R", "Kerr"]),
        ("plan B Kerr", ["Kerr"]),
        ("plan n. kerr", ["kerr"]),
    ],
)
def test_initials_before_a_found_name_are_hidden(text: str, found: list[str]) -> None:
    seen = sight(text)
    hides = [PERSON if word == "kerr" else "" for word in seen.lower]
    hide_initials(seen, hides)
    assert hidden(seen, hides) == found


def test_titles_and_greetings_before_a_name_pass() -> None:
    seen = sight("Dear Dr. Elena Marsh, Frau Kerr and Sir")
    hides = ["" if word.kind is Kind.PUNCTUATION else PERSON for word in seen.words]
    pass_titles(seen, hides)
    assert hidden(seen, hides) == ["Elena", "Marsh", "Kerr", "and", "Sir"]
