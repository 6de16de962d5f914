"""The surrogates of one document: equal names get equal surrogates, other names get others.

A text stays readable, and can be restored, if a name has one surrogate throughout. So a draw is
keyed by the text that it replaces, and a secret key or a seeded stream supplies the randomness. A
text of several words is drawn in parts. If two names get one surrogate by chance, the later name is
drawn again, which depends on released words alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates import formats, names, surrogate
from sottovoce.core.privacy.surrogates.shape import Shape

__all__ = ["DrawnSurrogate", "Owners", "Stream", "Surrogates"]

Stream = Callable[..., Random]
"""Opens the stream of uniform numbers for some strings: equal strings give equal numbers."""

Owners = dict[str, tuple[str, str]]
"""Maps each surrogate, in small letters, to the sort and the form that it replaces."""

_ATTEMPTS: Final = 8
"""Draws before two names may share a surrogate after all."""

_KINDS: Final = {
    "IDENTIFIER": surrogate.IDENTIFIER,
    "NUMBER": surrogate.NUMBER,
    "ORIGIN": surrogate.ORIGIN,
    "NAME": "family",
}
_NAMES: Final = ("PERSON", "PLACE", "ORGANISATION", "OTHER")


class DrawnSurrogate(NamedTuple):
    """A word that is to be drawn."""

    place: int
    """Which word of the document it is: words at consecutive places stand side by side."""
    kind: str
    """PERSON, PLACE, ORGANISATION or OTHER, as the name finder says; NAME, NUMBER, ORIGIN,
    IDENTIFIER; of any other kind it is a word in no list."""
    text: str
    form: str
    """The form that equal words share: the normal form, or the text of an identifier."""
    before: bool = False
    """Of a name: whether the word before it looks like part of a name, see `names.role`."""
    after: bool = False
    """The same of the word after it."""


class _Part(NamedTuple):
    """The result of one draw: one word, or several words that are one number."""

    places: Sequence[int]
    shape: Shape
    form: str


class Surrogates:
    """Draws the words of one document, window after window.

    Args:
        stream: the source of randomness, keyed by kind, sort, replaced form and attempt.
            Number words are named by their place among the document's, so that "five five"
            does not show that both are the same.
        owners: the owners of earlier surrogates, so that names stay distinct across several texts;
            new surrogates are added.
    """

    def __init__(self, stream: Stream, owners: Owners | None = None) -> None:
        self._stream = stream
        self._owners: Owners = {} if owners is None else owners
        self._known: dict[tuple[Shape, str], str] = {}
        self._numbers = 0

    def replace(self, words: Sequence[DrawnSurrogate]) -> dict[int, str]:
        """Return the replacement of each word, by place.

        Args:
            words: by place, ascending.
        """
        found: dict[int, str] = {}
        for part in _parts(words):
            drawn = self._draw(part)
            pieces = drawn.split(" ") if len(part.places) > 1 else [drawn]
            found |= zip(part.places, pieces, strict=True)
        return found

    def _draw(self, part: _Part) -> str:
        shape, form = part.shape, part.form
        if shape.kind == surrogate.NUMBER:
            form, self._numbers = str(self._numbers), self._numbers + 1
        elif known := self._known.get((shape, form)):
            return known
        owner = (shape.sort, form)
        drawn = ""
        for attempt in range(_ATTEMPTS):
            stream = self._stream(shape.kind, shape.sort, form, str(attempt))
            drawn = surrogate.draw(shape, stream)
            if shape.kind in (surrogate.NUMBER, surrogate.ORIGIN):
                break  # there are too few for one each
            if self._owners.setdefault(drawn.lower(), owner) == owner:
                break
        if shape.kind != surrogate.NUMBER:
            self._known[shape, form] = drawn
        return drawn


def _parts(words: Sequence[DrawnSurrogate]) -> Iterator[_Part]:
    """Yield the parts to draw: identifiers that are one number in groups, else single words."""
    for _, numbered in groupby(enumerate(words), _side_by_side):
        run = [word for _, word in numbered]
        if run[0].kind == "IDENTIFIER":
            yield from (_number(run[each]) for each in formats.runs([w.text for w in run]))
        else:
            yield from (_Part([w.place], surrogate.shape(_kind(w), w.text), w.form) for w in run)


def _kind(word: DrawnSurrogate) -> str:
    """Return the kind that a word is drawn as, one of `surrogate.KINDS`."""
    if word.kind in _NAMES:
        return names.role(word.kind, word.form, word.before, word.after)
    return _KINDS.get(word.kind, surrogate.UNLISTED)


def _side_by_side(numbered: tuple[int, DrawnSurrogate]) -> tuple[int, str]:
    number, word = numbered
    return word.place - number, word.kind


def _number(words: Sequence[DrawnSurrogate]) -> _Part:
    text = " ".join(word.text for word in words)
    shape, form = surrogate.shape("identifier", text), text
    if shape.sort == formats.SPELLED:  # one name, with any joiner and in any case
        form = "".join(filter(str.isalnum, text)).lower()
    return _Part([word.place for word in words], shape, form)
