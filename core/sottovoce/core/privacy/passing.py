"""Words that pass although a finder takes them for names: greetings and terms.

Signs such as a title or a label beside a word count for more, see `signs`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from sottovoce.core.privacy.signs import Sight, listed
from sottovoce.core.text.vocabulary import Mark

__all__ = ["is_eponym", "passing", "stands_alone"]

_EPONYMS: Final = listed("eponyms")


def passing(sight: Sight, hides: Sequence[str]) -> Iterator[int]:
    """Yield the places of the words of public phrases.

    Args:
        sight: the words.
        hides: what each hides; a single word beside a found person is part of the name.
    """
    phrases = _phrases()
    for place, first in enumerate(sight.lower):
        for rest in phrases.get(first, ()):
            end = place + 1 + len(rest)
            if not rest and _in_name(sight, hides, place):
                continue
            if tuple(sight.lower[place + 1 : end]) == rest and not any(
                map(sight.breaks, range(place + 1, end))
            ):
                yield from range(place, end)


def _in_name(sight: Sight, hides: Sequence[str], place: int) -> bool:
    return (
        any(
            0 <= other < len(hides)
            and hides[other] == "persons"
            and sight.capital(other)
            and sight.gaps[max(place, other)] == " "
            and sight.lower[other] not in _phrases()
            and sight.capital(place)
            for other in (place - 1, place + 1)
        )
        and sight.marks[place] & Mark.NAME != 0
    )


def is_eponym(sight: Sight, place: int) -> bool:
    """Return whether a public name names a thing: "Rayleigh scattering", "Brooks's law"."""
    after = place + 1
    while after < len(sight.words) and (
        sight.words[after].clitic or sight.words[after].text in ("-", "–")
    ):
        after += 1
    for at in (after, after + 1):
        if at < len(sight.words) and not sight.breaks(at) and sight.lower[at] in _EPONYMS:
            return True
    return False


def stands_alone(sight: Sight, place: int) -> bool:
    """Return whether no other word with a capital stands beside a word."""
    return not any(
        0 <= other < len(sight.words) and sight.capital(other) and not sight.breaks(edge)
        for other, edge in ((place - 1, place), (place + 1, place + 1))
    )


@cache
def _phrases() -> dict[str, list[tuple[str, ...]]]:
    """Return phrases by their first word; in the list, "_" joins the words of a phrase."""
    found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for phrase in listed("public_phrases"):
        first, *rest = phrase.split("_")
        found[first].append((*rest,))
    return dict(found)
