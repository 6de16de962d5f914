"""The common interface of all attacks that guess words, and their inputs.

An attack is fitted on releases of public text, which every attacker can make. Then it sees
releases of the private text, and guesses a word for each. It gets no other data: `Releases` holds
the truth, and `Attack.guess` gets only its ``seen``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bench.attacks.text import Ints, Text
from sottovoce.core.privacy.attacker import Candidates

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
"""The group of symbols that the mechanism does not hide: the attacker reads them directly."""


@dataclass(frozen=True)
class Seen:
    """A text of n symbols (words or tokens) as an attacker sees it.

    Attributes:
        symbols: Ints1d (n,), the released symbols. Where only vectors are released, it holds the
            symbols that need no guess (``OPEN``), and -1.
        vectors: Floats2d (n, d), or None where words are released.
        group: Ints1d (n,), which of the channel's `Candidates` may hide behind each, or ``OPEN``.
            For words this is the part of speech that the device saw; the attacker may use it.
        sentence: Ints1d (n,), ascending.
        drawn: Bools1d (n,), true for symbols drawn in place of a name or a number; None if the
            attacker does not know.
    """

    symbols: Ints
    vectors: Floats | None
    group: Ints
    sentence: Ints
    drawn: NDArray[np.bool_] | None = None

    def evidence(self, which: NDArray[Any]) -> Floats | Ints:
        """Return the visible data of the positions ``which``."""
        seen: Floats | Ints = (self.symbols if self.vectors is None else self.vectors)[which]
        return seen

    def part(self, which: NDArray[Any]) -> Seen:
        """Return some of the positions, in order."""
        vectors = None if self.vectors is None else self.vectors[which]
        drawn = None if self.drawn is None else self.drawn[which]
        return Seen(self.symbols[which], vectors, self.group[which], self.sentence[which], drawn)


@dataclass(frozen=True)
class Releases:
    """The visible form of a text, and the true symbols: Ints1d (n,)."""

    seen: Seen
    true: Ints


class Channel(Protocol):
    """A mechanism at a level. Attackers know everything about it but the draws."""

    @property
    def mechanism(self) -> str:
        """Return the mechanism's name for the table."""

    @property
    def level(self) -> str:
        """Return the level's name for the table."""

    @property
    def sees(self) -> Sees:
        """Return the data that leaves the device, or that the attacker may use."""

    @property
    def rows(self) -> Floats:
        """Return the vector of each symbol to release or to suspect: Floats2d (alphabet, d)."""

    @property
    def candidates(self) -> tuple[Candidates, ...]:
        """Return the candidates of each group."""

    def rates(self, group: int) -> tuple[float, ...]:
        """Return possible rates: log p(seen | symbol) is one rate times `evidence`.

        The attack fits the rate. All groups have the same number of rates, in ascending order.
        """

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """Return how well each suspect explains each symbol: Floats2d (n, m).

        Values are right up to a factor, and up to a constant for each row.
        """


class TextChannel(Channel, Protocol):
    """A channel that takes text."""

    def release(self, text: Text, random: Generator) -> Releases:
        """Release every sentence of ``text`` on its own."""


class Attack(Protocol):
    """An attack that guesses hidden symbols."""

    name: ClassVar[str]

    def fit(self, public: Releases) -> None:
        """Prepare on releases of public text with known originals."""

    def guess(self, seen: Seen) -> Ints:
        """Return the guessed symbols: Ints1d (n,)."""
