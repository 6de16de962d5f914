"""A word for a word of its group: number words, nationalities, and words that are in no list.

Number words spell out telephone numbers, ages and dates. Noise hides them badly, because they are
few and lie close together. Each is drawn uniformly within its group, for example units or ordinals.

Nationalities and religions state a fact that a release must not show. They are few as well. The
sort of word (an adjective, a people, a believer, a building) is kept for the sentence and is
published. The word itself is not.

A word without a vector cannot get noise, and words of similar spelling would reveal it. Letters of
any script become one of a few hundred plain nouns. A single letter, an ideograph or a sign becomes
another one of its sort, so that the text keeps its look.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates import Shape, below, case, fill, one_of, words_of
from sottovoce.core.privacy.surrogates import layout as layout_of
from sottovoce.core.text import word_classes
from sottovoce.core.text.words import IDEOGRAPHS

_DRAWN: Final = {
    "unit": "zero one two three four five six seven eight nine",
    "teen": "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
    "tens": "twenty thirty forty fifty sixty seventy eighty ninety",
    "scale": "hundred thousand million billion",
    "scales": "dozens hundreds thousands millions billions",
    "ordinal": "first second third fourth fifth sixth seventh eighth ninth",
    "teenth": "tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth"
    " eighteenth nineteenth",
    "tieth": "twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth",
    "scale ordinal": "hundredth thousandth millionth",
    "fraction": "half third quarter fifth",
    "fractions": "halves thirds quarters fifths",
    "times": "once twice",
    "multiple": "single double triple",
    "several": "twos threes fours fives sixes sevens eights nines",
    "firstly": "firstly secondly thirdly",
    "fold": "twofold threefold fourfold tenfold",
    "group": "duo trio quartet quintet",
    "multiplied": "doubled tripled halved",
    "multiplies": "doubles triples",
    "decade": "twenties thirties forties fifties sixties seventies eighties nineties",
    "roman": "ii iii iv vi vii viii ix xi xii xiii xiv xv xvi",
}
_ONLY_FOUND: Final = {
    "unit": "oh o nil nought naught",
    "tens": "fourty",
    "scale": "dozen trillion lakh crore",
    "scale ordinal": "billionth",
    "fraction": "sixth seventh eighth ninth tenth",
    "times": "thrice",
    "multiple": "couple twin treble quadruple quintuple dual",
    "scales": "trillions scores tens",
    "fractions": "sixths sevenths eighths ninths tenths hundredths",
    "group": "sextet octet",
    "multiplies": "doubling tripling",
    "roman": "xvii xviii xix xx xxi i v x",
}
"""What is found in a text besides what is drawn; a word in two groups is of the first."""

_NUMBERS: Final = {group: tuple(words.split()) for group, words in _DRAWN.items()}
_GROUPS: Final = {
    word: group
    for table in (_ONLY_FOUND, _DRAWN)
    for group in reversed(table)
    for word in table[group].split()
}
"""The group of each word, in small letters. Any other word drawn as a number counts as a unit."""


def number_shape(word: str) -> Shape:
    """Return the group of a number word and its case.

    >>> number_shape("Five").sort, number_shape("third").sort
    ('unit', 'ordinal')
    """
    return Shape("number", _GROUPS.get(word.lower(), "unit"), case(word))


def draw_number(shape: Shape, random: Random) -> str:
    """Draw a number word of that group, uniformly."""
    return word_classes.apply(word_classes.Case(shape.layout), one_of(_NUMBERS[shape.sort], random))


_ANY_OTHER: Final = "nationality"
"""The group of a word that a bundle calls an origin and that is not in the list."""


class _Origins(NamedTuple):
    groups: dict[str, str]
    """Of every word that may be met, its group."""
    choices: dict[str, tuple[str, ...]]
    """Of every group, what is drawn."""


def origins() -> frozenset[str]:
    """Return every word with a known sort, in small letters."""
    return frozenset(_origins().groups)


def origin_shape(word: str) -> Shape:
    """Return the sort of a word of origin, and its case.

    >>> origin_shape("Danish").sort, origin_shape("mosque").sort
    ('nationality', 'shrine')
    """
    return Shape("origin", _origins().groups.get(word.lower(), _ANY_OTHER), case(word))


def draw_origin(shape: Shape, random: Random) -> str:
    """Draw a word of that sort, uniformly."""
    return word_classes.apply(
        word_classes.Case(shape.layout), one_of(_origins().choices[shape.sort], random)
    )


@cache
def _origins() -> _Origins:
    rows = files(__package__).joinpath("lists", "origins.tsv").read_text("ascii").splitlines()[1:]
    groups: dict[str, str] = {}
    choices: dict[str, tuple[str, ...]] = {}
    for row in rows:
        word, group, use = row.split("\t")
        if use in ("both", "from"):
            groups[word] = group
        if use in ("both", "to"):
            choices[group] = (*choices.get(group, ()), word)
    return _Origins(groups, choices)


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
_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")


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


def unlisted_shape(text: str) -> Shape:
    """Return the sort of a text, with the case of a word or the number of ideographs."""
    return oddity(text) or Shape(_KIND, _WORD, case(text))


def draw_unlisted(shape: Shape, random: Random) -> str:
    """Draw another text of that shape, uniformly."""
    if shape.sort == _LETTERS:
        return fill(shape.layout, random)
    if shape.sort == _IDEOGRAPHS:
        codes = below(_NUMBER_OF_IDEOGRAPHS, int(shape.layout), random)
        return "".join(chr(_FIRST_IDEOGRAPH + code) for code in codes)
    if shape.sort == _WORD:
        drawn = one_of(words_of("words"), random)
        return word_classes.apply(word_classes.Case(shape.layout), drawn)
    return one_of(_CHOICES[shape.sort], random)
