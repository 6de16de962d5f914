"""The surrogates of one document: the same for the same name, and for no two names the same.

Why it is here: a text stays readable, and can be turned back, where a name is one name throughout.
So a draw is named by what it stands for, and a secret key or a seeded stream answers; a text of
several words is put together here and drawn part by part. Chance may give two names one surrogate:
the later one is drawn again, which depends on released words alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates import formats, names, surrogate
from sottovoce.core.privacy.surrogates.shape import Shape

__all__ = ["Drawn", "Owners", "Stream", "Surrogates"]

Stream = Callable[..., Random]
"""Opens the stream of uniform numbers that some strings name: equal names, equal numbers."""

Owners = dict[str, tuple[str, str]]
"""Of each surrogate, in small letters, the sort and the form that it stands for."""

_ATTEMPTS: Final = 8
"""Draws before two names may share a surrogate after all."""

_KINDS: Final = {
    "IDENTIFIER": surrogate.IDENTIFIER,
    "NUMBER": surrogate.NUMBER,
    "ORIGIN": surrogate.ORIGIN,
    "NAME": "family",
}
_NAMES: Final = ("PERSON", "PLACE", "ORGANISATION", "OTHER")


class Drawn(NamedTuple):
    """A word that is to be drawn."""

    place: int
    """Which word of the document it is: words at consecutive places stand side by side."""
    kind: str
    """PERSON, PLACE, ORGANISATION or OTHER, as the name finder says; NAME, NUMBER, ORIGIN,
    IDENTIFIER; of any other kind it is a word in no list."""
    text: str
    form: str
    """What makes it the same word: its normal form; of an identifier the text itself."""
    before: bool = False
    """Of a name: whether the word before it looks like part of a name, see `names.role`."""
    after: bool = False
    """The same of the word after it."""


class _Part(NamedTuple):
    """What one draw makes: one word, or several that are one number."""

    places: Sequence[int]
    shape: Shape
    form: str


class Surrogates:
    """Draws the words of one document, window after window.

    Args:
        stream: where chance comes from; it is asked by kind, sort, what is stood for, and the
            attempt. Number words are named by their place among the document's, so that "five five"
            does not show that both are the same.
        owners: of the surrogates drawn before, where several texts are to have no two names alike;
            those drawn here are added.
    """

    def __init__(self, stream: Stream, owners: Owners | None = None) -> None:
        self._stream = stream
        self._owners: Owners = {} if owners is None else owners
        self._known: dict[tuple[Shape, str], str] = {}
        self._numbers = 0

    def replace(self, words: Sequence[Drawn]) -> dict[int, str]:
        """What takes the place of each word, by place.

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


def _parts(words: Sequence[Drawn]) -> Iterator[_Part]:
    """What is drawn together: identifiers that are one number in groups; else each word alone."""
    for _, numbered in groupby(enumerate(words), _side_by_side):
        run = [word for _, word in numbered]
        if run[0].kind == "IDENTIFIER":
            yield from (_number(run[each]) for each in formats.runs([w.text for w in run]))
        else:
            yield from (_Part([w.place], surrogate.shape(_kind(w), w.text), w.form) for w in run)


def _kind(word: Drawn) -> str:
    """As what it is drawn, one of `surrogate.KINDS`."""
    if word.kind in _NAMES:
        return names.role(word.kind, word.form, word.before, word.after)
    return _KINDS.get(word.kind, surrogate.UNLISTED)


def _side_by_side(numbered: tuple[int, Drawn]) -> tuple[int, str]:
    number, word = numbered
    return word.place - number, word.kind


def _number(words: Sequence[Drawn]) -> _Part:
    text = " ".join(word.text for word in words)
    shape, form = surrogate.shape("identifier", text), text
    if shape.sort == formats.SPELLED:  # one name, with any joiner and in any case
        form = "".join(filter(str.isalnum, text)).lower()
    return _Part([word.place for word in words], shape, form)
