"""Finds public phrases: names of several words that pass as a whole, like "Black Forest gateau".

The phrases ship with the device, so no provider can add one. Beside another word
with a capital a phrase may be part of a longer name ("Moby Dick Fish Bar"), and does not pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import listed
from sottovoce.core.privacy.surrogates import names
from sottovoce.core.text.vocabulary import Mark, Vocabulary, plain

PHRASES_FILE: Final = "phrases.en.bin"
"""The phrases, in the form of a `Vocabulary`."""
MOST_WORDS: Final = 6


def public_phrases(sight: Sight, hides: Sequence[str], *, living: bool) -> Iterator[range]:
    """Yield the places of public phrases.

    Args:
        hides: what each word hides.
        living: the text tells of somebody's home, work or family. Then neither a place passes nor a
            phrase that begins with a given name: "Jane Eyre is my tenant".
    """
    done = 0
    for place, hidden in enumerate(hides):
        if not hidden or place < done:
            continue
        for first in range(max(done, place + 1 - MOST_WORDS), place + 1):
            end = _end(sight, first, living=living)
            if (
                end > place
                and not _is_part(sight, hides, first, end)
                and not _met(sight, first, end)
            ):
                yield range(first, end)
                done = end
                break


def _end(sight: Sight, first: int, *, living: bool) -> int:
    """Return the end of the longest phrase that begins at a place, or the place itself."""
    longest = first
    for rest, marks in _beginning(plain(sight.words[first].text)):
        end = first + 1 + len(rest)
        if not longest < end <= len(sight.words):
            continue
        last = sight.words[end - 1].text
        small = last.isalpha() and last.islower()
        if marks & Mark.SMALL and not small:
            continue  # "the Red Snapper", a restaurant
        nobody = small and sight.capital(first)  # "Virginia creeper"
        if living and marks & (Mark.PLACE if nobody else Mark.PLACE | Mark.NAME):
            continue
        words = [plain(word.text) for word in sight.words[first + 1 : end]]
        same = words == rest or (words[:-1] == rest[:-1] and words[-1:] == [f"{rest[-1]}s"])
        if same and not any(map(sight.breaks, range(first + 1, end))):
            longest = end
    return longest


@lru_cache(512)
def _beginning(word: str) -> list[tuple[list[str], int]]:
    """Return what follows a word in phrases, with the marks of each phrase."""
    if "_" in word:
        return []
    phrases = Vocabulary.in_file(PHRASES_FILE)
    found: list[tuple[list[str], int]] = [([], marks)] if (marks := phrases.marks(word)) else []
    for key, marks in phrases.beginning(f"{word}_"):
        found.append((key.split("_")[1:], marks))
    return found


def _is_part(sight: Sight, hides: Sequence[str], first: int, end: int) -> bool:
    """Return whether a phrase may be part of a longer name: "Moby Dick Fish Bar", "Kerr-Black"."""
    for step, other in ((-1, first - 1), (1, end)):
        if 0 <= other + step < len(hides) and sight.lower[other] in _JOINTS:
            other += step
        edge = max(other, other - step)
        if not 0 <= other < len(hides) or sight.gaps[edge] not in ("", " "):
            continue
        if not sight.capital(other):
            continue
        shouted = sight.words[other].text.isupper() and sight.words[first].text.isupper()
        inner = step > 0 or not sight.begins(other)
        if hides[other] or sight.marks[other] & Mark.NAME or (inner and not shouted):
            return True
    return False


def _met(sight: Sight, first: int, end: int) -> bool:
    """Return whether a phrase is somebody to deal with: "call Don Quixote", "John Deere signed"."""
    sign = sight.words[first - 1].text if first else ""
    before = sight.lower[first - 1 - (sign in (",", ":"))] if first > 1 else sign.lower()
    dealt = before in _DEALING or (sign == ":" and before in ("to", "from"))
    does = end < len(sight.words) and not sight.breaks(end) and sight.lower[end] in _DOES
    return (dealt and not sight.breaks(first)) or (does and names.known(sight.lower[first]))


_JOINTS: Final = frozenset({"-", "–", "&"})
_DEALING: Final = listed("addressed") - {"tell", "text"} | listed("dealing")
_DOES: Final = listed("person_verbs") | listed("does")
