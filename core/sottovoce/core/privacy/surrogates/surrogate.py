"""Makes surrogates of all kinds: from a text and its kind to another text of its shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from sottovoce.core.privacy.identifier_parts import Part, private_parts
from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates import Shape, identifiers, names, word_groups
from sottovoce.core.privacy.surrogates.person_surrogates import KnownNames, NameWord, Past

IDENTIFIER: Final = "identifier"
NUMBER: Final = "number"
ORIGIN: Final = "origin"
UNLISTED: Final = "unlisted"


def shape(kind: str, text: str) -> Shape:
    """Return the shape of ``text`` of a ``kind``, which the release shows.

    Args:
        kind: `IDENTIFIER`, `NUMBER`, `ORIGIN` or `UNLISTED`; for a word of a name, its
            `names.role`.

    Raises:
        KeyError: there is no such kind.
    """
    if kind == IDENTIFIER:
        return identifiers.shape(text)
    if odd := word_groups.oddity(text):
        return odd
    if kind in names.ROLES:
        return names.shape(kind, text)
    return {
        NUMBER: word_groups.number_shape,
        ORIGIN: word_groups.origin_shape,
        UNLISTED: word_groups.unlisted_shape,
    }[kind](text)


def draw(shape: Shape, random: Random) -> str:
    """Draw another text of that shape, without knowing the true text.

    The amount taken from ``random`` depends on the shape alone.
    """
    return _DRAWS[shape.kind](shape, random)


_DRAWS: Final = {
    IDENTIFIER: identifiers.draw,
    "name": names.draw,
    NUMBER: word_groups.draw_number,
    ORIGIN: word_groups.draw_origin,
    UNLISTED: word_groups.draw_unlisted,
}


Stream = Callable[..., Random]
"""Opens the stream of uniform numbers for some strings: equal strings give equal numbers."""

Owners = dict[str, tuple[str, str]]
"""Maps each surrogate, in small letters, to the sort and the form that it replaces."""

_ATTEMPTS: Final = 8
"""Draws before two names may share a surrogate after all."""

_KINDS: Final = {
    "IDENTIFIER": IDENTIFIER,
    "NUMBER": NUMBER,
    "ORIGIN": ORIGIN,
    "NAME": "family",
}
_NAMES: Final = ("PERSON", "PLACE", "ORGANISATION", "OTHER")
_MAY_HOLD_NAMES: Final = frozenset({"code", "handle", "mail address", identifiers.USER})


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
    gap: str = ""
    """What stands between it and the word before it, if at most two characters do."""
    titled: bool = False
    """Whether a title stands before it; see `KnownNames`."""
    gender: str = ""
    """Of the name of a person: "f" or "m" where the word before it tells, as "sister" does."""
    hides: str = ""
    """Of an identifier: what it hides, see `private_parts`; empty if all of it is drawn."""


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
        names_in: the document, under policies that read the context. A part of a name then has one
            surrogate whatever stands beside it, see `KnownNames`.
    """

    def __init__(
        self, stream: Stream, owners: Owners | None = None, *, names_in: str | None = None
    ) -> None:
        self._stream = stream
        self._owners: Owners = {} if owners is None else owners
        self._names = None
        if names_in is not None:
            self._names = KnownNames(stream, self._owners, names_in)
        self._known: dict[tuple[Shape, str], str] = {}
        self._numbers = 0

    @property
    def past(self) -> Past:
        """The names and numbers that have surrogates in this conversation."""
        return self._names.past if self._names else Past()

    def keep_cities(self, cities: Iterable[str]) -> None:
        """Note public cities, in small letters, that passed."""
        if self._names:
            self._names.keep_cities(cities)

    def keep_values(self, values: Mapping[str, str]) -> None:
        """Note drawn values, and what each hides."""
        if self._names:
            self._names.keep_values(values)

    def keep_dated(self) -> None:
        """Note that a full date was replaced."""
        if self._names:
            self._names.keep_dated()

    def replace(self, words: Sequence[DrawnSurrogate]) -> dict[int, str]:
        """Return the replacement of each word, by place.

        Args:
            words: by place, ascending.
        """
        found: dict[int, str] = {}
        if self._names:
            found = self._names.replace(
                [
                    NameWord(w.place, w.kind, w.text, w.form, w.gap, w.titled, w.gender)
                    for w in words
                ]
            )
            words = [word for word in words if word.place not in found]
        cut = {
            word.place: parts
            for word in words
            if word.kind == "IDENTIFIER" and (parts := private_parts(word.text, word.hides))
        }
        for word in words:
            if word.place in cut:
                found[word.place] = self._draw_parts(word, cut[word.place])
        for part in _parts([word for word in words if word.place not in cut]):
            drawn = self._draw(part)
            pieces = drawn.split(" ") if len(part.places) > 1 else [drawn]
            found |= zip(part.places, pieces, strict=True)
        return found

    def _draw_parts(self, word: DrawnSurrogate, parts: Sequence[Part]) -> str:
        pieces, done = [], 0
        for start, end, shape in parts:
            text = word.text[start:end]
            pieces += [word.text[done:start], self._draw(_Part([word.place], shape, text))]
            done = end
        return "".join((*pieces, word.text[done:]))

    def _draw(self, part: _Part) -> str:
        shape, form = part.shape, part.form
        if shape.kind == NUMBER:
            form, self._numbers = str(self._numbers), self._numbers + 1
        elif known := self._known.get((shape, form)):
            return known
        owner = (shape.sort, form)
        drawn = ""
        for attempt in range(_ATTEMPTS):
            stream = self._stream(shape.kind, shape.sort, form, str(attempt))
            drawn = draw(shape, stream)
            if self._names and shape.sort in _MAY_HOLD_NAMES:
                drawn = self._names.within(form, drawn)
            if shape.kind in (NUMBER, ORIGIN):
                break  # there are too few for one each
            if self._owners.setdefault(drawn.lower(), owner) == owner:
                break
        if shape.kind != NUMBER:
            self._known[shape, form] = drawn
        return drawn


def _parts(words: Sequence[DrawnSurrogate]) -> Iterator[_Part]:
    """Yield the parts to draw: identifiers that are one number in groups, else single words."""
    for _, numbered in groupby(enumerate(words), _side_by_side):
        run = [word for _, word in numbered]
        if run[0].kind == "IDENTIFIER":
            yield from (_number(run[each]) for each in identifiers.runs([w.text for w in run]))
        else:
            yield from (_Part([w.place], shape(_kind(w), w.text), w.form) for w in run)


def _kind(word: DrawnSurrogate) -> str:
    """Return the kind that a word is drawn as, for `shape`."""
    if word.kind in _NAMES:
        return names.role(word.kind, word.form, word.before, word.after)
    return _KINDS.get(word.kind, UNLISTED)


def _side_by_side(numbered: tuple[int, DrawnSurrogate]) -> tuple[int, str]:
    number, word = numbered
    return word.place - number, word.kind


def _number(words: Sequence[DrawnSurrogate]) -> _Part:
    text = " ".join(word.text for word in words)
    drawn_as, form = shape("identifier", text), text
    if drawn_as.sort == identifiers.SPELLED:  # one name, with any joiner and in any case
        form = "".join(filter(str.isalnum, text)).lower()
    return _Part([word.place for word in words], drawn_as, form)
