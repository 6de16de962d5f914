"""Finds the cells of tables with a telling header, over a whole document.

Markdown tables, values between commas, semicolons or tabs, rows of SQL, and lines of vCards and
calendars are read. One pass over the lines is enough, so time grows linearly with the text. A
header may be far above a cell, so the signs that read near words cannot find these cells.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from sottovoce.core.privacy.packages import is_public_package
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import LONG_AMOUNT, counts, key_parts, listed, names_thing, opens
from sottovoce.core.privacy.surrogates import names
from sottovoce.core.text.vocabulary import Mark
from sottovoce.core.text.words import Kind

_DELIMITERS: Final = "|\t;,"
_MOST_COLUMNS: Final = 60
_LONGEST_HEADER: Final = 1_000
_LONGEST_NAME: Final = 40
"""Characters of a column's name."""
_MOST_WORDS: Final = 3
_BY_KEYS: Final = (
    ("secrets", listed("secret_keys")),
    ("contacts", listed("contact_keys")),
    ("persons", listed("person_keys") - listed("greeting") - {"to", "from", "re", "user"}),
    ("dates", listed("date_keys")),
    ("places", listed("place_keys")),
    ("organisations", listed("company_keys")),
    ("numbers", listed("number_keys")),
)
_SURE_NAMES: Final = listed("sure_name_keys")
_SUMS: Final = frozenset({"all", "average", "mean", "median", "other", "sum", "total", "totals"})
"""What rows below a header are called that hold no name."""
KEYS: Final = frozenset().union(*(keys for _, keys in _BY_KEYS))
_HEADER: Final = ""
_AMOUNTS: Final = "amounts"
"""Of a column that counts or measures; long numbers pass."""
_NAMES: Final = "names"
"""Of a column that may also hold names of things; only words that can be names are drawn."""
_THINGS: Final = "things"
"""Of a column of products; ordinary words and their numbers pass."""
_GOODS: Final = listed("goods")
_ARTICLE = re.compile(r"[A-Z]{1,4}-?\d{2,5}[A-Z]{0,2}")
_INSERT = re.compile(r"insert\s{1,9}into\s{1,9}[\w.\"`\[\]]{1,99}\s{0,9}\(", re.IGNORECASE)
_VALUES = re.compile(r"\)\s{0,9}values\s{0,9}\(", re.IGNORECASE)
_MARKS = re.compile(r"[',();]")
_RULE = re.compile(r"[\s|:+=-]+")
_CARD = re.compile(
    r"^(?:item\d{1,2}\.)?(?P<name>[A-Z-]{1,20})"
    r"(?P<more>(?:;[^:;\n\"]{0,80}(?:\"[^\"\n]{0,80}\")?[^:;\n\"]{0,20}){0,9}):(?P<value>[^\r\n]*)",
    re.MULTILINE,
)
"""A line of a vCard or a calendar: "TEL;TYPE=home:020 7946 0991"."""
_COMMON_NAME = re.compile(r";CN=\"?([^\";:]+)")
_ON_CARDS: Final = {
    **dict.fromkeys(("FN", "N", "NICKNAME"), "persons"),
    "ORG": "organisations",
    **dict.fromkeys(("ADR", "LABEL", "LOCATION"), "places"),
    **dict.fromkeys(("TEL", "EMAIL", "IMPP", "URL"), "contacts"),
    **dict.fromkeys(("BDAY", "ANNIVERSARY"), "dates"),
}
_FEWEST_DIGITS: Final = 3
_QUOTES: Final = "\"'`"


class Cell(NamedTuple):
    """A part of a document under a telling header."""

    start: int
    end: int
    hides: str
    """Of `hiding.KINDS`, `_NAMES`, `_AMOUNTS` or `_THINGS`; empty for the name of a column."""


def cells(document: str) -> list[Cell]:
    """Return the cells under telling headers, in order."""
    found = [*_lines(document), *_inserts(document), *_listings(document)]
    cards = [*_cards(document)]
    if cards:
        starts = [start for start, _ in cards]
        ends = [0, *(end for _, end in cards)]
        found = [cell for cell in found if ends[bisect_right(starts, cell.start)] <= cell.start]
        found += (cell for start, end in cards for cell in _on_cards(document, start, end))
    return sorted(found)


def _listings(document: str) -> Iterator[Cell]:
    """Yield the sizes of files (`ls -l`), and rows of numbers of processes and disks (`top`)."""
    for size in _FILE.finditer(document):
        yield Cell(*size.span(1), _AMOUNTS)
    start, columns, last = 0, 0, _MOST_COLUMNS
    for line in document.splitlines(keepends=True):
        if len(line) < _LONGEST_LISTED:
            titles = line.lower().split()
            parts = [*_COLUMN.finditer(line)]
            if len(_LISTING_HEADERS.intersection(titles)) >= _FEWEST_TITLES:
                yield Cell(start, start + len(line), _HEADER)
                columns = len(titles) - 1
                last = columns if titles[-1] in _COMMANDS else _MOST_COLUMNS
            elif len(parts) < columns:
                columns = 0
            elif columns:
                yield Cell(start, start + parts[:last][-1].end(), _AMOUNTS)
        start += len(line)


_FILE = re.compile(
    r"^[-bcdlps](?:[-r][-w][-xsStT]){3}[.+@]?[ ]+\d+[ ]+[\w.-]+[ ]+[\w.-]+[ ]+(\d+)[ ]",
    re.MULTILINE,
)
_COLUMN = re.compile(r"\S+")
_LISTING_HEADERS: Final = listed("listing_headers")
_COMMANDS: Final = ("command", "cmd", "name")
"""Titles of the last column, whose values may hold anything."""
_FEWEST_TITLES: Final = 3
_LONGEST_LISTED: Final = 400


def _cards(document: str) -> Iterator[tuple[int, int]]:
    """Yield the ends of vCards and of parts of calendars."""
    start = document.find("BEGIN:V")
    while start >= 0 and (end := document.find("END:V", start)) >= 0:
        yield start, end
        start = document.find("BEGIN:V", end)


def _on_cards(document: str, start: int, end: int) -> Iterator[Cell]:
    """Yield the values of a vCard or a part of a calendar between two places."""
    for line in _CARD.finditer(document, start, end):
        for name in _COMMON_NAME.finditer(document, line.start("more"), line.end("more")):
            yield Cell(*name.span(1), "persons")
        if hides := _ON_CARDS.get(line["name"]):
            yield Cell(*line.span("value"), hides)


def _kind(name: str) -> str:
    """Return the kind of a column with this name; "" for nothing private."""
    if len(name) > _LONGEST_NAME:
        return ""
    name = name.strip().strip(_QUOTES + "*[]")
    if is_public_package(name):
        return ""  # of an import: "go.uber.org/zap"
    keys = key_parts(name)
    hides = next((hides for hides, of in _BY_KEYS if keys & of and not names_thing(keys)), "")
    hides = "secrets" if opens(keys) else hides
    if counts(name) and hides not in ("secrets", "contacts"):
        return _AMOUNTS
    if not hides and not keys.isdisjoint(_GOODS):
        return _THINGS
    return _NAMES if hides == "persons" and not keys & _SURE_NAMES else hides


def _is_name(text: str) -> bool:
    """Return whether a text may be the name of a column."""
    return len(text) <= _LONGEST_NAME and len(text.split()) <= _MOST_WORDS


def _lines(document: str) -> Iterator[Cell]:
    header: list[str] = []
    columns: list[tuple[int, int]] = []
    delimiter, start = "", 0
    while start < len(document):
        end = document.find("\n", start)
        end = len(document) if end < 0 else end
        if header and _RULE.fullmatch(document, start, end) and end - start < _LONGEST_HEADER:
            start = end + 1
            continue
        parts = [*_split(document, start, end, delimiter)] if header else []
        if header and len(parts) == len(header):
            yield from (Cell(first, last, _HEADER) for first, last in columns)
            columns = []
            yield from (
                Cell(first, last, hides)
                for (first, last), hides in zip(parts, header, strict=True)
                if hides
            )
        else:
            header, delimiter = _header(document[start : min(end, start + _LONGEST_HEADER)])
            columns = [*_split(document, start, end, delimiter)] if header else []
        start = end + 1


def _header(line: str) -> tuple[list[str], str]:
    """Return the kinds of a header's columns, and the sign between them."""
    for delimiter in _DELIMITERS:
        if delimiter not in line:
            continue
        titles = [line[first:last] for first, last in _split(line, 0, len(line), delimiter)]
        if len(titles) < 2 or not all(map(_is_name, titles)):
            continue
        if not all(name.strip() for name in titles[1:]):
            continue  # rather a statement: "String name;"
        if delimiter == "," and len(titles) == 2 and titles[1][:1].isspace():
            continue  # rather a sentence
        hides = [_kind(name) for name in titles]
        if any(hides):
            return hides, delimiter
    return [], ""


def _split(text: str, start: int, end: int, delimiter: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a line; delimiters in double quotes do not count."""
    if delimiter == "|":
        while start < end and text[start] in "| \t":
            start += 1
        while end > start and text[end - 1] in "| \t\r":
            end -= 1
    first, number, quoted = start, 0, False
    for match in re.compile(rf'["{re.escape(delimiter)}]').finditer(text, start, end):
        if match[0] == '"':
            quoted = not quoted
        elif not quoted:
            yield first, match.start()
            first, number = match.end(), number + 1
            if number > _MOST_COLUMNS:
                return
    yield first, end


def _inserts(document: str) -> Iterator[Cell]:
    """Yield the values of SQL's INSERT under telling columns."""
    inserts = [*_INSERT.finditer(document)]
    ends = [*(insert.start() for insert in inserts[1:]), len(document)]
    for insert, end in zip(inserts, ends, strict=False):
        values = _VALUES.search(document, insert.end(), min(insert.end() + _LONGEST_HEADER, end))
        if not values:
            continue
        titles = document[insert.end() : values.start()].split(",")
        hides = [_kind(name) for name in titles]
        first, place = values.end(), 0
        quoted = False
        for mark in _MARKS.finditer(document, values.end(), end):
            text = mark[0]
            if text == "'":
                quoted = not quoted
            elif quoted:
                continue
            elif text == "(":
                first, place = mark.end(), 0
            elif text == ";":
                break
            else:
                if place < len(hides) and hides[place] and first < mark.start():
                    yield Cell(first, mark.start(), hides[place])
                first, place = mark.end(), place + 1 if text == "," else _MOST_COLUMNS


def in_cells(sight: Sight, found: Sequence[Cell]) -> Iterator[tuple[int, str]]:
    """Yield the places of words in cells, and the kind that each hides."""
    plain = listed("plain_values") | _SURE_NAMES - {"first", "given", "last"} | _SUMS
    starts = [cell.start for cell in found]
    for place, word in enumerate(sight.words):
        at = bisect_right(starts, word.start) - 1
        if at < 0 or word.start >= found[at].end:
            at = bisect_left(starts, word.end) - 1  # "TEL:0207946" begins before its value
        if at < 0 or word.start >= found[at].end or word.kind is Kind.PUNCTUATION:
            continue
        hides, digits = found[at].hides, sum(map(str.isdigit, word.text))
        marks, lower = sight.marks[place], sight.lower[place]
        if hides == _HEADER:
            ordinary = marks & Mark.WORD and not (marks & Mark.NAME and names.gender(lower))
            if ordinary or lower in KEYS | _LISTING_HEADERS or counts(lower):
                yield place, hides
            continue
        if hides == _THINGS:
            ordinary = marks & Mark.WORD and not marks & Mark.NAME  # "Present for Grace"
            if ordinary or _ARTICLE.fullmatch(word.text):
                yield place, ""
            continue
        if hides == _AMOUNTS:
            if LONG_AMOUNT.fullmatch(word.text):
                yield place, ""
            continue
        if lower in plain or word.clitic:
            continue
        after = sight.words[place + 1].text if place + 1 < len(sight.words) else ""
        if len(word.text) == 1 and after[:1] in ("'", "’"):
            continue  # of O''Connor, which SQL writes with two quotes
        if hides == "numbers" and digits < _FEWEST_DIGITS:
            continue
        if hides in ("dates", "contacts") and word.kind is not Kind.IDENTIFIER:
            continue
        listed_word = marks and not marks & Mark.NAME
        if hides in ("persons", _NAMES) and marks & Mark.TITLE:
            continue
        passes = (_NAMES,) if sight.capital(place) else ("persons", "organisations", _NAMES)
        if listed_word and hides in passes:
            continue
        yield place, "persons" if hides == _NAMES else hides


def rows(sight: Sight) -> Iterator[int]:
    """Yield names in a row of values without a header: `(1,'Long','Rose','1948-02-29')`."""
    edges = [
        place
        for place, word in enumerate(sight.words)
        if word.kind is Kind.PUNCTUATION and word.text[0] in ",;|("
    ]
    named = [_name(sight, first, last) for first, last in pairwise((*edges, len(sight.words)))]
    for (one, other), first in zip(pairwise(named), edges, strict=False):
        if one and other and _has_number(sight, first):
            yield from (*one, *other)


def _name(sight: Sight, first: int, last: int) -> list[int]:
    """Return the place of a value that is one word with a capital and may be a name."""
    if last - first > _MOST_IN_VALUE:
        return []
    inner = [at for at in range(first + 1, last) if sight.words[at].text[0] not in _QUOTES + ")"]
    tight = first + 1 < len(sight.words) and not sight.gaps[first + 1]
    if len(inner) != 1 or not tight or not sight.capital(inner[0]):
        return []
    marks = sight.marks[inner[0]]
    word = sight.words[inner[0]].kind is Kind.WORD
    return inner if word and (not marks or marks & Mark.NAME) and not marks & Mark.PUBLIC else []


_MOST_IN_VALUE: Final = 5
_NEAR: Final = 12


def _has_number(sight: Sight, place: int) -> bool:
    """Return whether an identifier stands near in the same line."""
    for step in (-1, 1):
        at = place
        while 0 <= at < len(sight.words) and abs(at - place) <= _NEAR:
            if sight.words[at].kind is Kind.IDENTIFIER:
                return True
            edge = at if step < 0 else at + 1
            if edge < len(sight.words) and sight.breaks(edge):
                break
            at += step
    return False
