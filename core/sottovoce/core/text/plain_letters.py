"""Reads letters that are written in another way: in circles, as references, between marks.

"Ⓝⓐⓘⓡ", "Sch&auml;fer" and "<b>N</b>air" are one word each, and read like "Nair" and "Schäfer".
Otherwise the rest of a name would leave beside the surrogate of its beginning.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_FILLER: Final = "\N{WORD JOINER}"
"""Stands where signs were, so that all places stay."""

_ALPHABETS: Final = {0x249C: "a", 0x24D0: "a"} | dict.fromkeys(
    (0x24B6, 0x1F110, 0x1F130, 0x1F150, 0x1F170), "A"
)
"""Where letters in brackets, circles and squares begin."""
_LETTERS: Final = {
    chr(start + number): chr(ord(first) + number)
    for start, first in _ALPHABETS.items()
    for number in range(26)
}
_TAG: Final = r"<(?P<{0}>b|big|em|font|i|mark|small|span|strong|u)>"
_CODED = re.compile(
    rf"(?P<letter>[{''.join(_LETTERS)}])(?!\ufe0f)"
    r"|&(?:[A-Za-z]{2,8}|#\d{2,6}|#[xX][\dA-Fa-f]{2,5});"
    rf"|{_TAG.format('tag')}(?P<tagged>[^\W\d_]{{1,40}})</(?P=tag)>(?=[^\W\d_])"
    rf"|(?<=[^\W\d_]){_TAG.format('inner')}(?P<within>[^\W\d_]{{1,40}})</(?P=inner)>"
    r"|(?<![\w*])\*\*(?P<bold>[^\W\d_]{1,40})\*\*(?=[^\W\d_])"
)
_MAY_BE = re.compile(r"[&<\u249c-\u24e9\U0001f110-\U0001f189]|\*\*")


def decoded(text: str) -> str:
    """Return a text with plain letters, at the same length; the text itself if it has no others.

    References and marks become the letter, or nothing, and fillers. Marks count only beside another
    letter of their word.
    """
    return _CODED.sub(_letter, text) if _MAY_BE.search(text) else text


def without_fillers(text: str) -> str:
    """Return a decoded text as it reads.

    >>> without_fillers(decoded("Ⓝⓐⓘⓡ, Sch&auml;fer, <b>N</b>air"))
    'Nair, Schäfer, Nair'
    """
    return text.replace(_FILLER, "")


def as_read(text: str) -> tuple[str, Sequence[int] | None]:
    """Return a text as people read it, and where each of its characters stands in the text.

    Letters are plain and composed (NFKC). Signs that nobody sees, and marks that strike a letter
    through, are left out. The places are None if the text reads as it stands.

    >>> as_read("a Ⓝⓐi&shy;r")
    ('a Nair', [0, 1, 2, 3, 4, 10])
    """
    plain = decoded(text)
    if plain == text and text.isascii():
        return text, None
    read: list[str] = []
    places: list[int] = []
    for place, letter in enumerate(plain):
        category = unicodedata.category(letter)
        if category == "Cf":
            continue
        if category == "Mn" and read:
            joined = unicodedata.normalize("NFKC", read[-1] + letter)
            read[-1] = joined if len(joined) == 1 else read[-1]
            continue
        forms = unicodedata.normalize("NFKC", letter)
        read += forms
        places += [place] * len(forms)
    return "".join(read), places


def _letter(coded: re.Match[str]) -> str:
    text = coded[0]
    if letter := coded["letter"]:
        return _LETTERS[letter]
    if text[0] == "&":
        said = html.unescape(text)
        if len(said) != 1:
            return text
        before = coded.string[max(coded.start() - 1, 0) : coded.start()].isalnum()
        inside = before and coded.string[coded.end() : coded.end() + 1].isalnum()
        category = unicodedata.category(said)
        if inside and category == "Cf":
            return _FILLER * len(text)  # "Ne&shy;il"
        known = said.isalpha() or (inside and said == "@") or (before and category == "Mn")
        return said + _FILLER * (len(text) - 1) if known else text
    group = next(name for name in ("tagged", "within", "bold") if coded[name])
    start = coded.start(group) - coded.start()
    end = coded.end(group) - coded.start()
    return _FILLER * start + text[start:end] + _FILLER * (len(text) - end)
