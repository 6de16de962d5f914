"""Documents as arrays, and the places that share one draw under each way to draw noise.

Only the pattern of shared draws matters for the comparison. The noise has the same distribution
under every way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.attacks.text import Ints, Lexicon
from sottovoce.core.text.word_classes import READINGS
from sottovoce.core.text.words import Context, Kind, split

__all__ = ["COPIES", "NOISED", "WAYS", "Copy", "Corpus", "copies", "label", "places"]

COPIES: Final = 20
_LAST: Final = ("river", "window", "dinner", "letter", "garden")
_DAYS: Final = ("Monday", "Tuesday", "Thursday", "Friday", "Sunday")
_ENDINGS: Final = (" ", "\n", "  ", "\t", " \n\n")


class Copy(NamedTuple):
    """A text with all words of a message but the last ``changed``, after ``before`` other words."""

    text: str
    before: int
    changed: int


def copies(message: str) -> Iterator[Copy]:
    """Return twenty near copies, five of each sort.

    The sorts are: last word changed, comma added, white space added, and quoted in an answer.
    """
    words = message.split()
    for number in range(COPIES // 4):
        yield Copy(" ".join([*words[:-1], _LAST[number]]), 0, 1)
        place = 1 + (number * 7) % max(1, len(words) - 2)
        yield Copy(" ".join([*words[:place], ",", *words[place:]]), 0, 0)
        yield Copy(
            "  ".join((" ".join(words[:place]), " ".join(words[place:]))) + _ENDINGS[number], 0, 0
        )
        quoted = f"On {_DAYS[number]} you wrote:\n> " + "\n> ".join(_lines(words))
        yield Copy(f"{quoted}\nThanks, that is fine.", 4, 0)


def _lines(words: Sequence[str], width: int = 12) -> Iterator[str]:
    for start in range(0, len(words), width):
        yield " ".join(words[start : start + width])


def places(made: Copy, index: Places, length: int) -> Places:
    """Return the word of the message at each ``index`` of a copy, -1 for none: Ints1d (n,).

    Args:
        made: the copy.
        index: places of its words, punctuation not counted.
        length: words of the message.
    """
    found = index - made.before
    inside = (found >= 0) & (found < length - made.changed)
    return np.where(inside, found, -1)


NOISED: Final = ("NOUN", "VERB", "ADJ", "ADV", "FACT")
"""Readings whose words get noise and are judged, as in the policy `content`."""

_UNKNOWN: Final = -1
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Corpus:
    """Documents, and their n words without punctuation.

    Attributes:
        ids: Ints1d (n,), numbers of a `Lexicon`.
        left, right: Ints1d (n,), the numbers of the words beside each within its sentence, or the
            boundary's.
        before, after: Ints1d (n,), the places of those words, -1 where there is none.
        reading: Ints1d (n,), places in `READINGS`; -1 for unlisted readings.
        document: Ints1d (n,).
        index: Ints1d (n,), place within the document.
        noised: Bools1d (n,), true for words with noise.
    """

    ids: Ints
    left: Ints
    right: Ints
    before: Places
    after: Places
    reading: Ints
    document: Ints
    index: Ints
    noised: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        documents: Sequence[str],
        lexicon: Lexicon,
        clitics: Sequence[str],
        readings: NDArray[np.uint8],
    ) -> Corpus:
        """Split documents into words as the device does."""
        columns: list[tuple[int, int, int, int]] = []
        for place, text in enumerate(documents):
            words = split(text, clitics)
            forms = [lexicon.number(word.text) for word in words]
            said = [any(map(str.isalnum, word.text)) for word in words]
            shown = [
                str(form) if any_said else "" for form, any_said in zip(forms, said, strict=True)
            ]
            before = Context().before(words, shown)
            index = 0
            for word, form, last, any_said in zip(words, forms, before, said, strict=True):
                if word.kind is Kind.PUNCTUATION or not any_said:
                    continue
                columns.append((form, int(last) if last else lexicon.boundary, place, index))
                index += 1
        ids, left, document, index_in = np.array(columns, np.int32).reshape(-1, 4).T.copy()
        starts = left == lexicon.boundary
        starts[np.flatnonzero(np.diff(document)) + 1] = True
        starts[:1] = True
        places = np.arange(len(ids))
        after = np.where(np.append(starts[1:], True), _UNKNOWN, places + 1)
        right = np.where(after == _UNKNOWN, lexicon.boundary, np.append(ids[1:], lexicon.boundary))
        listed = ids < lexicon.listed
        reading = np.where(listed, readings[np.minimum(ids, lexicon.listed - 1)], _UNKNOWN)
        noised = np.isin(reading, [READINGS.index(name) for name in NOISED])
        return cls(
            ids,
            left,
            right.astype(np.int32),
            np.where(starts, _UNKNOWN, places - 1),
            after,
            reading.astype(np.int32),
            document,
            index_in,
            noised,
        )

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.ids)


def label(*columns: NDArray[np.integer]) -> Places:
    """Return one number for each distinct row of the columns: Ints1d (n,)."""
    found: Places = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].ravel()
    return found


WAYS: Final[dict[str, Callable[[Corpus], Places]]] = {
    "fresh in every document": lambda text: label(text.document, text.index),
    "word and place": lambda text: label(text.ids, text.index),
    "word, left and right": lambda text: label(text.ids, text.left, text.right),
    "word and left": lambda text: label(text.ids, text.left),
    "word, within a document": lambda text: label(text.ids, text.document),
    "word": lambda text: label(text.ids),
}
"""By name, a number for each place; places with equal numbers share one draw: Ints1d (n,)."""
