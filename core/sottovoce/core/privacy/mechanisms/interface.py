"""The interface of mechanisms on words: small objects that draw the noise and state its cost.

For words x, x' of the same class and any output y (RAPT v2 eq. 1):
``P(y | x) <= exp(eta * d(x, x')) * P(y | x')``, where ``d`` is the distance in the privacy space.
As d never exceeds 2, this is also plain local differential privacy with epsilon 2 * eta.

Before the noise, a mechanism decides which words it covers and the class within which each may
move. After the noise it has no part. Whatever the mechanism, a release shows the number and order
of words, white space, punctuation, capitals, clitics, and the shape of identifiers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.levels import Level
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.noise import Floats2d, Random

__all__ = ["Mechanism", "SphericalNoise", "check_eta"]


class Mechanism(Protocol):
    """A mechanism, as the privatizer, the ledger, the builder and the attackers use it."""

    name: ClassVar[str]

    contextual: ClassVar[bool]
    """Whether a word's ``tag`` is its part of speech in its context, as a tagger says, or its own
    reading, see `sottovoce.core.text.word_classes`."""

    @classmethod
    def of(cls, level: Level, readings: tuple[str, ...]) -> Self:
        """The mechanism at ``level``, under a policy that gives noise to words of ``readings``.

        Raises:
            InvalidInput: an eta of the level is not a positive number.
        """

    @property
    def eta(self) -> float:
        """Privacy parameter: the largest that any word gets noise with."""

    def eta_of(self, name: str) -> float:
        """Privacy parameter of the words that move within the class ``name``."""

    @property
    def tags(self) -> tuple[str, ...] | None:
        """Readings, or parts of speech, whose words get noise; None: all, without distinction."""

    def protects(self, tag: str) -> bool:
        """Whether a word so tagged gets noise at least."""

    def word_class(self, tag: str, clitic: bool) -> str:
        """Return the name of the class within which a word with this tag is replaced."""

    def perturb(self, vectors: Floats2d, random: Random, classes: Sequence[str]) -> Floats2d:
        """``vectors`` Floats2d (n, r) with noise on each row, as loud as its class asks for.

        Args:
            vectors: the words.
            random: where the noise comes from.
            classes: n names, within which class each word moves.
        """

    def charge(self, classes: Sequence[str]) -> float:
        """Privacy loss of words that got noise within ``classes``, for the ledger."""


def check_eta(eta: float) -> None:
    """Raises InvalidInput unless ``eta`` is a positive number."""
    if not (math.isfinite(eta) and eta > 0):
        raise InvalidInput(
            "eta must be a positive number", fix="take a calibrated level", subject="eta"
        )


@dataclass(frozen=True, slots=True)
class SphericalNoise:
    """The noise of RAPT and its price, for mechanisms that differ in what they cover.

    The builder's levels are found for this noise; another needs a calibration of its own.
    """

    eta: float

    def __post_init__(self) -> None:
        check_eta(self.eta)

    def eta_of(self, name: str) -> float:
        """The same for all."""
        return self.eta

    def perturb(self, vectors: Floats2d, random: Random, classes: Sequence[str]) -> Floats2d:
        """Adds noise of density exp(-eta * ||z||) to each row (RAPT v1 section 3.1)."""
        n, r = vectors.shape
        noisy: Floats2d = vectors + noise.draw(random, n, r, self._etas(classes))
        return noisy

    def charge(self, classes: Sequence[str]) -> float:
        """Its eta for each word: budgets add up (sequential composition of d_X-privacy)."""
        return math.fsum(self._etas(classes))

    def _etas(self, classes: Sequence[str]) -> NDArray[np.float64]:
        known = {name: self.eta_of(name) for name in set(classes)}
        return np.array([known[name] for name in classes], np.float64)
