"""Near copies of a message, as everyday use makes them, and the places of its words in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from bench.keying.corpus import Places

__all__ = ["COPIES", "Copy", "copies", "places"]

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
