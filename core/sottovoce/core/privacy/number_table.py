"""Looks up the numbers of one conversation, in whatever groups an answer writes them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from sottovoce.core.privacy.policies import IDENTIFIER
from sottovoce.core.privacy.surrogate_table import AMOUNT, TOKEN, Place

_LONG_NUMBER: Final = 6
"""Digits of a number that may come in other groups."""
_GROUPED: Final = frozenset(" -./\xa0\u202f")
"""What may stand between two groups."""


class NumberTable:
    """Looks up numbers that an answer groups in another way: "3192-6819" for "31926819".

    Args:
        places: of one conversation; only identifiers among them are read.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self._true: dict[str, str] = {}
        unsure = set()
        left = true = last = ""
        for place in places:
            parts = TOKEN.findall(place.released), TOKEN.findall(place.true)
            groups = "".join(parts[0]), "".join(parts[1])
            plain = place.kind == IDENTIFIER and all(map(str.isdecimal, groups))
            goes_on = plain and last and place.before == last
            left, true = (left + groups[0], true + groups[1]) if goes_on else groups
            last = groups[0] if plain else ""
            key = left.lower()
            if not _is_number(place, left) or len(left) != len(true) or key == true.lower():
                continue
            if [*map(len, parts[0])] != [*map(len, parts[1])]:
                continue  # a date, whose surrogate may have another form
            if self._true.setdefault(key, true) != true:
                unsure.add(key)
        for key in unsure:
            del self._true[key]
        self._keys = sorted(self._true)

    def begins(self, word: str) -> bool:
        """Return whether a number may begin with a run of letters and digits in small letters."""
        at = bisect_left(self._keys, word)
        return at < len(self._keys) and self._keys[at].startswith(word)

    def end(self, text: str, start: int, *, final: bool) -> int | None:
        """Return the end of the number that begins at ``start``; ``start`` if none begins there.

        None if more text is needed to decide.
        """
        key, at, found = "", start, start
        while token := TOKEN.match(text, at):
            key += token[0].lower()
            if not self.begins(key):
                break
            at = token.end()
            if len(text) < at + 2 and not final:
                return None
            joint, after = text[at : at + 1], text[at + 1 : at + 2]
            if key in self._true and not (joint in "-./" and joint and after.isdigit()):
                found = at
            if joint not in _GROUPED:
                break
            at += 1
        return found

    def rewritten(self, came: str) -> str:
        """Return the true number in the groups of the answer."""
        characters = iter(self._true["".join(TOKEN.findall(came)).lower()])
        return "".join(next(characters) if TOKEN.match(each) else each for each in came)


def _is_number(place: Place, characters: str) -> bool:
    """Return whether letters and digits are a long number that is no amount or address."""
    digits = sum(map(str.isdecimal, characters))
    mixed = "@" in place.released or "://" in place.released or not place.released[:1].isalnum()
    return (
        place.kind == IDENTIFIER
        and digits >= _LONG_NUMBER
        and 2 * digits > len(characters)
        and not mixed
        and (place.released.isdecimal() or not AMOUNT.fullmatch(place.released))
    )
