"""Looks up the numbers of one conversation, in whatever groups an answer writes them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from sottovoce.core.privacy.policies import IDENTIFIER
from sottovoce.core.privacy.surrogate_table import AMOUNT, TOKEN, Place

_LONG_NUMBER: Final = 6
"""Digits of a number that may come in other groups."""
_GROUPED: Final = frozenset(" -./\xa0\u202f")
"""What may stand between two groups."""
_BLANKS: Final = frozenset(" \xa0\u202f")
_GROUP = re.compile(r"\d+|[A-Z\d]{1,4}")
"""A group of a number, also of an account: "DE89"."""
_NEXT_GROUP = re.compile(r"[ \xa0\u202f](\d+)(?!\w)")
_CODES: Final = ("1", "44")
"""Codes of countries that surrogates have, see `identifiers`."""


class NumberTable:
    """Looks up numbers that an answer groups in another way: "3192-6819" for "31926819".

    Args:
        places: of one conversation; only identifiers among them are read.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self.groups: dict[str, set[str]] = defaultdict(set)
        """What stood beside each group of a number of several groups, as it left."""
        exact, derived = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        whole = set[str]()
        for run in _runs(places):
            groups = [(_characters(place.released), _characters(place.true)) for place in run]
            for (one, _), (other, _) in pairwise(groups):
                self.groups[one.lower()].add(other.lower())
                self.groups[other.lower()].add(one.lower())
            for place, (group, _) in zip(run, groups, strict=True) if len(run) > 1 else ():
                self.groups[group.lower()] |= {place.before, place.after}
            for size, place in enumerate(run, 1):
                left, true = ("".join(each) for each in zip(*groups[:size], strict=True))
                if not _is_number(place, left) or left.lower() == true.lower():
                    continue
                exact[left.lower()].add(true)
                national = [*_national(run[0].released, len(groups[0][0]), size, left, true)]
                for form, other in national:
                    derived[form].add(other)
                if size == len(run):
                    whole |= {left.lower(), *(form for form, _ in national)}
        meant = derived | exact
        self._true = {key: true.pop() for key, true in meant.items() if len(true) == 1}
        self._begun = self._true.keys() - whole
        """The keys that are beginnings of longer ones alone."""
        self._keys = sorted(self._true)

    def is_part(self, last: str, before: str, word: str, after: str) -> bool:
        """Return whether a group stands beside a number that was not beside it in a release.

        Args:
            last: the characters before it.
            before: the word before it, in small letters.
            word: a group of digits.
            after: the characters after it, with all of the next word.
        """
        beside = self.groups.get(word)
        if not beside:
            return False
        follows = _NEXT_GROUP.match(after)
        precedes = last[-2:-1].isdigit() and last[-1:] in _BLANKS and before.isdecimal()
        return bool((precedes and before not in beside) or (follows and follows[1] not in beside))

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
            ends = not joint or joint not in (_GROUPED if key in self._begun else "-./")
            if key in self._true and (ends or not after.isdigit()):
                found = at
            if joint not in _GROUPED:
                break
            at += 1
        return found

    def rewritten(self, came: str) -> str:
        """Return the true number in the groups of the answer."""
        characters = iter(self._true["".join(TOKEN.findall(came)).lower()])
        return "".join(next(characters) if TOKEN.match(each) else each for each in came)


def _runs(places: Iterable[Place]) -> Iterator[list[Place]]:
    """Yield the numbers: groups that stood beside each other, or one word."""
    run: list[Place] = []
    for place in places:
        parts = TOKEN.findall(place.released), TOKEN.findall(place.true)
        alike = place.kind == IDENTIFIER and [*map(len, parts[0])] == [*map(len, parts[1])]
        group = alike and len(parts[0]) == 1 and _GROUP.fullmatch(parts[0][0])
        if run and group and place.before == _characters(run[-1].released).lower():
            run.append(place)
            continue
        if run:
            yield run
        run = [place] if group else []
        if alike and not group:  # of a date, the surrogate may have another form
            yield [place]
    if run:
        yield run


def _characters(text: str) -> str:
    return "".join(TOKEN.findall(text))


def _national(
    first: str, code: int, groups: int, left: str, true: str
) -> Iterator[tuple[str, str]]:
    """Yield a telephone number without the code of its country, or without the 0 before it.

    Args:
        first: how its first group left.
        code: the digits of the first group.
        groups: their number.
        left, true: all of it.
    """
    if first[:1] != "+":
        code = 1 if left[0] == true[0] == "0" else 0
    elif groups == 1:
        same = (len(each) for each in _CODES if left.startswith(each) and true.startswith(each))
        code = next(same, 0)
    if code and len(left) - code >= _LONG_NUMBER:
        yield left[code:], true[code:]
        if first[:1] == "+":
            yield "0" + left[code:], "0" + true[code:]
            yield "00" + left, "00" + true


def _is_number(place: Place, characters: str) -> bool:
    """Return whether letters and digits are a long number that is no amount or address."""
    digits = sum(map(str.isdecimal, characters))
    signs = place.released.removeprefix("+")
    mixed = "@" in signs or "://" in signs or not signs[:1].isalnum()
    return (
        place.kind == IDENTIFIER
        and digits >= _LONG_NUMBER
        and 2 * digits > len(characters)
        and not mixed
        and (place.released.isdecimal() or not AMOUNT.fullmatch(place.released))
    )
