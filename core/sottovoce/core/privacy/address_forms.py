"""The forms of addresses, and the addresses that a conversation released as a whole.

A *unit* is a run of characters that schemes, hosts and mail addresses consist of. The rules are
generous: a unit that some client may take for an address is one.

- A scheme ("tel:"), two slashes ("//host"), "www." or a host with a path begins an address, which
  may go on after the unit.
- A mail address, or a host of three labels, is an address by itself. A host of two labels holds no
  word that its owner does not know.
"""

from __future__ import annotations

import enum
import html
import re
import string
import unicodedata
from collections.abc import Mapping, Set
from typing import Final, NamedTuple

LONGEST_UNIT: Final = 256
"""Characters of a unit that are held back; a longer unit is treated as an address. A host has at
most 253."""

BREAKS: Final = (
    "\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # white space
    "\"'`()\\[\\]{}<>,;|*\xa1\xab\xbb\xbf\u060c\u061b\u061f\u0964\u2010-\u2027\u2030-\u2043\u2045-\u2051\u2053-\u205e"
    "\u3001-\u3003\u3008-\u3011\u3014-\u301f\uff01-\uff03\uff05-\uff0a\uff0c\uff0f\uff1a\uff1b\uff1f\uff20\uff3b-\uff3d\uff5b\uff5d\uff5f-\uff65"
)
"""What no unit contains: white space, brackets, quotation marks, punctuation between words. Units
contain zero-width characters, which browsers drop from hosts, and symbols, which some readers take
for letters."""

UNIT = re.compile(rf"(?:&#?\w{{1,32}};|[^{BREAKS}]){{1,{LONGEST_UNIT}}}+")
_MARK = re.compile(
    rf"[:/\\@&<\]=(]|\.(?=[^.{BREAKS}])|(?<![^{BREAKS}])[^{BREAKS}]{{{LONGEST_UNIT}}}"
)
_SCHEME = re.compile(r"(?<![A-Za-z0-9+.\-])([A-Za-z0-9+.\-]+):(?=.)", re.DOTALL)
_NAMED = re.compile(r"[A-Za-z].")
_FETCHED: Final = (
    r"(?:https?|ftps?|wss?|file|mailto|tel|sms|data|javascript|vbscript|blob|xmpp|sips?|geo)"
)
_WELL_KNOWN = re.compile(rf"{_FETCHED}\Z", re.IGNORECASE)
_SLASHES = re.compile(r"[/\\]{2,}[^/\\]")
_WWW = re.compile(r"www\d{0,3}\..", re.IGNORECASE)
_LOADS = re.compile(r"(?:src|href|srcset|action|poster|background|cite|ping)=.", re.IGNORECASE)
_SENT = re.compile(rf"[/\\@?#&%=<]|{_FETCHED}:", re.IGNORECASE)
_LABEL: Final = r"[^\x00-\x20!-,./:-@\[-^`{-\x7f]"
_HOST = re.compile(rf"(?<!{_LABEL}){_LABEL}+(?:\.{_LABEL}+)+\.?")
_PATH = re.compile(r"[/\\]|[?#:].")
_MAIL = re.compile(r".@[\w\[]", re.DOTALL)
_LABELS_OF_A_HOST: Final = 3
_PARTS_OF_AN_IP: Final = 4

_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})|\\([!-/:-@\[-`{-~])")
_LEAD: Final = " \t\r\n<\"'(_~!#$."
_TAIL: Final = " \t\r\n.,;:!?\"'”’»*_~`|)]}>…"
_SIGNS: Final = string.punctuation + _TAIL
_TITLE = re.compile(r"\s+(?:\"[^\"]*\"|'[^']*'|\([^()]*\))[\s)]*[^\w\s]*\Z")
_MAILBOX = re.compile(r"[^@:/?#\s]+@[^@:/?#\s]+")


class Start(NamedTuple):
    """The address in a unit.

    Attributes:
        start: where in the unit it begins.
        runs: whether it goes on after the unit.
        alone: whether it is an address without what goes on: one of mail, or a host.
    """

    start: int
    runs: bool
    alone: bool = False


def find(unit: str, after: str) -> Start | None:
    """The address in a unit, as it stands or with its escapes and references resolved.

    Args:
        unit: see the module.
        after: the character after it; empty at the end.
    """
    if "&" in unit or "\\" in unit or not unit.isascii():
        plain = _plain(unit)
        if plain != unit and (resolved := _written(plain, after)):
            return resolved._replace(start=0)
    return _written(unit, after)


def _written(unit: str, after: str) -> Start | None:
    goes_on = unit + after if after and not after.isspace() else unit
    starts = [
        found.start()
        for found in _SCHEME.finditer(goes_on)
        # "name:(" and "std::pair" are ordinary text, "data:(" is not.
        if _WELL_KNOWN.search(found[1])
        or (unit[found.end() : found.end() + 1] not in ("", ":") and _NAMED.match(found[1]))
    ]
    signs = (sign.search(goes_on) for sign in (_WWW, _LOADS, _SLASHES))
    starts += [found.start() for found in signs if found]
    alone = bool(_MAIL.search(unit))
    for host in _HOST.finditer(unit):
        labels, named = _labels(host[0])
        numbered = len(labels) == _PARTS_OF_AN_IP and all(map(str.isdigit, labels))
        if (named or numbered) and _PATH.match(goes_on, host.end()):
            starts.append(host.start())
        alone |= named and len(labels) >= _LABELS_OF_A_HOST
    if starts:
        return Start(0 if alone else min(starts), True, alone)
    return Start(0, False, alone) if alone else None


def _labels(host: str) -> tuple[list[str], bool]:
    """Return the labels of a host, and whether the last may be a top-level domain."""
    labels = host.rstrip(".").split(".")
    return labels, len(labels[-1]) > 1 and labels[-1][0].isalpha()


def may_send(address: str) -> bool:
    """Return whether an address may send text to a host: in a path, a query or a user's name.

    A label with a value does not, and neither does a host alone.
    """
    if _HOST.fullmatch(address):
        return False
    hosts = any(_labels(host[0])[1] for host in _HOST.finditer(address))
    return hosts or _SENT.search(address) is not None


def _plain(unit: str) -> str:
    def character(found: re.Match[str]) -> str:
        return found[3] or chr(int(found[1] or found[2], 16))

    resolved = html.unescape(_ESCAPE.sub(character, unit))
    return "".join(
        each for each in resolved if unicodedata.category(each) not in ("Cf", "Cc", "Mn")
    )


def bare(text: str) -> tuple[int, str]:
    """Return an address without its title and the signs around it, and where it begins."""
    title = _TITLE.search(text)
    body = text[: title.start()] if title else text
    core = body.lstrip(_LEAD)
    return len(body) - len(core), core.rstrip(_TAIL)


class Known:
    """The addresses that a conversation released as a whole.

    Args:
        true: the typed addresses, by their surrogates in small letters.
        hidden: surrogates in small letters that look like no address, of typed addresses.
    """

    def __init__(self, true: Mapping[str, str], hidden: Set[str]) -> None:
        self._true, self._hidden = true, hidden
        self.longest = max(map(len, self._true), default=0)
        """Characters of the longest."""
        also = "".join(f"|{re.escape(key)}" for key in sorted(hidden))
        self.mark = re.compile(_MARK.pattern + also, re.IGNORECASE) if hidden else _MARK
        """Finds what may be in an address or begin one."""

    def hides(self, unit: str) -> bool:
        """Whether a unit holds more than the surrogate of an address, where that surrogate looks
        like none ("@ann_cole" for "@anna.example.org"). Restored, it would be another address."""
        small = unit.lower()
        return any(key in small and key != small.strip(_SIGNS) for key in self._hidden)

    def holds(self, unit: str) -> bool:
        """Whether a unit is an address that was released, with signs around it."""
        return bool(self._typed(unit.lstrip(_LEAD).rstrip(_TAIL)))

    def parts(self, text: str, start: int) -> list[tuple[str, str | None]]:
        """An address in parts, each with the typed address that it stands for, if any.

        Args:
            text: the address, with the signs around it.
            start: where it may begin as well.
        """
        for begin in {0: None, start: None}:
            if found := self._parts(text[begin:]):
                return [(text[:begin], None), *found]
        return [(text, None)]

    def _parts(self, text: str) -> list[tuple[str, str | None]]:
        lead, core = bare(text)
        if true := self._typed(core):
            return [(text[:lead], None), (core, true), (text[lead + len(core) :], None)]
        # [https://example.org](https://example.org): both are one address.
        label, link, target = core.partition("](")
        true = self._typed(label)
        if not true or target.lower() != label.lower():
            return []
        ends = text[:lead], text[lead + len(core) :]
        return [(ends[0], None), (label, true), (link, None), (target, true), (ends[1], None)]

    def _typed(self, core: str) -> str:
        """The address that ``core`` is the surrogate of; empty where it is none."""
        small = core.lower()
        if small in self._true:
            return self._true[small]
        scheme, mailbox = core[:7], small[7:]
        if scheme.lower() == "mailto:" and mailbox in self._true and _MAILBOX.fullmatch(mailbox):
            true = self._true[mailbox]
            return scheme + true if _MAILBOX.fullmatch(true) else ""
        return ""


WHOLE_TEXT: Final = "all"
"""In place of a quotation mark: an address that begins here ends where the text does."""

LONGEST_SIGN: Final = 16
"""Characters of the longest sign by which an argument of a function in CSS begins."""

_LONGEST_LOCAL: Final = 64
"""Characters before a mail address that may belong to it. A local part has no more (RFC 5321)."""

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
    """The kind of thing that begins at a place of a text."""

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
    """A place where a text goes on, and the kind of thing that begins there.

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
        text: the held part of the answer.
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
