"""Cuts an answer into addresses and other text, as it comes in.

A client loads or opens an address. So if a surrogate inside an address were restored, the original
would reach the host of that address. Text in the prompt can trick a model into writing this kind of
address. So nothing is restored in an address, unless the whole address is the surrogate of a typed
address.

An address in running text goes to the next white space or "<" (ASCII, as in renderers of Markdown).
If a quotation begins with the address, the address goes on past the end of the quotation. These
count as whole addresses too: the target of a Markdown link or picture, the destination of a
reference, the argument of CSS `url()` and an HTML tag. Relative addresses and blanks work there.
Where readers of a format differ, the longest reading counts as the address.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sottovoce.core.privacy.address_forms import (
    LONGEST_SIGN,
    LONGEST_UNIT,
    WHOLE_TEXT,
    Found,
    Known,
    Step,
    bare,
    step,
    tag,
)

_NOT_SPACE = re.compile(r"[^ \t\r\n\f]")

_BLANK: Final = r"\n[ \t\r]{0,16}\n"
_BLANK_BEGUN = re.compile(r"\n[ \t\r]{0,16}\Z")
_TAG_SIGN = re.compile("[=>]")
_RUN_SIGN: Final = {
    "": re.compile(r"[ \t\r\n<]|\]\(|(?:url|image-set)\(|=[\"']", re.IGNORECASE),
    **{
        sign: re.compile(rf"[<{sign}]|\]\(|(?:url|image-set)\(|{_BLANK}", re.IGNORECASE)
        for sign in "\"'>"
    },
}
_USER = re.compile(rf"[^\s@/()\[\]]{{0,{LONGEST_UNIT}}}")
_TARGET_SIGN: Final = {
    "": re.compile(rf"[<()\"\\]|{_BLANK}"),
    **{sign: re.compile(rf"[<{sign}\\]|{_BLANK}") for sign in "\"'>"},
}
_OPENING: Final = frozenset("\"'([{")
_UNQUOTED: Final = " "
_NAMES = re.compile(r"[A-Za-z0-9_.:\-\s]*/?")
_WRONG = re.compile(r"[\"'=<`]")
_VALUE_END: Final = {
    '"': re.compile('"'),
    "'": re.compile("'"),
    _UNQUOTED: re.compile(r"[ \t\r\n\f>]"),
}
_AROUND: Final = 64
"""Characters that may stand around an address that was released: a title, signs."""
_LONGEST_WHOLE: Final = 256
"""Longer addresses are not looked for in a release."""


class Part(NamedTuple):
    """A piece of an answer.

    Attributes:
        came: the piece as it came.
        address: the number of the address that it is of, 0 for other text.
        instead: the typed address, if ``came`` is its surrogate.
    """

    came: str
    address: int = 0
    instead: str | None = None


class Addresses:
    """Cuts an answer into addresses and other text, as it comes in.

    At most a unit (`LONGEST_UNIT`) and 64 characters before it are held back. If an address may be
    one that was released as a whole, twice the longest of these and 64 characters are held back.

    Args:
        known: the addresses that were released.
        before: the text that the answer continues. It is not returned.
        whole: whether a text that begins with an address is an address in all its length, as an
            argument of a function is.
    """

    def __init__(self, known: Known, before: str = "", *, whole: bool = False) -> None:
        self._known = known
        self._most = 2 * known.longest + _AROUND if known.longest else 0
        self._mode = self._in_text
        self._held = ""
        self._before = WHOLE_TEXT if whole else ""
        self._number = 0
        self._region = ""
        """The address so far, while it may still be one that was released."""
        self._may_be_known = False
        self._start = 0
        self._quote = self._wrap = self._value = ""
        self._depth = 0
        self._fresh = self._equals = self._spoiled = self._opened = False
        self._slash = self._linked = False
        self._last = ""
        self._after = self._in_text
        self._parts: list[Part] = []
        self._skipped = 0
        """Characters that are held and came before the answer."""
        self.feed(before)
        self._skipped = len(self.held)

    @property
    def held(self) -> str:
        """The text that has arrived and was not output."""
        return self._region + self._held

    def feed(self, delta: str, *, final: bool = False) -> list[Part]:
        """Return the parts that are known after ``delta``.

        Args:
            delta: the next piece of the answer.
            final: whether the answer ends with it.
        """
        text = self._held + delta
        place, more = 0, True
        while more and place < len(text):
            start = place
            place, more = self._mode(text, place, final)
            if place > start:
                self._before = text[place - 1]
        self._held = text[place:]
        if final:
            self._close()
        parts, self._parts = self._parts, []
        return self._new(parts) if self._skipped else parts

    def _new(self, parts: list[Part]) -> list[Part]:
        """Return the parts without the text before the answer."""
        new = []
        for part in parts:
            cut = min(self._skipped, len(part.came))
            self._skipped -= cut
            if cut < len(part.came):
                new.append(Part(part.came[cut:], part.address) if cut else part)
        return new

    def _in_text(self, text: str, place: int, final: bool) -> tuple[int, bool]:
        """Read other text, to the next address or to the possible beginning of an address."""
        found = step(text, place, self._known, self._before, final=final)
        if found.place > place:
            self._parts.append(Part(text[place : found.place]))
        if found.found in (Found.NOTHING, Found.UNKNOWN):
            return found.place, False
        return self._open(text, found)

    def _open(self, text: str, found: Step) -> tuple[int, bool]:
        self._number += 1
        self._start, self._depth = found.start, 1
        self._quote, self._wrap, self._value = found.quote, "", ""
        self._fresh, self._equals, self._spoiled, self._opened = True, False, False, found.opened
        self._may_be_known = found.found is not Found.TAG
        self._slash, self._linked, self._after = False, False, self._in_text
        if found.found is Found.UNIT:
            self._keep(text[found.place : found.end])
            self._close()
            return found.end, True
        if found.found is Found.TAG:
            self._mode = self._in_tag
            return self._wait(text, found.place, found.place + 1, more=True)
        self._mode = self._in_run if found.found is Found.RUN else self._in_target
        return found.place, True

    def _in_run(self, text: str, place: int, final: bool) -> tuple[int, bool]:
        """An address to white space or "<", past the end of a quotation that it is in."""
        if self._quote == WHOLE_TEXT:
            return self._wait(text, place, len(text))
        sign = _RUN_SIGN[self._quote].search(text, place)
        if sign is None:
            sure = max(place, len(text) - LONGEST_SIGN)
            begun = _BLANK_BEGUN.search(text, place)
            return self._wait(text, place, len(text) if final else begun.start() if begun else sure)
        if sign[0] == "<":
            self._keep(text[place : sign.start()])
            return self._lesser(text, sign.start(), final)
        if sign[0][0] in " \t\r\n":
            return self._end(text, place, sign.start())
        self._keep(text[place : sign.end()])
        if sign[0] == self._quote:
            self._quote = ""
        elif sign[0][0] == "=":
            self._quote = sign[0][1]
        else:
            self._mode, self._wrap, self._depth, self._fresh = self._in_target, "", 1, True
        return sign.end(), True

    def _lesser(self, text: str, at: int, final: bool) -> tuple[int, bool]:
        """The sign "<" in a run. It ends the address, unless a bracket or a quotation may be open
        or the sign is of a user's name before the host."""
        if not (self._quote or self._opened):
            name = _USER.match(text, at)
            stop = name.end() if name else at
            if stop == len(text) and stop - at < LONGEST_UNIT and not final:
                return at, False
            if text[stop : stop + 1] != "@" and stop - at < LONGEST_UNIT:
                return self._end(text, at, at)
        return self._nested(text, at, final)

    def _nested(self, text: str, at: int, final: bool) -> tuple[int, bool]:
        """The sign "<" in an address, which may begin a tag to readers that see no address."""
        found = tag(text, at, final=final).found
        if found is Found.UNKNOWN:
            return at, False
        if found is Found.TAG:
            self._mode, self._after = self._in_tag, self._mode
            self._spoiled, self._equals, self._slash, self._linked = True, False, False, False
        return self._wait(text, at, at + 1, more=True)

    def _in_target(self, text: str, place: int, final: bool) -> tuple[int, bool]:
        """The target of a link to its closing parenthesis, and the address that goes on there."""
        if self._fresh:
            first = _NOT_SPACE.search(text, place)
            if first is None:
                return self._wait(text, place, len(text))
            self._fresh = False
            if first[0] == "<":
                self._wrap = ">"
                return self._wait(text, place, first.start(), more=True)
            self._wrap = first[0] if first[0] in "\"'" else ""
            return self._wait(text, place, first.start() + len(self._wrap), more=True)
        sign = _TARGET_SIGN[self._wrap].search(text, place)
        if sign is None:
            begun = None if final else _BLANK_BEGUN.search(text, place)
            return self._wait(text, place, begun.start() if begun else len(text))
        if sign[0][0] == "\n":
            return self._end(text, place, sign.start())
        if sign[0] == "<":
            self._keep(text[place : sign.start()])
            return self._nested(text, sign.start(), final)
        stop = sign.end() + (sign[0] == "\\")
        if stop > len(text) and not final:
            return self._wait(text, place, sign.start())
        self._keep(text[place:stop])
        if sign[0] == self._wrap:
            self._wrap = ""
        elif sign[0] == '"':
            self._wrap = '"'
        elif sign[0] in "()":
            self._depth += 1 if sign[0] == "(" else -1
            if not self._depth:
                self._mode = self._in_run
        return min(stop, len(text)), True

    def _in_tag(self, text: str, place: int, final: bool) -> tuple[int, bool]:
        """An HTML tag; the value of an attribute may be an address that was released.

        Strict readers see no tag in one that is written wrongly ("spoiled"), but text. In text an
        address goes on after the ">".
        """
        if self._value:
            return self._in_value(text, place, final)
        if self._equals:
            first = _NOT_SPACE.search(text, place)
            if first is None:
                return self._wait(text, place, len(text))
            self._equals = False
            self._value = first[0] if first[0] in "\"'" else _UNQUOTED
            self._keep(text[place : first.start()])
            self._keep(first[0] if self._value != _UNQUOTED else "")
            self._may_be_known = not self._spoiled
            return first.start() + (self._value != _UNQUOTED), True
        sign = _TAG_SIGN.search(text, place)
        stop = sign.start() if sign else len(text)
        self._check(text[place:stop])
        if sign is None:
            return self._wait(text, place, stop)
        if sign[0] == "=":
            self._spoiled = self._spoiled or self._slash
            self._equals = True
        else:
            if self._linked:  # to readers that look for links before tags
                self._after, self._depth, self._wrap, self._fresh = self._in_target, 1, "", False
            elif not self._spoiled:
                return self._end(text, place, sign.end())
            self._mode = self._in_run if self._after == self._in_text else self._after
        return self._wait(text, place, sign.end(), more=True)

    def _check(self, names: str) -> None:
        """Notes whether a part of a tag outside values is written wrongly."""
        wrong = (names and self._slash) or _NAMES.fullmatch(names) is None
        self._spoiled = self._spoiled or bool(wrong)
        self._slash = names.endswith("/") if names else self._slash

    def _in_value(self, text: str, place: int, final: bool) -> tuple[int, bool]:
        end = _VALUE_END[self._value].search(text, place)
        if self._value == _UNQUOTED and _WRONG.search(
            text, place, end.start() if end else len(text)
        ):
            self._spoiled, self._may_be_known = True, False
        if end is None:
            return self._wait(text, place, len(text))
        at, stop = end.start(), end.end()
        if self._value == _UNQUOTED:
            stop = at
        elif stop == len(text) and not final:
            return self._wait(text, place, at)
        elif stop < len(text) and text[stop] not in " \t\r\n\f/>":
            self._spoiled, self._may_be_known = True, False
        self._keep(text[place:at])
        self._close()
        self._keep(text[at:stop])
        self._value = ""
        return stop, True

    def _wait(self, text: str, place: int, stop: int, *, more: bool = False) -> tuple[int, bool]:
        self._keep(text[place:stop])
        return stop, more

    def _end(self, text: str, place: int, stop: int) -> tuple[int, bool]:
        self._keep(text[place:stop])
        self._close()
        self._mode = self._in_text
        return stop, True

    def _keep(self, text: str) -> None:
        """Note a piece of the address, or pass it on if no released address is as long."""
        self._opened = self._opened or not _OPENING.isdisjoint(text)
        self._linked = self._linked or "](" in self._last + text
        self._last = text[-1:] or self._last
        self._region += text
        if not self._may_be_known or len(self._region) > self._most:
            self._forgo()

    def _forgo(self) -> None:
        """Gives out the address as it came."""
        if self._region:
            self._parts.append(Part(self._region, self._number))
        self._region, self._may_be_known = "", False

    def _close(self) -> None:
        for came, true in self._known.parts(self._region, self._start):
            if came:
                self._parts.append(Part(came, self._number, true))
        self._region, self._may_be_known = "", False


class _Noted(Known):
    """Notes the addresses of a text, each without the signs around it."""

    def __init__(self) -> None:
        super().__init__({}, frozenset())
        self.longest = _LONGEST_WHOLE
        self.found: list[str] = []

    def parts(self, text: str, start: int) -> list[tuple[str, str | None]]:
        self.found.append(bare(text[start:])[1])
        return super().parts(text, start)


def within(text: str) -> list[str]:
    """Return the addresses of a text in order, except long ones.

    >>> within('see mailto:ida@acme.org or (q="from:Ida now") and <a href="/x">')
    ['mailto:ida@acme.org', 'from:Ida now', '/x']
    """
    noted = _Noted()
    Addresses(noted).feed(text, final=True)
    return [*filter(None, noted.found)]
