"""Makes surrogates of all kinds: from a text and its kind to another text of its shape."""

from __future__ import annotations

from typing import Final

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates import (
    formats,
    identifiers,
    names,
    numbers,
    origins,
    unlisted,
)
from sottovoce.core.privacy.surrogates.shape import Shape

__all__ = ["IDENTIFIER", "KINDS", "NUMBER", "ORIGIN", "UNLISTED", "draw", "shape", "surrogate"]

IDENTIFIER: Final = "identifier"
NUMBER: Final = "number"
ORIGIN: Final = "origin"
UNLISTED: Final = "unlisted"

KINDS: Final = (IDENTIFIER, NUMBER, ORIGIN, UNLISTED, *names.ROLES)
"""What a text may have been found to be; of names, what each word is in them (`names.role`)."""


def shape(kind: str, text: str) -> Shape:
    """Return the shape of ``text`` of a ``kind``, which the release shows.

    Raises:
        KeyError: there is no such kind.
    """
    if kind == IDENTIFIER:
        return formats.shape(text)
    if odd := unlisted.oddity(text):
        return odd
    if kind in names.ROLES:
        return names.shape(kind, text)
    return {NUMBER: numbers.shape, ORIGIN: origins.shape, UNLISTED: unlisted.shape}[kind](text)


def draw(shape: Shape, random: Random) -> str:
    """Draw another text of that shape, without knowing the true text.

    The amount taken from ``random`` depends on the shape alone.
    """
    return _DRAWS[shape.kind](shape, random)


def surrogate(kind: str, text: str, random: Random) -> str:
    """Return a surrogate for ``text`` of a ``kind``.

    Raises:
        KeyError: there is no such kind.
    """
    return draw(shape(kind, text), random)


_DRAWS: Final = {
    IDENTIFIER: identifiers.draw,
    "name": names.draw,
    NUMBER: numbers.draw,
    ORIGIN: origins.draw,
    UNLISTED: unlisted.draw,
}
