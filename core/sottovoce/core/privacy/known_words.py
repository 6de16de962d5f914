"""Facts about the different words of one document, each looked up once.

Most words of a text occur more than once. A word's reading, its look to neighbours and the name
finder's features of its form depend on the word alone. The facts are forgotten with the document,
and in a long document before its end, so memory does not grow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.privacy.policies import IDENTIFIER, KINDS, PUNCTUATION
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.word_classes import look_up
from sottovoce.core.text.word_shapes import FIRST_WORD, looks
from sottovoce.core.text.words import Kind, Word

__all__ = ["MOST", "Alone", "KnownWords"]

MOST: Final = 2_048
"""Number of different words after which all are forgotten, before the next window."""

_FACTS: Final = np.dtype(
    [
        ("id", np.int32),
        ("kind", np.uint8),
        ("look", np.uint8),
        ("never", np.bool_),
        ("otherwise", np.bool_),
    ]
)
_CONNECTING: Final = frozenset({"and", "at", "for", "in", "of", "on", "the", "to"})
"""Words that occur within names, but are no names in small letters."""
_SIGN: Final = re.compile(r"([$+<=>^`|~])\1*|[<=>|~^+]=|=[>~]|<>|<=>|<<=|>>=|<\||\|>")
"""Signs that give a text its form: Markdown's fences and tables, operators of programs."""
_NONE: Final = "\0"
"""In place of the form of a mark or identifier; no text contains it."""
_PUNCTUATION: Final = KINDS.index(PUNCTUATION)
_OTHERS: Final = {Kind.IDENTIFIER: KINDS.index(IDENTIFIER), Kind.PUNCTUATION: _PUNCTUATION}
_WORD: Final = Kind.WORD  # read four times faster than of an enum


Alone = Callable[[Sequence[str], NDArray[np.int32]], NDArray[np.float32]]
"""Returns a name finder's features of words without context, a row for each word.

Takes the texts, and the ids: the id of a word that is listed but for its case, else -1."""


class KnownWords:
    """The different words of one document; two are the same if nothing but their place differs.

    Args:
        vectors: gives normal forms and ids.
        readings: of listed words, places in `READINGS`.
        alone: asks the finder of names, if there is one.

    Attributes, all by the numbers that `numbers` gives:
        forms: the normal form; for marks and identifiers, a form that no word has.
        facts: "id" of a listed word, else -1; "kind", a place in `KINDS` before names are
            found; "look", see `looks.looks`; whether it is "never" a name, whatever the finder
            says; whether it is listed "otherwise" than it was typed, see `_otherwise`.
        alone: its features in the finder.
    """

    def __init__(self, vectors: Vectors, readings: NDArray[np.uint8], alone: Alone | None) -> None:
        self._vectors = vectors
        self._readings = readings
        self._ask = alone
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[str | tuple[str, bool], int] = {}
        self.forms: list[str] = []
        self.facts = np.empty(0, _FACTS)
        self.alone = np.empty((0, 0), np.float32)

    def numbers(self, words: Sequence[Word]) -> NDArray[np.intp]:
        """Return the number of each word, valid until the next call: Ints1d (n,)."""
        if len(self._numbers) > MOST:
            self._forget()
        numbers = self._numbers
        which: list[int] = []
        new: list[Word] = []
        for word in words:
            text, _, _, kind, clitic = word
            # A mark's text is no word's, nor an identifier's.
            key = text if kind is _WORD and not clitic else (text, clitic)
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(numbers)
                new.append(word)
            which.append(number)
        if new:
            self._learn(new)
        return np.array(which, np.intp)

    def _learn(self, words: Sequence[Word]) -> None:
        others = [0 if kind is _WORD else _OTHERS[kind] for _, _, _, kind, _ in words]
        texts = [text if kind is _WORD else "" for text, _, _, kind, _ in words]
        forms = [self._vectors.normal_form(text) if text else _NONE for text in texts]
        lower = [text.lower() for text in texts]
        ids = self._vectors.ids(forms)
        kinds = look_up(self._readings, ids)
        facts = np.empty(len(words), _FACTS)
        facts["id"], facts["look"] = ids, looks(words, kinds)
        # One that is listed is a word among its like, and moves as they do.
        signs = np.array([_SIGN.fullmatch(text) is not None for text in texts]) & (ids < 0)
        none = np.where(signs, _PUNCTUATION, others)
        facts["kind"] = np.where(none, none, kinds)
        facts["never"] = (none > 0) | [
            word.clitic or form == text in _CONNECTING
            for word, form, text in zip(words, forms, texts, strict=True)
        ]
        facts["otherwise"] = [
            form != small and _otherwise(form, text)
            for form, small, text in zip(forms, lower, texts, strict=True)
        ]
        self.forms += forms
        self.facts = np.concatenate([self.facts, facts])
        if self._ask:
            same = [a == b or a.lower() == b for a, b in zip(forms, lower, strict=True)]
            but_case = np.where(facts["look"] < FIRST_WORD, 0, np.where(same, ids, -1))
            alone = self._ask(texts, but_case)
            self.alone = np.concatenate([self.alone, alone]) if len(self.alone) else alone


def _otherwise(form: str, text: str) -> bool:
    """Return whether a word differs from its look-up form in more than case.

    Otherwise, an accent or invisible character that the look-up form drops could leave the device
    unnoticed. A word that passes must be typed as it is listed.
    """
    if not text:
        return False
    plain = text.replace("’", "'")
    return form not in (plain, plain.lower())
