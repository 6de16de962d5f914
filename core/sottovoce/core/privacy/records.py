"""Finds names and passwords in lines that programs and phones write.

These are the authors of `git blame`, the hosts of syslog, the users of SSH, the codes of wireless
networks, names of accounts, and telephone numbers in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from sottovoce.core.privacy.identifying import NOBODY, words_in
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import Sign, listed, value_after
from sottovoce.core.privacy.surrogates.identifiers import MONTHS
from sottovoce.core.text.vocabulary import Listed, Mark, Vocabulary, listed_names
from sottovoce.core.text.words import Kind

_ORDINAL: Final = (
    "(?:(?:twenty|thirty)[ -])?(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
    "|eleventh|twelfth|(?:thir|four|fif|six|seven|eigh|nine)teenth|twentieth|thirtieth)"
)
_MONTH: Final = f"(?:{'|'.join(MONTHS)})"
_SAID_UNIT: Final = (
    r"(?:(?: and)?[ -](?:hundred|oh|[a-z]{2,8}teen|ten|eleven|twelve|[a-z]{3,5}ty|one|two|three"
    r"|four|five|six|seven|eight|nine)\b)"
)
_LINES: Final = (
    (
        re.compile(
            rf"\b((?:{_ORDINAL}(?: of)? {_MONTH}|{_MONTH}(?: the)? {_ORDINAL}),?"
            rf" (?:(?:nineteen|twenty){_SAID_UNIT}{{1,3}}|two thousand{_SAID_UNIT}{{0,3}}))",
            re.IGNORECASE,
        ),
        "dates",
        True,
    ),
    (
        re.compile(
            r"^\^?[0-9a-f]{7,40} +(?:\S+ +)?\((?!Not Committed Yet)([^()\n]{2,60}?) +"
            r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} +\d+\)",
            re.MULTILINE,
        ),
        "persons",
        False,
    ),
    (re.compile(r"^[ \t]*User[ \t]+([\w.-]+)[ \t]*$", re.MULTILINE), "persons", False),
    (
        re.compile(
            r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([\w-]+) [\w./-]+(?:\[\d+\])?: ", re.MULTILINE
        ),
        "contacts",
        False,
    ),
    (
        re.compile(
            r"[\\/](?:Users|Documents and Settings)[\\/]{1,2}(?!All |Default |Public )"
            r"([A-Z]\w{0,30}(?: [A-Z][\w.-]{0,30}){1,3})(?=[\\/])"
        ),
        "persons",
        True,
    ),
    (
        re.compile(r"\b(?:call|dial|ext|extension|phone|ring|tel)\b[.:]? (x\d{3,5})\b", re.I),
        "numbers",
        True,
    ),
    (
        re.compile(
            r"(?:\bsshpass|[ \t]-u[ =]?[^\s:]+) -p[ =]?['\"]?"
            r"(?!\d+(?::\d+)?(?:\s|\Z))([^\s'\"]{3,})"
        ),
        "secrets",
        True,
    ),
    (re.compile(r"[ \t]/user:\S+[ \t]+(?!/)(\S{3,})", re.IGNORECASE), "secrets", True),
    (re.compile(r"\b(?:password|passwd|pwd?) (?:-|->|=>|–) (?=\S*\d)(\S{4,})"), "secrets", True),
    (
        re.compile(
            r"(?<![\w.+-])([\w.+-]{1,64}(?:(?: dot |[ ]?[(\[]dot[)\]][ ]?)[\w-]{1,64}){0,3}"
            r"[ ]?[(\[]at[)\]][ ]?[\w-]{1,64}"
            r"(?:(?:\.| dot |[ ]?[(\[]dot[)\]][ ]?)[\w-]{1,64}){1,3})",
            re.IGNORECASE,
        ),
        "contacts",
        True,
    ),
    (
        re.compile(
            r"(?<![\w.+-])([\w.+-]{1,64}(?: dot [\w-]{1,64}){0,3} at [\w-]{1,64}"
            r"(?: dot [\w-]{1,64}){0,2} dot (?:com|net|org|edu|gov|info|example|[a-z]{2}))\b",
            re.IGNORECASE,
        ),
        "contacts",
        True,
    ),
    (re.compile(r"\b(live:[\w.]{4,64})"), "contacts", True),
    (
        re.compile(
            r"\b(?:number|phone|tel|mobile|mob|call|ring|dial|account|acct|card)\b[^\n\d]{0,20}"
            r"(\d(?: \d){5,19})(?! ?\d)",
            re.IGNORECASE,
        ),
        "numbers",
        True,
    ),
    (re.compile(r"\bWIFI:(?:[A-Z]:[^;\n]*;){0,4}S:([^;<\n]+)"), "secrets", True),
    (re.compile(r"\bWIFI:(?:[A-Z]:[^;\n]*;){0,4}P:([^;<\n]+)"), "secrets", True),
    (
        re.compile(
            r"\b(?:wi-?fi|wlan)[ :]{1,2}(?!WPA|WEP|802|\d)(?=[^\s,]*\d)([^\s,]{4,32})[ ,]{1,2}"
            r"(?:pass(?:word)?|pwd?)[ :]{1,3}\S",
            re.IGNORECASE,
        ),
        "secrets",
        True,
    ),
    (re.compile(r"\b([A-Z][a-z]{1,15})-(?:san|kun|chan|sama|sensei)\b"), "persons", True),
    (
        re.compile(
            r"[\\/](?i:cases?|clients?|customers?|employees|kunden|leavers|mandanten|patients?|staff"
            r"|students?|tenants?)[\\/]([A-Z][\w'-]{1,20}[ _-][A-Z][\w'-]{1,20})(?=[\\/])"
        ),
        "persons",
        True,
    ),
    (re.compile(r"\b(?i:cash ?app)[ :]{1,3}(\$[A-Za-z][\w-]{2,20})"), "contacts", True),
    (
        re.compile(r"(?:///|\b(?i:w3w|what3words)[ :/]{1,6})([a-z]{3,20}(?:\.[a-z]{3,20}){2})\b"),
        "places",
        True,
    ),
    (
        re.compile(
            r"\b(?i:az|aktenzeichen)[.: ]{1,3}(\d{1,4} [A-Z]{1,3} \d{1,5}/\d\d)"
            r"|\b(?i:case|claim|court|file|our|your) (?i:file|ref(?:erence)?)[.: ]{1,3}"
            r"([A-Z]{1,4}[ /-]\w{1,8}(?:[/-]\w{1,8}){1,3})"
        ),
        "numbers",
        True,
    ),
    (
        re.compile(
            r"\b(?i:activation|gift|licen[cs]e|product (?:code|key)|promo|redeem|serial|steam"
            r"|voucher)\b"
            r"[^\n.]{0,20}?\b((?=[A-Z-]{0,20}\d)(?=[\d-]{0,20}[A-Z])[A-Z\d]{4,8}(?:-[A-Z\d]{2,8}){1,5})\b"
        ),
        "secrets",
        True,
    ),
    (
        re.compile(
            r"\b(?i:airline|booking|conf|confirmation|easyjet|flight|hotel|klm|lufthansa|pnr|reservation"
            r"|ryanair|zelle)\b[^\n.]{0,40}?"
            r"\b((?![A-Z]{2,3}\d{1,4}\b)(?=[A-Z]{0,5}\d)(?=\d{0,4}[A-Z]\d{0,3}[A-Z])[A-Z\d]{6})\b"
        ),
        "numbers",
        True,
    ),
    (
        re.compile(r"\b(?:BGC|CHQ|DD|FPI|FPO|SO|TFR) ([A-Z] [A-Z]{2,20})\b(?=[^\n]{0,60}\d\.\d\d)"),
        "persons",
        True,
    ),
)
"""Lines, what their first group hides, and whether it is drawn if it holds ordinary words alone."""
_JOINTS: Final = frozenset({"and", "at", "dot", "of", "the"})
_ACCOUNTS: Final = listed("account_keys")
_SERVICES: Final = listed("services")
_HANDLE = re.compile(r"@?[A-Za-z][\w.-]{2,30}={0,2}")
_LEET = re.compile(r"[A-Za-z]\d+[A-Za-z]")
_DIGITS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SAID: Final = frozenset({*_DIGITS, "oh", "nought", "double", "treble", "triple"})
_OF_CALLS: Final = _SAID - {*_DIGITS} | {"zero"}
_FEWEST_SAID: Final = 7
"""Words of a telephone number that is said: "oh seven seven double oh nine double two"."""
_FEWEST_LABELLED: Final = 3
"""Words of a number that is said after a label: "the pin is nine two oh"."""
_SAID_LABELS: Final = frozenset({"account", "cvc", "cvv", "passcode", "pin", "sort", "zip"})
_NEAR_LABEL: Final = 4


def records(document: str, sight: Sight) -> Iterator[Sign]:
    """Yield the words that the form of a line reveals; a word may be yielded several times."""
    words = sight.words
    for form, hides, sure in _LINES:
        for match in form.finditer(document, words[0].start, words[-1].end):
            group = match.lastindex or 1
            for at in sight.within(*match.span(group)):
                if sight.lower[at] not in _JOINTS and (sure or _says_who(match[group])):
                    yield Sign(at, hides)
    for place, lower in enumerate(sight.lower):
        if lower in _ACCOUNTS and (start := _account(sight, place)):
            text = words[start].text
            handle = words[start].kind is Kind.IDENTIFIER and _HANDLE.fullmatch(text)
            if handle and (_LEET.search(text) or _says_who(text)):
                yield Sign(start, "contacts")
    for place in range(2, len(words)):
        if _after_initial(sight, place):
            yield from (Sign(place - 2, "persons"), Sign(place, "persons"))
    yield from (Sign(at, "numbers") for at in _said_numbers(sight))


def _account(sight: Sight, place: int) -> int:
    """Return where the name of an account begins, after a separator or a service; 0 for none."""
    after = place + 1
    bare = sight.lower[place] in _SERVICES and after < len(sight.words) and sight.gaps[after] == " "
    return value_after(sight, place) or (after if bare else 0)


def _after_initial(sight: Sight, place: int) -> bool:
    """Return whether a listed surname that few know as a word follows an initial: "J. Coombes"."""
    initial, stop, name = sight.words[place - 2 : place + 1]
    bits = listed_names(name.text) if name.text.istitle() else 0
    after = place + 1
    title = after < len(sight.words) and sight.capital(after) and sight.gaps[after] == " "
    return (
        stop.text == "."
        and len(initial.text) == 1
        and initial.text.isupper()
        and not sight.gaps[place - 1]
        and sight.gaps[place] == " "
        and not sight.marks[place] & (Mark.COMMON | Mark.PUBLIC)
        and (
            (bits == Listed.SURNAME and not title)
            or (bits > 0 and not sight.marks[place] & Mark.WORD)
        )
    )


def _says_who(text: str) -> bool:
    """Return whether a word may be a person's, as it holds more than ordinary words."""
    marks = Vocabulary.shipped().marks
    parts = [marks(word.lower()) for word in words_in(text)]
    return text.lower() not in NOBODY and any(
        not mark or (mark & Mark.NAME and not mark & Mark.WORD) for mark in parts
    )


def _is_labelled(sight: Sight, place: int) -> bool:
    """Return whether a number in words follows a label: "account number is", "alarm code is"."""
    near = sight.lower[max(place - _NEAR_LABEL, 0) : place]
    return not _SAID_LABELS.isdisjoint(near) or any(
        word == "code" and before in listed("locks") for before, word in pairwise(near)
    )


def _said_numbers(sight: Sight) -> Iterator[int]:
    """Yield the words of a telephone number in words, but not of "one two three four five"."""
    run: list[int] = []
    for place, lower in enumerate((*sight.lower, "")):
        if lower in _SAID:
            run.append(place)
            continue
        if lower in (",", "-") and run:
            continue
        values = [_DIGITS.index(sight.lower[at]) for at in run if sight.lower[at] in _DIGITS]
        steps = {other - one for one, other in pairwise(values)}
        digits = [sight.lower[at] for at in run]
        called = not _OF_CALLS.isdisjoint(digits) or len(run) > _FEWEST_SAID
        labelled = bool(run) and _is_labelled(sight, run[0])
        if len(steps) > 1 and (
            (len(run) >= _FEWEST_SAID and called) or (len(run) >= _FEWEST_LABELLED and labelled)
        ):
            yield from run
        run = []
