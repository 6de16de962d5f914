"""Detects the format of an identifier: an address, a date, a card number, a code.

A surrogate of the right format keeps a text readable. Telephones, cards and hosts must be detected,
because their surrogates must not belong to a person by chance. Digits never affect the format,
because it is read off a text with blanked digits. Letters do if they are a published token, for
example a scheme, "am" or a month.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

from sottovoce.core.privacy.surrogates.shape import Shape, case
from sottovoce.core.privacy.surrogates.shape import layout as layout_of
from sottovoce.core.text.identifiers import is_spelled

__all__ = [
    *("CODE", "EXTENSIONS", "MONTHS", "SCHEMES", "SHORT_MONTHS", "SPELLED", "USER", "WEB"),
    *("runs", "shape"),
]

MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
SHORT_MONTHS: Final = tuple(month[:3] for month in MONTHS)
EXTENSIONS: Final = (
    *("csv", "doc", "docx", "gif", "htm", "html", "jpeg", "jpg", "json", "md", "mov", "odp"),
    *("odt", "pdf", "png", "ppt", "pptx", "py", "rar", "rtf", "txt", "wav", "xls", "xlsx"),
    *("xml", "zip"),
)
"""Endings that make a dotted name a file's."""

CODE: Final = "code"
"""The sort of a text in no known format."""
SPELLED: Final = "spelled"
"""The sort of a text that is spelled letter by letter."""

USER: Final = "user name"
"""The sort of the name of a user of a machine; no text by itself has it."""

WEB: Final = frozenset({"http://", "https://", "ftp://"})

_KIND: Final = "identifier"
_LONGEST: Final = 256
"""Code points. A longer text has a format only if its beginning shows one."""

_MONTH: Final = "|".join((*MONTHS, *SHORT_MONTHS))
_TIME: Final = r"00?:00(?::00(?:[.,]0{1,9})?)?"
_HALF: Final = r"[AaPp]\.?[Mm]\.?"
_SIGNS: Final = "[!-/:-@\\[-`{-~\u00a2-\u00a5\u00b0\u20a0-\u20bf]{0,3}"

_SCHEME = re.compile(r"https?://|ftp://|(?:jdbc:)?[a-z][a-z0+.\-]*://|www\.", re.IGNORECASE)
SCHEMES: Final = frozenset(
    {
        *WEB,
        "www.",
        *(
            f"{scheme}://"
            for scheme in (
                *("amqp", "amqps", "file", "ftps", "git", "gs", "hdfs", "imap", "imaps", "irc"),
                *("jdbc:mariadb", "jdbc:mysql", "jdbc:oracle", "jdbc:postgresql", "jdbc:sqlserver"),
                *("kafka", "ldap", "ldaps", "mariadb", "mongodb", "mongodb+srv", "mqtt", "mqtts"),
                *("mysql", "nats", "nfs", "postgres", "postgresql", "redis", "rediss"),
                *("rtmp", "rtsp", "scp", "sftp", "sip", "smb", "smtp", "smtps", "sqlite"),
                *("ssh", "svn", "tcp", "telnet", "udp", "vnc", "ws", "wss"),
            )
        ),
    }
)
"""Public schemes, which a surrogate keeps."""
_LAST_LABEL = re.compile(r"(?<=[^\W_])\.([^\W\d_]{2,})(?::0+)?([/?#].*)?\Z", re.DOTALL)

_Read = Callable[["re.Match[str]"], str]
"""Makes the layout of what matched."""


def _digits(match: re.Match[str]) -> str:
    """Digits and signs; for patterns whose letters are published tokens."""
    return match[0].replace("0", "9")


def _digits_and_letters(match: re.Match[str]) -> str:
    return layout_of(match[0])


def _hexadecimal(match: re.Match[str]) -> str:
    small = match[0] == match[0].lower()
    return re.sub("[0a-fA-F]", "f" if small else "F", match[0])


def _time(match: re.Match[str]) -> str:
    """Which half of the day is drawn anew: its letter is an x."""
    return re.sub("[ap]", "x", re.sub("[AP]", "X", _digits(match)))


def _named_date(match: re.Match[str]) -> str:
    """Case, then the layout with ``m`` for a short name of a month and ``M`` for a full one."""
    name, layout = match["month"], _digits(match)
    mark = "m" if name.lower() in SHORT_MONTHS else "M"
    return f"{case(name)}|{layout[: match.start('month')]}{mark}{layout[match.end('month') :]}"


def _suffix(match: re.Match[str]) -> str:
    return match[1].replace("0", "9")


_PATTERNS: Final[tuple[tuple[str, str, _Read], ...]] = (
    ("date", r"0000[-/.]00?[-/.]00?", _digits),
    ("date", r"00?[-/.]00?[-/.](?:0000|00)", _digits),
    ("date", rf"0000-00-00T{_TIME}(?:Z|[+-]00:?00)?", _digits),
    ("named date", rf"(?:00?[-/.]?)?(?P<month>(?i:{_MONTH}))(?:[-/.]?00(?:00)?)?", _named_date),
    ("time", rf"{_TIME}(?:{_HALF})?|00?{_HALF}", _time),
    ("ordinal", r"(0{1,9})(?:st|nd|rd|th)", _suffix),
    ("decade", r"(00|0000)'?s", _suffix),
    ("ip address", r"0{1,3}(?:\.0{1,3}){3}((?:/00?)?(?::0{2,5})?)", _suffix),
    ("hardware address", r"[0a-fA-F]{2}([:-])[0a-fA-F]{2}(?:\1[0a-fA-F]{2}){4}", _suffix),
    ("ip address 6", r"(?=(?:[^:]*:){2})[0a-fA-F:]{2,39}((?:/0{1,3})?)", _suffix),
    ("amount", rf"{_SIGNS}0{{1,3}}(?:[.,]000)+(?:[.,]00?)?{_SIGNS}", _digits),
    ("amount", rf"{_SIGNS}0{{1,6}}[.,]0+{_SIGNS}", _digits),
    ("telephone", r"\+0(?:[ ().\-/]{0,2}0){0,14}", _digits),
    ("telephone", r"\(?0(?:[ ().\-/]{0,2}0){6,11}", _digits),
    ("card", r"0(?:[ \-]?0){12,18}", _digits),
    ("bank account", r"[A-Z]{2}00(?: ?[A-Z0]){11,30}", _digits_and_letters),
    ("amount", rf"{_SIGNS}0{{1,18}}{_SIGNS}", _digits),
    ("hexadecimal", r"(?=.*0)(?=.*[A-Fa-f])(?:[0a-f-]{8,}|[0A-F-]{8,})", _hexadecimal),
)
"""Sort, what it looks like with every digit blanked as 0, and how its layout is read."""

_FORMATS: Final = tuple((sort, re.compile(pattern), read) for sort, pattern, read in _PATTERNS)

_GROUPS = re.compile(
    r"\+(?=(?:\D*0){4,15}\Z)0{1,3}(?: 0{2,6})+|000 000 0000|00000 000000"
    r"|0{3,4} 0{3,4} 0{3,4}|00(?: 00){4}|0000(?: 0000){3}(?: 000)?|0000 000000 00000"
    r"|[A-Z]{2}00(?: [A-Z0]{4}){2,7}(?: [A-Z0]{1,3})?"
)
_MOST_GROUPS: Final = 9


def shape(text: str) -> Shape:
    """The format of an identifier and its layout.

    >>> shape("12:45pm")
    Shape(kind='identifier', sort='time', layout='99:99xm')
    """
    blank = _blank(text)
    if (web := _SCHEME.match(blank[:_LONGEST])) and len(web[0]) < len(text):
        scheme = web[0].lower() if web[0].lower() in SCHEMES else "https://"
        path = re.search("[/?#]", blank[web.end() :])
        return Shape(_KIND, "web address", scheme + (" path" if path else ""))
    if "@" in blank[1:-1]:
        return Shape(_KIND, "mail address", "mailto:" if blank[:7].lower() == "mailto:" else "")
    if blank[:1] == "@":
        return Shape(_KIND, "handle")
    if len(blank) > _LONGEST:
        return Shape(_KIND, CODE, layout_of(text))
    if is_spelled(blank):
        bare = "".join(c for c in text if unicodedata.category(c)[0] != "M")
        return Shape(_KIND, SPELLED, layout_of(bare))
    for sort, pattern, read in _FORMATS:
        if match := pattern.fullmatch(blank):
            return Shape(_KIND, sort, read(match))
    if dotted := _LAST_LABEL.search(blank):
        if dotted[1].lower() in EXTENSIONS and not dotted[2]:
            return Shape(_KIND, "file", dotted[1])
        return Shape(_KIND, "host", "path" if dotted[2] else "")
    return Shape(_KIND, CODE, layout_of(text))


def runs(texts: Sequence[str]) -> list[slice]:
    """Return which of these identifiers, separated by spaces, are one number.

    A telephone, card or account number written in groups is several words. Drawn one by one, its
    parts could by chance make a real number. Joined by spaces they have a common shape, and a
    surrogate of that shape has the same number of parts.

    Returns:
        Slices in order that together hold every place once.

    >>> runs(["12", "+44", "7700", "900123"])
    [slice(0, 1, None), slice(1, 4, None)]
    """
    blanks = [_blank(text[:_LONGEST]) for text in texts]
    found, start = [], 0
    while start < len(blanks):
        stops = range(min(start + _MOST_GROUPS, len(blanks)), start + 1, -1)
        stop = next((end for end in stops if _GROUPS.fullmatch(" ".join(blanks[start:end]))), 0)
        found.append(slice(start, stop or start + 1))
        start = found[-1].stop
    return found


def _blank(text: str) -> str:
    """``text`` with a 0 for every number of any script, so that no digit can decide anything."""
    return "".join("0" if unicodedata.category(c)[0] == "N" else c for c in text)
