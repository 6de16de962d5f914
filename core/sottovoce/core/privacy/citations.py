"""Finds numbers of public catalogues and of courts' reports: "ISIN US0378331005", "384 U.S. 436".

They name a paper, a treatment or a case that anyone can look up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sottovoce.core.privacy.identifying import BAUD
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import listed
from sottovoce.core.text.vocabulary import Listed, listed_names
from sottovoce.core.text.words import Kind

_CATALOGUES: Final = listed("catalogues")
_ENTRY = re.compile(r"(?=.*\d)[A-Z0-9]{1,12}(?:[.-]\d{1,4}){0,2}")
_JOINTS: Final = frozenset(
    {*(",", "(", ")", ":", "/"), *("and", "code", "codes", "is", "number", "or", "the", "vs")}
)
_NEAR: Final = 8
_REPORTERS: Final = listed("reporters")
_ARTICLES: Final = listed("article_numbers")
_BOOKS: Final = frozenset({"isbn", "isbn-10", "isbn10"})
_OWNED: Final = frozenset(
    {*("account", "boarding", "call", "card", "id", "locker", "member", "membership", "mobile")}
    | {*("order", "parcel", "passport", "patient", "phone", "phoned", "pin", "telephone")}
)
_BEFORE_ARTICLE: Final = frozenset({*":=-'\"", "10", "13", "and", "code", "codes", "is", "number"})
_ARTICLE = re.compile(r"\d(?:-?\d){8,11}-?[\dX]")
_NEAR_ARTICLE: Final = 4
_SPEED = re.compile(r"baud|bps|serial|uart|stty|minicom|(?:/dev/)?tty\w+")
_NEAR_SPEED: Final = 7
_BOOK: Final = 10
_BASES = re.compile(r"[ACGTU]{8,}")
_FEWEST_BASES: Final = 3
_SURE_BASES: Final = 15
"""Bases that no name, and no password that one can keep in mind, has."""
_ACIDS = re.compile(r"[ACDEFGHIKLMNPQRSTVWY]{18,5000}")
_FEWEST_ACIDS: Final = 9
"""Kinds of letters, so that no long name counts."""
_SEQUENCES: Final = frozenset(
    {*("amino", "fasta", "peptide", "polypeptide", "protein", "proteins", "residues", "sequence")}
)
_OF_BASES: Final = (_SEQUENCES | {"bases", "codon", "dna", "gene", "mrna", "primer", "rna"}) - {
    "amino"
}
_KEYS: Final = (
    listed("account_keys")
    | listed("contact_keys")
    | listed("locks")
    | listed("secret_keys")
    | listed("number_keys")
) - {"cell", "no", "nr", "number", "order", "unit"}
_NEAR_SEQUENCE: Final = 12
_USUAL: Final = Listed.USUAL_GIVEN | Listed.USUAL_SURNAME
_PAGE = re.compile(r"\d{1,4}")


def citations(sight: Sight) -> Iterator[int]:
    """Yield the places of the words of public numbers."""
    words = sight.words
    for place in range(1, len(words)):
        if sight.lower[place] in _REPORTERS and _PAGE.fullmatch(words[place - 1].text):
            yield place - 1
            yield place
            if place + 1 < len(words) and _PAGE.fullmatch(words[place + 1].text):
                yield place + 1
        if _ENTRY.fullmatch(words[place].text):
            at = place - 1
            while at > max(place - _NEAR, 0) and _joins(sight, at):
                at -= 1
            if words[at].text in _CATALOGUES:
                yield place
        if words[place].kind is Kind.IDENTIFIER and _is_article(words[place].text):
            at = place - 1
            while at > max(place - _NEAR_ARTICLE, 0) and sight.lower[at] in _BEFORE_ARTICLE:
                at -= 1
            near = sight.lower[max(at - _NEAR_ARTICLE, 0) : place + _NEAR_ARTICLE]
            key = sight.lower[at].removesuffix("s") if _OWNED.isdisjoint(near) else ""
            book = sum(map(str.isalnum, words[place].text)) == _BOOK
            if key in (_BOOKS if book else _ARTICLES):
                yield from (at, place)
        if words[place].kind is Kind.IDENTIFIER and BAUD.fullmatch(words[place].text):
            near = sight.lower[max(place - _NEAR_SPEED, 0) : place + _NEAR_SPEED]
            if any(_SPEED.fullmatch(word) for word in near):
                yield place
        if _is_sequence(sight, place):
            yield place


def _is_article(text: str) -> bool:
    """Return whether a number has the form of a book's or a product's, and the check digit.

    >>> _is_article("0-306-40615-2"), _is_article("4006381333931"), _is_article("0306406153")
    (True, True, False)
    """
    if not _ARTICLE.fullmatch(text):
        return False
    digits = [10 if sign == "X" else int(sign) for sign in text if sign != "-"]
    if len(digits) == _BOOK:
        return sum(digit * (_BOOK - at) for at, digit in enumerate(digits)) % 11 == 0
    return len(digits) in (12, 13) and (sum(digits[-1::-2]) + 3 * sum(digits[-2::-2])) % 10 == 0


def _is_sequence(sight: Sight, place: int) -> bool:
    """Return whether a word is a run of bases, or of amino acids near a word for them."""
    text = sight.words[place].text
    bases = _BASES.fullmatch(text) and len({*text}) >= _FEWEST_BASES
    if not bases and not _ACIDS.fullmatch(text):
        return False
    beside = sight.lower[max(place - _NEAR_ARTICLE, 0) : place + _NEAR_ARTICLE + 1]
    if not _KEYS.isdisjoint(beside):
        return False
    near = sight.lower[max(place - _NEAR_SEQUENCE, 0) : place + _NEAR_SEQUENCE]
    if bases:
        return len(text) >= _SURE_BASES or any(word.removesuffix("s") in _OF_BASES for word in near)
    acids = _ACIDS.fullmatch(text) and len({*text}) >= _FEWEST_ACIDS
    if not acids or _SEQUENCES.isdisjoint(near):
        return False
    parts = (text[at : at + size] for size in range(4, 10) for at in range(len(text) - size + 1))
    return not any(listed_names(part.title()) & _USUAL for part in parts)  # "LINDQVISTKARL"


def _joins(sight: Sight, place: int) -> bool:
    """Return whether a word may stand between a catalogue and an entry: "CPT code 11042 vs"."""
    text = sight.words[place].text
    if text in _CATALOGUES:
        return False
    symbol = text.isupper() and text.isalpha()
    return symbol or sight.lower[place] in _JOINTS or _ENTRY.fullmatch(text) is not None
