"""Finds what must never pass as text: addresses, links, numbers and codes, and replaces it.

Why it is here: an identifier has no neighbours in meaning, so d_X-privacy has nothing to say about
it. It is found by its outer shape alone and replaced by a random one of the same shape. Finding is
generous on purpose: a sentence glued to a number is taken whole rather than leaked in part.
"""

import re
import string
import unicodedata
from typing import Final

import numpy as np

from sottovoce.edge.noise import Random

TOP_LEVELS: Final = ("com", "org", "net", "info")
"""What the last label of a host is drawn from, whatever it was."""

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
_MAY_BE = re.compile(r"[\d@_\\]|[./]\w|//\w|[^\x00-\x7f]")
_LEAD: Final = ".,:;-_%&=?^|#"
_TAIL: Final = ".,:;-_@&=?^|#/\\"
_DOTTED = re.compile(r"(?<=[^\W_])\.([^\W\d_]{2,}+)(?=[/:?#]|$)")
_PATH = re.compile(r"~?/[\w.\-]+/|~/\w|\w*://\w")
_ALPHANUMERIC = re.compile(r"[^\W_]")

_SCHEME = re.compile(r"(?:[a-z][a-z+\-]{0,15}://(?:www\.)?|www\.)", re.IGNORECASE)
_HOST = re.compile(r"[^/?#]*")
_LAST_LABEL = re.compile(r"\.([^\W\d_]{2,})(?=:\w*$|$)")


def find(document: str) -> list[tuple[int, int]]:
    """Spans of the identifiers in `document`, in code points, sorted and apart.

    Mail addresses, links, bare domains and file names, @names, paths, names_with_underscores, and
    every run that holds a number of any script (Unicode categories Nd, Nl, No) together with the
    letters and inner punctuation it is joined to. Time grows linearly with the text.
    """
    spans: list[tuple[int, int]] = []
    done = 0
    for link in _URL.finditer(document):
        spans += _find_in_pieces(document, done, link.start())
        done = link.start() + len(link[0].rstrip(_URL_TAIL))
        spans.append((link.start(), done))
    return spans + _find_in_pieces(document, done, len(document))


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
    if "@" in core or "_" in core or "\\" in core or _PATH.match(core):
        return True
    # "end.Next" is two sentences that lack a space; "example.org" and "report.pdf" are names.
    return any(label[1].islower() or core.isupper() for label in _DOTTED.finditer(core))


def has_number(text: str) -> bool:
    """Whether any character is a number in any script (Unicode categories Nd, Nl, No)."""
    if text.isascii():
        return not text.isalpha() and any("0" <= character <= "9" for character in text)
    return any(unicodedata.category(character)[0] == "N" for character in text)


def replace(text: str, random: Random) -> str:
    """A random identifier of the same shape as `text`.

    Numbers of any script become random ASCII digits, letters of any script random ASCII letters of
    the same case, ASCII punctuation and currency signs stay, anything else becomes a random small
    letter. Every draw is uniform and independent of the true character; a draw that happens to
    equal it stays, since rejecting it would look at the true one again. The last label of a mail
    or web host is drawn from `TOP_LEVELS`; a scheme ("https://", "www.") stays.

    What leaks: the length, the case, where digits and punctuation stand, and the scheme.
    """
    kept = _SCHEME.match(text)
    scheme = kept[0] if kept else ""
    rest = text[len(scheme) :]
    host = _HOST.match(rest)
    authority = host[0] if host else ""
    label = _LAST_LABEL.search(authority)
    if label is None or has_number(label[1]):  # "²" is no digit to a regular expression
        return scheme + _scramble(rest, random)
    top = TOP_LEVELS[_below(len(TOP_LEVELS), 1, random)[0]]
    before, after = authority[: label.start(1)], rest[label.end(1) :]
    return scheme + _scramble(before, random) + top + _scramble(after, random)


def _scramble(text: str, random: Random) -> str:
    # Both arrays are drawn for every character: the stream then advances by the length alone.
    digits, letters = _below(10, len(text), random), _below(26, len(text), random)
    return "".join(map(_same_shape, text, digits, letters))


def _below(end: int, n: int, random: Random) -> list[int]:
    """``n`` whole numbers, uniform on 0 .. end - 1 but for a part in 2**53 / end."""
    drawn: list[int] = (random.random((n,)) * end).astype(np.int64).tolist()
    return drawn


def _same_shape(character: str, digit: int, letter: int) -> str:
    if character in string.punctuation:
        return character
    category = unicodedata.category(character)
    if category[0] == "N":
        return string.digits[digit]
    if category == "Sc":
        return character
    if category in ("Lu", "Lt"):
        return string.ascii_uppercase[letter]
    return string.ascii_lowercase[letter]
