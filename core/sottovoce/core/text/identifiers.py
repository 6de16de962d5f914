"""Finds what must never pass as text: addresses, links, numbers and codes, and replaces it.

Why it is here: an identifier has no neighbours in meaning, so d_X-privacy has nothing to say about
it. It is found by its outer shape alone and replaced by a random one of the same shape. Finding is
generous on purpose: a sentence glued to a number is taken whole rather than leaked in part.
"""

import re
import unicodedata
from typing import Final

__all__ = ["find", "has_number"]

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


def find(document: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Spans of the identifiers in `document[start:end]`, in code points of `document`, sorted and
    apart; what is left out must begin and end with white space.

    Mail addresses, links, bare domains and file names, @names, paths, names_with_underscores,
    settings=made, and every run that holds a number of any script (Unicode categories Nd, Nl, No)
    together with the letters and inner punctuation it is joined to. Keys without a digit as well,
    where cutting them into words could leave a word of theirs: base64 with its signs, and capitals
    in equal groups (ABCD-EFGH-IJKL). Time grows linearly with the text.
    """
    spans: list[tuple[int, int]] = []
    done, end = start, len(document) if end is None else end
    for link in _URL.finditer(document, start, end):
        spans += _find_in_pieces(document, done, link.start())
        done = link.start() + len(link[0].rstrip(_URL_TAIL))
        spans.append((link.start(), done))
    return spans + _find_in_pieces(document, done, end)


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
    # "end.a" is taken as "end.the" is: what follows the stop must not decide about what precedes.
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
    """Whether any character is a number in any script (Unicode categories Nd, Nl, No)."""
    if text.isascii():
        return not text.isalpha() and any("0" <= character <= "9" for character in text)
    return any(unicodedata.category(character)[0] == "N" for character in text)
