"""Finds public phrases: names of several words that pass as a whole, like "Black Forest gateau".

The phrases ship with the device, so no provider can add one. Beside another word
with a capital a phrase may be part of a longer name ("Moby Dick Fish Bar"), and does not pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from sottovoce.core.privacy.cities import tells_of_home
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import POSSESSIVES, listed
from sottovoce.core.text.vocabulary import Mark, Vocabulary, plain
from sottovoce.core.text.words import Kind

PHRASES_FILE: Final = "phrases.en.bin"
"""The phrases, in the form of a `Vocabulary`."""
MOST_WORDS: Final = 6


def pass_phrases(document: str, sight: Sight, hides: list[str]) -> dict[range, list[str]]:
    """Let public phrases pass, and return the earlier kind of each of their words."""
    living = tells_of_home(document, sight)
    found = {
        span: hides[span.start : span.stop] for span in public_phrases(sight, hides, living=living)
    }
    for span in found:
        hides[span.start : span.stop] = [""] * len(span)
    return found


def hide_phrases(hides: list[str], phrases: Mapping[range, Sequence[str]]) -> None:
    """Hide a phrase again if one of its words is now part of a name: "Mr Zanussi said ..."."""
    for span, before in phrases.items():
        if any(hides[place] for place in span):
            for place, hidden in zip(span, before, strict=True):
                hides[place] = hides[place] or hidden


def public_phrases(sight: Sight, hides: Sequence[str], *, living: bool) -> Iterator[range]:
    """Yield the places of public phrases.

    Args:
        hides: what each word hides.
        living: the text tells of a home, work or family. There a phrase passes only if it holds no
            given name, is no place, and is more than everyday words: "Jane Eyre is my tenant".
    """
    living = living or not _PRIVATE.isdisjoint(sight.lower)
    found = [*_found(sight, hides, living=living)]
    persons = {place for place, hidden in enumerate(hides) if hidden == "persons"}
    persons.difference_update(*found)
    while refused := [span for span in found if not persons.isdisjoint(_across(sight, span))]:
        found = [span for span in found if span not in refused]
        persons.update(*refused)  # "Kerr, Garry Oak, Jane Eyre"
    yield from found


def _found(sight: Sight, hides: Sequence[str], *, living: bool) -> Iterator[range]:
    words = [plain(lower) for lower in sight.lower]
    ends: dict[int, int] = {}
    done = 0
    for place, hidden in enumerate(hides):
        if not hidden or place < done:
            continue
        for first in range(max(done, place + 1 - MOST_WORDS), place + 1):
            if first not in ends:
                ends[first] = _end(sight, words, first, living=living)
            end = ends[first]
            if end > place and not _is_part(sight, hides, first, end):
                yield range(first, end)
                done = end
                break


def _across(sight: Sight, span: range) -> Iterator[int]:
    """Yield the words before and after a phrase from which one or two signs part it."""
    for step, beside in ((-1, span.start - 1), (1, span.stop)):
        for other in (beside + step, beside + 2 * step):
            between = range(min(other, beside), max(other, beside) + 1)
            if between.start < 0 or between.stop > len(sight.words):
                break
            if any(map(sight.breaks, range(between.start + 1, between.stop))):
                break
            *signs, word = between if step > 0 else reversed(between)
            if all(sight.words[at].kind is Kind.PUNCTUATION for at in signs):
                yield word


def _end(sight: Sight, words: Sequence[str], first: int, *, living: bool) -> int:
    """Return the end of the longest phrase that begins at a place, or the place itself."""
    found = _beginning(words[first])
    for end in range(min(first + MOST_WORDS, len(words)), first, -1) if found else ():
        rest = tuple(words[first + 1 : end])
        marks = found.get(rest, 0)
        if not marks and rest and rest[-1][-1:] == "s":
            marks = found.get((*rest[:-1], rest[-1][:-1]), 0)
        if not marks or any(map(sight.breaks, range(first + 1, end))):
            continue
        if _passes(sight, first, end, marks, living=living) and not _met(sight, first, end, marks):
            model = end < len(words) and words[end] in _MODELS and sight.gaps[end] == " "
            return end + 1 if model and not marks & Mark.NAME else end
    return first


def _passes(sight: Sight, first: int, end: int, marks: int, *, living: bool) -> bool:
    """Return whether a phrase is written like a public name, in a text that mentions no home."""
    letters = (word.text for word in reversed(sight.words[first:end]) if word.text[0].isalpha())
    small = next(letters, "").islower()
    if marks & Mark.SMALL:
        if not small or (marks & Mark.NAME and not sight.capital(first)):
            return False  # "the Red Snapper", a restaurant; "Garry Oak" and "garry oak", persons
        marks &= ~(Mark.NAME | Mark.COMMON)  # "Virginia creeper"
    elif (
        small
        and marks & _MEANT
        and not marks & Mark.WORD
        and any(map(sight.capital, range(first, end)))
    ):
        return False  # "Angela's ashes"
    return not living or not marks & (Mark.PLACE | Mark.NAME | Mark.COMMON)


@lru_cache(512)
def _beginning(word: str) -> dict[tuple[str, ...], int]:
    """Return the rest of each phrase that begins with a word, and its marks."""
    if "_" in word:
        return {}
    phrases = Vocabulary.in_file(PHRASES_FILE)
    found = {(*key.split("_")[1:],): marks for key, marks in phrases.beginning(f"{word}_")}
    return found | ({(): marks} if (marks := phrases.marks(word)) else {})


def _is_part(sight: Sight, hides: Sequence[str], first: int, end: int) -> bool:
    """Return whether a phrase may be part of a longer name: "Moby Dick Fish Bar", "Kerr-Black"."""
    for step, other in ((-1, first - 1), (1, end)):
        if 0 <= other + step < len(hides) and sight.lower[other] in _JOINTS:
            other += step
        edge = max(other, other - step)
        if not 0 <= other < len(hides) or sight.gaps[edge] not in ("", " "):
            continue
        if not sight.capital(other) or (step < 0 and sight.lower[other] in POSSESSIVES):
            continue
        shouted = sight.words[other].text.isupper() and sight.words[first].text.isupper()
        inner = step > 0 or not sight.begins(other)
        if hides[other] or sight.marks[other] & Mark.NAME or (inner and not shouted):
            return True
    return False


def _met(sight: Sight, first: int, end: int, marks: int) -> bool:
    """Return whether a text treats a phrase as a person or a firm: "call Don Quixote"."""
    skipped = first > 0 and sight.words[first - 1].text in (",", ":", '"', "“", "the", "The")
    at = first - 1 - skipped
    near = sight.lower[max(at - _NEAR, 0) : at + 1] if at >= 0 and not sight.breaks(first) else []
    before = near[-1] if near else ""
    everyday = marks & Mark.COMMON and before in _PLACED
    if before in _DEALING or everyday or (before in _SENT and not _DEALT.isdisjoint(near)):
        return True
    if before in _AT and not _LIVES.isdisjoint(near):
        return True  # "works for Kura Sushi"
    return end < len(sight.words) and not sight.breaks(end) and sight.lower[end] in _DOES


_NEAR: Final = 5
_MODELS: Final = frozenset({"air", "lite", "max", "mini", "plus", "pro", "se", "ultra", "xl"})
"""What ends the name of a product: "Apple Watch SE"."""
_MEANT: Final = Mark.NAME | Mark.COMMON
_AT: Final = frozenset({"at", "for", "in", "is", "on"})
_LIVES: Final = frozenset(
    {"home", "live", "lived", "lives", "living", "work", "worked", "working", "works"}
)
_JOINTS: Final = frozenset({"-", "–", "&"})
_SENT: Final = frozenset({"to", "for", "from", "against", "with", ":"})
_PLACED: Final = frozenset({"at", "by", "near", "outside", "via"})
_DEALING: Final = listed("addressed") - {"tell", "text"} | listed("dealing")
_DEALT: Final = listed("dealt")
_DOES: Final = listed("person_verbs") | listed("does")
_PRIVATE: Final = listed("private")
"""Words of money, work and law, which tell of persons and firms."""
