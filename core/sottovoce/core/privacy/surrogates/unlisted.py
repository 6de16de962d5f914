"""A rare listed word for a word that is in no list.

A word without a vector cannot get noise, and words of similar spelling would reveal it. Letters of
any script become one of a few hundred plain nouns. A single letter, an ideograph or a sign becomes
another one of its sort, so that the text keeps its look.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates.shape import Shape, below, case, fill, listed, one_of
from sottovoce.core.privacy.surrogates.shape import layout as layout_of
from sottovoce.core.text import word_classes

__all__ = ["draw", "oddity", "shape"]

_KIND: Final = "unlisted"
_WORD: Final = "word"
_LETTERS: Final = "letters"
_IDEOGRAPHS: Final = "ideographs"
_CHOICES: Final = {
    "sign": "×÷±≈≠≤≥∞→←↑↓",
    "picture": "😀😂😊😍😎😢😡😱🤔👍👎👏🙏💪🎉🎂🎁🎵🌞🌙🔥🌸🌲🐶🐱🐦🐟🍎🍕☕🚗🏠📚📷⚽★✔",
}

_FIRST_IDEOGRAPH: Final = 0x4E00
_NUMBER_OF_IDEOGRAPHS: Final = 20_000
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def oddity(text: str) -> Shape | None:
    """Return the shape of a text that is no ordinary word, of any kind; None for a word.

    These are ideographs, initials and abbreviations with full stops, single letters, and any text
    without letters.

    >>> oddity("U.S.")
    Shape(kind='unlisted', sort='letters', layout='A.A.')
    >>> oddity("O'Hara") is None
    True
    """
    if text.isascii() and text.isalpha() and len(text) > 1:
        return None  # most words
    if _IDEOGRAPH.match(text):
        return Shape(_KIND, _IDEOGRAPHS, str(len(_IDEOGRAPH.findall(text))))
    categories = {unicodedata.category(character) for character in text}
    if not any(category[0] == "L" for category in categories):
        return Shape(_KIND, "picture" if "So" in categories else "sign")
    if "." in text:
        return Shape(_KIND, _LETTERS, "".join(c for c in layout_of(text) if c in "Aa9."))
    return Shape(_KIND, _LETTERS, layout_of(text)) if len(text) == 1 else None


def shape(text: str) -> Shape:
    """Return the sort of a text, with the case of a word or the number of ideographs."""
    return oddity(text) or Shape(_KIND, _WORD, case(text))


def draw(shape: Shape, random: Random) -> str:
    """Draw another text of that shape, uniformly."""
    if shape.sort == _LETTERS:
        return fill(shape.layout, random)
    if shape.sort == _IDEOGRAPHS:
        codes = below(_NUMBER_OF_IDEOGRAPHS, int(shape.layout), random)
        return "".join(chr(_FIRST_IDEOGRAPH + code) for code in codes)
    if shape.sort == _WORD:
        return word_classes.apply(word_classes.Case(shape.layout), one_of(listed("words"), random))
    return one_of(_CHOICES[shape.sort], random)
