"""What the name finder may see of the words around one: no more than a release shows of them.

Why it is here: exchanging a word for another of its class must change no other word's treatment.
A network that read its neighbours would break this promise at the first name. So it is shown of
each neighbour only a *look*: the class the word has by itself and the case it is written in, which
both survive the release, or the punctuation mark, which passes. Two texts whose words look alike
are the same text to whoever decides about a neighbour.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.text.casing import Case, shape
from sottovoce.core.text.word_classes import READINGS
from sottovoce.core.text.words import Kind, Word

__all__ = ["EDGE", "FIRST_WORD", "IDENTIFIER", "LOOKS", "MARKS", "looks"]

EDGE: Final = 0
"""No word at all: before the first word of a document, and after its last."""

MARKS: Final = ".,;:!?-()[]\"'/&*#@%"
"""Punctuation marks that look different; variants of a mark look like it, others like one another.
"""
_VARIANTS: Final = {
    **dict.fromkeys("‐‑‒–—―", "-"),
    **dict.fromkeys("“”„«»", '"'),
    **dict.fromkeys("‘’‚‹›", "'"),
    "…": ".",
    "{": "[",
    "}": "]",
    "·": "*",
    "•": "*",
}
_MARK: Final = {mark: 1 + number for number, mark in enumerate(MARKS)}
_MARK.update({variant: _MARK[mark] for variant, mark in _VARIANTS.items()})
_OTHER_MARK: Final = 1 + len(MARKS)

IDENTIFIER: Final = _OTHER_MARK + 1
"""The look of every number, address, link and code."""

FIRST_WORD: Final = IDENTIFIER + 1
"""Looks from here on are those of words; below are marks and identifiers."""

_CASES: Final = {case: number for number, case in enumerate(Case)}
_WORD, _IDENTIFIER = Kind.WORD, Kind.IDENTIFIER

LOOKS: Final = FIRST_WORD + (len(READINGS) + 1) * len(_CASES)  # and UNLISTED
"""How many looks there are."""


def looks(words: Sequence[Word], readings: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """How each word looks to its neighbours.

    Args:
        words: consecutive words of one document.
        readings: (n_words,) places in ``(*READINGS, UNLISTED)``, see `readings.look_up`; of marks
            and identifiers it does not matter what it says.

    Returns:
        (n_words,) numbers from 1 up to `LOOKS`.
    """
    firsts = (FIRST_WORD + readings.astype(int) * len(_CASES)).tolist()
    cases = {text: _CASES[shape(text)] for text in {word.text for word in words}}
    found = [
        first + cases[text]
        if kind is _WORD
        else IDENTIFIER
        if kind is _IDENTIFIER
        else _MARK.get(text[0], _OTHER_MARK)
        for (text, _, _, kind, _), first in zip(words, firsts, strict=True)
    ]
    return np.array(found, np.uint8)
