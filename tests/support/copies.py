"""Near copies of a message, as everyday use makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

COPIES: Final = 20
_LAST: Final = ("river", "window", "dinner", "letter", "garden")
_DAYS: Final = ("Monday", "Tuesday", "Thursday", "Friday", "Sunday")
_ENDINGS: Final = (" ", "\n", "  ", "\t", " \n\n")


def copies(message: str) -> Iterator[str]:
    """Twenty: five of each with its last word changed, a comma put in, white space put in or at the
    end, and quoted in an answer."""
    words = message.split()
    for number in range(COPIES // 4):
        yield " ".join([*words[:-1], _LAST[number]])
        place = 1 + (number * 7) % max(1, len(words) - 2)
        yield " ".join([*words[:place], ",", *words[place:]])
        yield "  ".join((" ".join(words[:place]), " ".join(words[place:]))) + _ENDINGS[number]
        quoted = f"On {_DAYS[number]} you wrote:\n> " + "\n> ".join(_lines(words))
        yield f"{quoted}\nThanks, that is fine."


def _lines(words: Sequence[str], width: int = 12) -> Iterator[str]:
    for start in range(0, len(words), width):
        yield " ".join(words[start : start + width])
