"""A number word for a number word: a unit for a unit, an ordinal for an ordinal.

Number words spell out telephone numbers, ages and dates. Noise hides them badly, because they are
few and lie close together. Each is drawn uniformly within its group.
"""

from __future__ import annotations

from typing import Final

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates.shape import Shape, case, one_of
from sottovoce.core.text import word_classes

__all__ = ["WORDS", "draw", "shape"]

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

_CHOICES: Final = {group: tuple(words.split()) for group, words in _DRAWN.items()}
_GROUPS: Final = {
    word: group
    for table in (_ONLY_FOUND, _DRAWN)
    for group in reversed(table)
    for word in table[group].split()
}

WORDS: Final = frozenset(_GROUPS)
"""Every word known here, in small letters; any other that is drawn as a number counts as a unit."""


def shape(word: str) -> Shape:
    """Return the group of a number word and its case.

    >>> shape("Five").sort, shape("third").sort
    ('unit', 'ordinal')
    """
    return Shape("number", _GROUPS.get(word.lower(), "unit"), case(word))


def draw(shape: Shape, random: Random) -> str:
    """Draw a number word of that group, uniformly."""
    return word_classes.apply(word_classes.Case(shape.layout), one_of(_CHOICES[shape.sort], random))
