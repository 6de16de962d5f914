"""The one interface of all attacks that guess words, and what they are given.

Why it is here: an attack is fitted on releases of public text, which anyone can make, then sees
releases of the private text and names a word for each. Nothing else passes: the truth lies in
`Releases`, of which `Attack.guess` gets only ``seen``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bench.attacks.text import Ints, Text
from sottovoce.core.privacy.sphere_map import Candidates

__all__ = [
    "OPEN",
    "Attack",
    "Candidates",
    "Channel",
    "Floats",
    "Releases",
    "Seen",
    "Sees",
    "TextChannel",
]

Floats = NDArray[np.float32]
Sees = Literal["word", "vector"]

OPEN: Final = -1
"""The group of what the mechanism does not hide: the attacker takes it as it stands."""


@dataclass(frozen=True)
class Seen:
    """A text of n symbols (words or tokens) as an attacker sees it.

    Attributes:
        symbols: Ints1d (n,), the released ones; where only vectors are released, those that need
            no guess (``OPEN``), and -1.
        vectors: Floats2d (n, d), or None where words are released.
        group: Ints1d (n,), which of the channel's `Candidates` may hide behind each, or ``OPEN``.
            For words this is the part of speech the device saw, which the attacker is granted.
        sentence: Ints1d (n,), ascending.
        drawn: Bools1d (n,), which were drawn in place of a name or a number; None if not told.
    """

    symbols: Ints
    vectors: Floats | None
    group: Ints
    sentence: Ints
    drawn: NDArray[np.bool_] | None = None

    def evidence(self, which: NDArray[Any]) -> Floats | Ints:
        """What is seen of the positions ``which``."""
        seen: Floats | Ints = (self.symbols if self.vectors is None else self.vectors)[which]
        return seen

    def part(self, which: NDArray[Any]) -> Seen:
        """Some of the positions, in order."""
        vectors = None if self.vectors is None else self.vectors[which]
        drawn = None if self.drawn is None else self.drawn[which]
        return Seen(self.symbols[which], vectors, self.group[which], self.sentence[which], drawn)


@dataclass(frozen=True)
class Releases:
    """What is seen of a text, and what it was: Ints1d (n,)."""

    seen: Seen
    true: Ints


class Channel(Protocol):
    """A mechanism at a level, as attackers know it: all of it but the draws."""

    @property
    def mechanism(self) -> str:
        """For the table."""

    @property
    def level(self) -> str:
        """For the table."""

    @property
    def sees(self) -> Sees:
        """What leaves the device, or what the attacker is granted."""

    @property
    def rows(self) -> Floats:
        """Floats2d (alphabet, d), a vector for each symbol that can be released or suspected."""

    @property
    def candidates(self) -> tuple[Candidates, ...]:
        """Of each group."""

    def rates(self, group: int) -> tuple[float, ...]:
        """log p(seen | symbol) is one of these times `evidence`; the attack fits which. As many
        for each group, ascending."""

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """Floats2d (n, m): how well each suspect explains each, up to a factor and a constant of
        the row."""


class TextChannel(Channel, Protocol):
    """A channel that takes text."""

    def release(self, text: Text, random: Generator) -> Releases:
        """Releases every sentence of ``text`` on its own."""


class Attack(Protocol):
    """Guesses what was hidden."""

    name: ClassVar[str]

    def fit(self, public: Releases) -> None:
        """Prepares on releases of public text, whose truth is known."""

    def guess(self, seen: Seen) -> Ints:
        """Ints1d (n,), symbols."""
