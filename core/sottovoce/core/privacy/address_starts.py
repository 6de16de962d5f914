"""Finds where the next address of a text begins, and how it goes on.

Everything here is a pure function of the text. `addresses` keeps the state between pieces.
"""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple

from sottovoce.core.privacy.address_forms import BREAKS, LONGEST_UNIT, UNIT, Known, find

__all__ = ["LONGEST_SIGN", "WHOLE_TEXT", "Found", "Step", "step", "tag"]

WHOLE_TEXT: Final = "all"
"""In place of a quotation mark: an address that begins here ends where the text does."""

LONGEST_SIGN: Final = 16
"""Characters of the longest sign by which an argument of a function in CSS begins."""

_LONGEST_LOCAL: Final = 64
"""Characters before a mail address that may be of it: as many as a local part has (RFC 5321)."""

_CLOSING: Final = {'"': '"', "'": "'", "<": ">", WHOLE_TEXT: WHOLE_TEXT}

_BREAK = re.compile(f"[{BREAKS}]")
_TAG = re.compile(r"<[A-Za-z][\w.:\-]{0,63}(?<!:)(?=\s|/(?!>))")
"""A tag without attributes loads nothing: "<br>", "<stdio.h>"."""
_TAG_BEGUN = re.compile(r"<(?:[A-Za-z][\w.:\-]{0,63}/?)?\Z")
_AUTOLINK = re.compile(r"<[A-Za-z][A-Za-z0-9+.\-]{1,31}:")
_AUTOLINK_BEGUN = re.compile(r"<[A-Za-z][A-Za-z0-9+.\-]{0,31}\Z")
_DEFINED = re.compile(r"\]:[ \t]{0,64}(?:\r?\n[ \t]{0,64})?")
_DESTINATION = re.compile(rf"[^ \t\r\n]{{0,{LONGEST_UNIT}}}")
_SPACES = re.compile(r"[ \t]{0,64}")
_FUNCTION = re.compile(r"(?:url|image-set)\Z", re.IGNORECASE)


class Found(enum.Enum):
    """What begins at a place of a text."""

    NOTHING = enum.auto()
    UNKNOWN = enum.auto()
    """More of the text has to come to tell."""
    UNIT = enum.auto()
    """An address that ends with its unit."""
    RUN = enum.auto()
    """An address that goes on to white space."""
    TARGET = enum.auto()
    """The target of a link, or the argument of `url()`; its parenthesis is open."""
    TAG = enum.auto()
    """An HTML tag."""


class Step(NamedTuple):
    """Where a text goes on, and what begins there.

    Attributes:
        place: in the text.
        found: what begins there.
        start: of a run, where in it a released address may begin.
        end: of a unit.
        quote: of a run, the sign that closes the quotation or bracket that it is in.
        opened: of a run, whether the sign "<" is in it.
    """

    place: int
    found: Found = Found.NOTHING
    start: int = 0
    end: int = 0
    quote: str = ""
    opened: bool = False


def step(text: str, place: int, known: Known, before: str, *, final: bool) -> Step:
    """The next address, or where one may begin.

    Args:
        text: what came and is not told.
        place: where to begin, outside of addresses.
        known: the addresses that were released.
        before: the character before the text.
        final: whether the text ends.

    Returns:
        `Found.NOTHING` alone where the text ends without one.
    """
    look = place
    while mark := known.mark.search(text, look):
        at, sign = mark.start(), text[mark.start()]
        if sign == "<":
            found = tag(text, at, final=final)
        elif sign == "]":
            found = _link(text, at, final=final)
        elif sign == "(":
            function = _FUNCTION.search(text, max(place, at - LONGEST_SIGN), at)
            found = Step(at + 1, Found.TARGET if function else Found.NOTHING)
        else:
            found = _unit(text, at, look, place, known, before, final=final)
        look = found.place
        if found.found is not Found.NOTHING:
            return found
    if final:
        return Step(len(text))
    return Step(_held_from(text, _unit_start(text, len(text), look), place), Found.UNKNOWN)


def tag(text: str, at: int, *, final: bool) -> Step:
    """Whether the sign "<" at a place begins a tag or an address in angle brackets."""
    if not final and (_TAG_BEGUN.match(text, at) or _AUTOLINK_BEGUN.match(text, at)):
        return Step(at, Found.UNKNOWN)
    if _TAG.match(text, at):
        return Step(at, Found.TAG)
    if _AUTOLINK.match(text, at):
        return Step(at + 1, Found.RUN, quote=">")
    return Step(at + 1)


def _link(text: str, at: int, *, final: bool) -> Step:
    """The target of a link or the destination of a reference, after the sign "]"."""
    sign = text[at + 1 : at + 2]
    if not sign and not final:
        return Step(at, Found.UNKNOWN)
    if sign == "(":
        return Step(at + 2, Found.TARGET)
    defined = _DEFINED.match(text, at)
    if defined is None:
        return Step(at + 1)
    begin = defined.end()
    if text.startswith("<", begin):
        found = tag(text, begin, final=final)
        if found.found is Found.UNKNOWN:
            return Step(at, Found.UNKNOWN)
        return found if found.found is Found.TAG else Step(begin + 1, Found.RUN, quote=">")
    end = _end(_DESTINATION, text, begin)
    if end - begin == LONGEST_UNIT:
        return Step(begin, Found.RUN, opened=True)
    after = _end(_SPACES, text, end)
    if after == len(text) and not final:
        return Step(at, Found.UNKNOWN)
    # More text in the line: "[Ida]: good morning" is no reference.
    if end > begin and text[after : after + 1] in ("", *"\r\n\"'("):
        return Step(begin, Found.RUN, opened=True)
    return Step(at + 1)


def _unit(
    text: str, at: int, look: int, place: int, known: Known, before: str, *, final: bool
) -> Step:
    """The address in the unit around a mark, if any."""
    begin = _unit_start(text, at, look)
    end = _end(UNIT, text, begin, begin + LONGEST_UNIT)
    unit, cut = text[begin:end], end - begin == LONGEST_UNIT
    held = _held_from(text, begin, place)
    if end == len(text) and not cut and not final:
        return Step(held, Found.UNKNOWN)
    found = find(unit, "" if cut else text[end : end + 1])
    if found is None and not cut and not known.hides(unit):
        return Step(end)
    start = found.start if found else 0
    if found and found.alone and not known.holds(unit):
        start, begin = start + begin - held, held
    quote = _CLOSING.get(text[begin - 1] if begin else before, "")
    if quote != ">" and not cut and (found is None or not found.runs):
        return Step(begin, Found.UNIT, end=end)
    return Step(begin, Found.RUN, start=start, quote=quote)


def _unit_start(text: str, at: int, least: int) -> int:
    while at > least and not _BREAK.match(text, at - 1):
        at -= 1
    return at


def _held_from(text: str, begin: int, least: int) -> int:
    """Where a mail address or host may begin that ends in the unit at ``begin``.

    Some readers count these signs as a part of the address.
    """
    least = max(least, begin - _LONGEST_LOCAL)
    while begin > least and (text[begin - 1] in ',;"`|' or not _BREAK.match(text, begin - 1)):
        begin -= 1
    return begin


def _end(pattern: re.Pattern[str], text: str, place: int, most: int | None = None) -> int:
    found = pattern.match(text, place, len(text) if most is None else most)
    return found.end() if found else place
