"""Finds the private parts of paths, links and settings, so that their public parts stay.

Under `personal`, "/home/tkowalska/shop/views.py" leaves with another user's name alone, "user=ann"
with another value, and "mongodb://db.kerr.example:27017/shop" with another host. All other
identifiers are drawn whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple

from sottovoce.core.privacy import identifying
from sottovoce.core.privacy.signs import listed as listed_signs
from sottovoce.core.privacy.surrogates import Shape, identifiers, layout, words_of
from sottovoce.core.text.vocabulary import Listed, Mark, Vocabulary, listed_names

__all__ = [
    *("Part", "is_card_label", "is_name", "joined", "part_marks", "private_parts"),
    "says_nothing",
]

_IDENTIFIER: Final = "identifier"
_USER: Final = Shape(_IDENTIFIER, identifiers.USER)
_IN_PARTS: Final = frozenset(
    {"contacts", "numbers", "organisations", "persons", "places", "secrets", "unlisted"}
)
_SETTING = re.compile(r"(-{0,2}[A-Za-z_][\w.-]{0,39}=)([^&;=]+)")
_LINK = re.compile(
    r"(?P<scheme>(?:jdbc:)?[a-z][a-z0-9+.-]{1,20}://)(?P<user>[^@/\s]*@)?(?P<host>[\w.-]+)"
    r"(?P<port>:\d{2,5})?(?P<rest>[/?#].*)?",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"(?P<user>[\w.+-]+@)(?P<host>[\w.-]+)(?P<rest>:[^@\s]*)?")
_PATH = re.compile(
    r"(?:file://)?(?:~|\.{0,2})/.+|[A-Za-z]:[\\/].+|\\\\.+|[A-Za-z]+(?:\\[\w.-]+){2,}"
)
_IP = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_SEGMENT = re.compile(r"[^\\/]+")
_OF_QUERY = re.compile(r"[^/?#&=:]+")
_LINE = re.compile(r"(?::\d{1,6}){1,2}\Z")
_PLAIN = re.compile(r"v?\d{1,4}(?:\.\d{1,4}){0,3}|(?:[A-Za-z]+[-_.+ ]){0,12}[A-Za-z]+\d?")
"""A version, a small number, or words."""
_KEYS: Final = frozenset().union(
    *(
        listed_signs(f"{kind}_keys")
        for kind in ("company", "contact", "date", "number", "person", "place", "secret")
    ),
    ("datasource", "hibernate", "jpa", "spring"),
)
_DIRECTORIES: Final = listed_signs("directories")
_CODE_WORDS: Final = listed_signs("code_words")
"""Words of programs that no list holds, or only one of surnames."""
_CARD_LABELS: Final = listed_signs("card_labels")
_FIELD = re.compile(r"(?:(?!\\[nrt]|(?<=\\)[nrt])[^;:])+")
_VERSION = re.compile(r"\d\.\d")
_ESCAPED = re.compile(r"\\[nrt]")
_SHORT: Final = 4
_LONGEST_JOINED: Final = 60
_NAMES: Final = Listed.USUAL_SURNAME | Listed.USUAL_GIVEN | Listed.GIVEN


class Part(NamedTuple):
    """A private part of an identifier."""

    start: int
    end: int
    shape: Shape


def private_parts(text: str, hides: str) -> list[Part] | None:
    """Return the drawn parts of an identifier, in order; None if the whole is drawn.

    Args:
        text: the identifier.
        hides: of `hiding.KINDS`. Of a secret, only the key of a setting stays.
    """
    if hides not in _IN_PARTS:
        return None
    found = _card(text, hides) or _setting(text, hides)
    if not found and hides != "secrets":
        found = _login(text) or _link(text) or _path(text) or _escaped(text)
    whole = found and len(found) == 1 and found[0][:2] == (0, len(text))
    return None if not found or whole else found


def is_card_label(text: str) -> bool:
    """Return whether a text is all names and parameters of a vCard: "DTSTART;VALUE=DATE:"."""
    fields = _FIELD.findall(text)
    return bool(fields) and text[-1] in ";:" and all(map(_is_card_label, fields))


def _is_card_label(field: str) -> bool:
    name, _, value = field.partition("=")
    labelled = name.lower() in _CARD_LABELS and name != "CN"
    return labelled and (not value or not any(map(str.isdigit, value)))


def _card(text: str, hides: str) -> list[Part]:
    """Return the private fields of a line of a vCard: "TEL;TYPE=cell:07700900199"."""
    fields = [*_FIELD.finditer(text)]
    if len(fields) < 2 or not any(_is_card_label(field[0]) for field in fields[:-1]):
        return []
    found: list[Part] = []
    for field in fields:
        if not _is_card_label(field[0]) and not _VERSION.fullmatch(field[0]):
            parts = private_parts(field[0], hides) or [_whole(field[0])]
            found += _moved(parts, field.start())
    return found


def says_nothing(text: str) -> bool:
    """Return whether a link that no browser opens is public: "redis://cache:6379/0"."""
    setting = _SETTING.fullmatch(text)
    if setting and _is_key(setting[1].strip("-=")):
        text = setting[2]
    link = _LINK.fullmatch(text)
    scheme = link["scheme"].lower() if link else ""
    known = scheme in identifiers.SCHEMES and scheme not in identifiers.WEB
    return known and not _link(text)


def _setting(text: str, hides: str) -> list[Part]:
    match = _SETTING.fullmatch(text)
    if not match or not _is_key(match[1].strip("-=")):
        return []
    value = match[2]
    if hides == "secrets":
        return _moved([_coded(value)], match.start(2))
    return _moved(private_parts(value, hides) or [_whole(value)], match.start(2))


def _is_key(text: str) -> bool:
    """Return whether the key of a setting is public: known keys and other public words."""
    rest = [word for word in identifying.words_in(text) if word.lower() not in _KEYS]
    return not any(map(str.isdigit, text)) and all(_stays(word, path=True) for word in rest)


def _login(text: str) -> list[Part]:
    """Return the parts of "deploy@203.0.113.45:/srv/www"; a mail address is drawn whole."""
    match = _LOGIN.fullmatch(text)
    if not match or not (match["rest"] or _IP.fullmatch(match["host"])):
        return []
    found = []
    if match["user"][:-1].lower() not in identifying.NOBODY:
        found.append(Part(0, match.end("user") - 1, _USER))
    public = _is_public_host(match["host"])
    if not public:
        found.append(_moved([_whole(match["host"])], match.start("host"))[0])
    if match["rest"]:
        found += _segments(text, match.start("rest") + 1, sure=not public)
    return found


def _link(text: str) -> list[Part]:
    match = _LINK.fullmatch(text)
    if not match or match["scheme"] == "file://":
        return []
    found = []
    if user := match["user"]:
        name, colon, _ = user[:-1].partition(":")
        start = match.start("user")
        found.append(Part(start, start + len(name), _USER))
        if colon:
            password = user[len(name) + 1 : -1]
            start += len(name) + 1
            found += _moved([_coded(password)], start) if password else []
    web = match["scheme"].lower() in identifiers.WEB
    public, rest = _is_public_host(match["host"]), match.start("rest")
    if not public:
        found += _moved([_whole(match["host"])], match.start("host"))
    if rest < 0:
        return found
    if web and not public:  # what the path says may be found by a search
        if len(match["rest"]) > 1:
            found.append(Part(rest + 1, len(text), Shape(_IDENTIFIER, identifiers.CODE, "a" * 8)))
        return found
    accounts = identifying.is_of_accounts(match["host"])
    for segment in _OF_QUERY.finditer(text, rest):
        queried = "?" in text[rest : segment.start()] and text[segment.start() - 1] == "="
        if (web and (queried or accounts)) or not _stays(segment[0]):
            found.append(_segment(segment[0], segment.start()))
    return found


def _path(text: str) -> list[Part]:
    start = len("file://") if text.startswith("file://") else 0
    return [*_segments(text, start)] if _PATH.fullmatch(text) else []


def _segments(text: str, start: int, *, sure: bool = True) -> Iterator[Part]:
    """Yield the private segments of a path; all unless ``sure``."""
    user = identifying.home_of(text)
    for segment in _SEGMENT.finditer(text, start):
        at, name = segment.start(), segment[0]
        line = _LINE.search(name)
        if at > start and line:
            name = name[: line.start()]
        if user and at == user[0]:
            if name.lower() not in identifying.NOBODY:
                yield Part(at, at + len(name), _USER)
        elif name.strip("~.") and (at > start or name[1:] != ":"):
            if sure and _stays(name, path=True):
                continue
            yield _segment(name, at)


def _escaped(text: str) -> list[Part]:
    r"""Return the parts of values that a line break in letters joins: "Anna\nHamburg"."""
    if not _ESCAPED.search(text) or len(text.split("\\")) != len(_ESCAPED.split(text)):
        return []
    found, at = [], 0
    for piece in _ESCAPED.split(text):
        if piece and not (piece.isalpha() and _stays(piece)):
            found += _moved(private_parts(piece, "unlisted") or [_whole(piece)], at)
        at += len(piece) + 2
    return found


def _segment(name: str, at: int) -> Part:
    stem, dot, ending = name.rpartition(".")
    if dot and ending.isalpha() and len(ending) <= _SHORT and stem:
        return Part(at, at + len(stem), _coded(stem).shape)
    return Part(at, at + len(name), _coded(name).shape)


def _coded(text: str) -> Part:
    shape = identifiers.shape(text)
    if shape.sort in ("host", "file", "web address"):
        shape = Shape(_IDENTIFIER, identifiers.CODE, layout(text))
    return Part(0, len(text), shape)


def _whole(text: str) -> Part:
    user = text.isalpha() and len(text) >= _SHORT
    return Part(0, len(text), _USER if user else identifiers.shape(text))


def _moved(parts: list[Part], by: int) -> list[Part]:
    return [Part(part.start + by, part.end + by, part.shape) for part in parts]


def _is_public_host(host: str) -> bool:
    return identifying.is_public_host(host, part_marks) or ("." not in host and _stays(host))


def _stays(text: str, *, path: bool = False) -> bool:
    """Return whether a part says nothing private: it holds listed words alone, and no name.

    Args:
        text: the part.
        path: whether it is of a path, where short words and usual names of folders are public.
    """
    if identifying.private(text, part_marks) or not (path or _PLAIN.fullmatch(text)):
        return False
    marks = part_marks if path else _marks()
    return all(
        (path and word.lower() in _DIRECTORIES) or _says_no_name(word, marks(word.lower()))
        for word in identifying.words_in(text)
    )


def _says_no_name(word: str, marks: int) -> bool:
    """Return whether a listed word is no name; "Uwe" is one, and also a listed abbreviation."""
    name = marks & Mark.NAME or (word.istitle() and listed_names(word) & _NAMES)
    return bool(marks) and not name


def part_marks(part: str) -> int:
    """Return the marks of a part of a compound; a short part that is a name has none."""
    marks = _marks()(part)
    if marks or is_name(part):
        return marks
    short = len(part) < _SHORT and part.isascii()
    return int(Mark.PUBLIC) if short or part in _CODE_WORDS or joined(part) else 0


def joined(text: str) -> bool:
    """Return whether a word is two listed words that are no names: "orderbook"."""
    if len(text) > _LONGEST_JOINED:
        return False
    for cut in range(_SHORT, len(text) - _SHORT + 1):
        first, second = _marks()(text[:cut]), _marks()(text[cut:])
        if first & second & Mark.WORD:
            return True
    return False


@cache
def _marks() -> Callable[[str], int]:
    return Vocabulary.shipped().marks


@cache
def _drawn() -> frozenset[str]:
    return frozenset((*words_of("given"), *words_of("family")))


def is_name(text: str) -> bool:
    """Return whether a word in small letters is a name that the device draws."""
    return text in _drawn()
