"""Finds identifiers, which must never pass: addresses, links, numbers, codes and spelled names.

An identifier has no neighbours in meaning, so d_X-privacy does not apply to it. It is found by its
form alone and replaced by a random one of the same form. The search errs on the safe side: a
sentence glued to a number is taken whole rather than leaked in part.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

__all__ = ["find", "has_number", "is_spelled", "spelled"]

_URL = re.compile(
    r"(?<![^\W\d_])(?:(?:https?|ftp)://|www\.)(?=[^\W_]|\[)[^\s<>\"“”«»]*+", re.IGNORECASE
)
_URL_TAIL: Final = ".,;:!?'\"’*_)]}>…"

# A piece is a run without white space, brackets, quotes, dashes and unspaced scripts. Full stops
# and hyphens join only when single, commas only between digits. Each character is looked at once,
# which keeps the scan linear whatever the text.
_UNSPACED: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_PIECE = re.compile(
    rf"(?:[^\s.,\-()\[\]{{}}<>\"'`“”„‘’‚«»‹›–—―…!?;|*{_UNSPACED}]"
    r"|(?<!\.)\.(?!\.)|(?<!-)-(?!-)|(?<=\d),(?=\d)"
    # Queries and fragments of links without a scheme: example.org/find?name=x
    r"|(?<=\w)\?(?=\w+=))++"
)
_MAY_BE = re.compile(r"[\d@_\\]|[./+=]\w|//\w|[^\x00-\x7f]|-[A-Z]{4}")
_LEAD: Final = ".,:;-_%&=?^|#"
_TAIL: Final = ".,:;-_@&=?^|#/\\"
_DOTTED = re.compile(
    r"(?:(?<=[^\W_][^\W_])\.|(?<=[^\W_])\.(?=[^\W\d_]{2}))([^\W\d_]++)(?=[/:?#]|$)"
)
_PATH = re.compile(r"~?/[\w.\-]+/|~/\w|\w*://\w")
_ALPHANUMERIC = re.compile(r"[^\W_]")
_ASSIGNED = re.compile(r"\w=+\w")
_CODE_IN_GROUPS = re.compile(r"[A-Z]{4,}(?:-[A-Z]{4,}){2,}")
_MIXED_CASE = re.compile(r"[a-z][A-Z]")
_SHORTEST_KEY: Final = 20

# A letter or digit that stands alone, with its combining marks. Unspaced scripts and Hangul write
# whole words so.
_MARKS: Final = "".join(
    mark for mark in map(chr, range(0x300, 0x3100)) if unicodedata.category(mark)[0] == "M"
)
_SINGLE: Final = rf"[^\W_{_UNSPACED}\uac00-\ud7af][{_MARKS}]*+(?!\w)"
_BLANK: Final = r"[^\S\n\r\v\f\x1c-\x1e\x85\u2028\u2029]{0,3}"
_SPELLED = re.compile(
    rf"(?<!\w)(?<!\w['’]){_SINGLE}"
    rf"(?P<joiner>{_BLANK}(?:[-‐‑‒–—―−.·•]{_BLANK})?|,{_BLANK}|[*/|~])"
    rf"{_SINGLE}(?:(?P=joiner)(?P<last>{_SINGLE}))++(?:(?<!\s\w)(?=(?P=joiner))\.)?"
)
_FEWEST, _FEWEST_WITH_COMMAS, _MOST = 3, 4, 200
_SPELLED_PART = re.compile(rf"{_SINGLE}(?:[\W_]{{1,7}}{_SINGLE}){{0,{_MOST - 1}}}\.?")


def find(document: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Return the spans of the identifiers in `document[start:end]`, sorted and apart.

    Spans are in code points of `document`. Each text between them must begin and end with white
    space.

    Identifiers are mail addresses, links, bare domains and file names, @names, paths,
    names_with_underscores and settings=made. A number of any script (Unicode categories Nd, Nl, No)
    is one too, together with the letters and inner punctuation joined to it.

    Keys without a digit are identifiers where cutting them into words could leave a part in the
    clear: base64 with its signs, and capitals in equal groups (ABCD-EFGH-IJKL). So are spelled
    names, see `spelled`; these alone may hold white space. Time grows linearly with the text.
    """
    spans: list[tuple[int, int]] = []
    done, end = start, len(document) if end is None else end
    for link in _URL.finditer(document, start, end):
        spans += _find_in_pieces(document, done, link.start())
        done = link.start() + len(link[0].rstrip(_URL_TAIL))
        spans.append((link.start(), done))
    spans += _find_in_pieces(document, done, end)
    letters = [*_find_spelled(document, start, end)]
    return _with(document, spans, letters) if letters else spans


def spelled(document: str) -> Iterator[tuple[int, int]]:
    """Return the stretches of a document with spelled names: M-I-A, "J. o. n. e. s".

    A spelled name is three or more single letters, and any single digits between them, with the
    same joiner throughout. The joiner is blanks, a dash or dot with or without blanks around it, or
    one of ``* / | ~``. With commas it takes four letters, as three are most often variables. A
    stretch begins and ends at white space, so the stretches can be cut into words by themselves.
    """
    begin = stop = 0
    for run in _runs(document, 0, len(document)):
        first, last = run.span()
        if first >= stop:
            if stop:
                yield begin, stop
            begin = first
            while begin > stop and not document[begin - 1].isspace():
                begin -= 1
        stop = max(stop, last)
        while stop < len(document) and not document[stop].isspace():
            stop += 1
    if stop:
        yield begin, stop


def is_spelled(text: str) -> bool:
    """Return whether ``text`` is one spelled name, and nothing else."""
    run = _SPELLED.fullmatch(text)
    return run is not None and _has_enough_letters(run)


def _runs(document: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """Yield spelled names; the last letter of one may be the first of the next."""
    while run := _SPELLED.search(document, start, end):
        start = run.start("last")
        if _has_enough_letters(run):
            yield run


def _has_enough_letters(run: re.Match[str]) -> bool:
    fewest = _FEWEST_WITH_COMMAS if run["joiner"][0] == "," else _FEWEST
    return sum(map(str.isalpha, run[0])) >= fewest


def _find_spelled(document: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Return spans of spelled names, at most `_MOST` letters each, so that no word is too long."""
    done = start
    for run in _runs(document, start, end):
        for part in _SPELLED_PART.finditer(document, max(run.start(), done), run.end()):
            yield part.span()
        done = run.end()


def _with(
    document: str, spans: list[tuple[int, int]], names: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Merge ``spans`` with the parts of spelled ``names`` outside them; both are sorted and apart.

    A span within a name is replaced by the name.
    """
    found: list[tuple[int, int]] = []
    within, at = set(), 0
    bounds = [*spans, (len(document) + 1, len(document) + 1)]
    for first, end in names:
        start = first
        while bounds[at][1] <= start:
            at += 1
        place = at
        while start < end:
            while first <= bounds[place][0] and bounds[place][1] <= end:
                within.add(bounds[place])
                place += 1
            rest = document[start : min(end, bounds[place][0])]
            if _ALPHANUMERIC.search(rest):
                begin = start + len(rest) - len(rest.lstrip())
                found.append((begin, begin + len(rest.strip())))
            start, place = bounds[place][1], place + 1
    return sorted([*found, *(span for span in spans if span not in within)])


def _find_in_pieces(document: str, start: int, end: int) -> list[tuple[int, int]]:
    spans = []
    for piece in _PIECE.finditer(document, start, end):
        text = piece[0]
        if _MAY_BE.search(text):
            core = text.lstrip(_LEAD)
            first = piece.start() + len(text) - len(core)
            core = core.rstrip(_TAIL)
            if _is_identifier(core):
                spans.append((first, first + len(core)))
    return spans


def _is_identifier(core: str) -> bool:
    if has_number(core):
        return True
    if not _ALPHANUMERIC.search(core):
        return False
    if "@" in core or "_" in core or "\\" in core or _PATH.match(core) or _is_key(core):
        return True
    # "end.Next" is two sentences that lack a space; "example.org" and "report.pdf" are names, and
    # "end.a" is treated as "end.the": the word after the stop must not decide about the one before.
    return any(label[1].islower() or core.isupper() for label in _DOTTED.finditer(core))


def _is_key(core: str) -> bool:
    if _ASSIGNED.search(core):
        return True
    if _CODE_IN_GROUPS.fullmatch(core):
        return len(set(map(len, core.split("-")))) == 1
    return (
        len(core) >= _SHORTEST_KEY
        and "/" in core.replace("+", "/")
        and bool(_MIXED_CASE.search(core))
    )


def has_number(text: str) -> bool:
    """Return whether any character is a number in any script (Unicode categories Nd, Nl, No)."""
    if text.isascii():
        return not text.isalpha() and any("0" <= character <= "9" for character in text)
    return any(unicodedata.category(character)[0] == "N" for character in text)
