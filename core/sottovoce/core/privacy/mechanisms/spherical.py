"""Mechanisms on words: their interface, and the three with spherical noise.

For words x, x' of the same class and any output y (RAPT v2 eq. 1):
``P(y | x) <= exp(eta * d(x, x')) * P(y | x')``, where ``d`` is the distance in the privacy space.
As d never exceeds 2, this is also plain local differential privacy with epsilon 2 * eta.

Before the noise, a mechanism decides which words it covers and the class within which each may
move. After the noise it has no part. Whatever the mechanism, a release shows the number and order
of words, white space, punctuation, capitals, clitics, and the shape of identifiers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.levels import Level
from sottovoce.core.bundle.manifest import ANY, class_name
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.noise import Floats2d, Random
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.word_classes import BY_TAG


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
        """Words of these readings or parts of speech get noise; None for all words."""

    def protects(self, tag: str) -> bool:
        """Whether a word so tagged gets noise at least."""

    def word_class(self, tag: str, clitic: bool) -> str:
        """Return the name of the class within which a word with this tag is replaced."""

    def perturb(self, vectors: Floats2d, random: Random, classes: Sequence[str]) -> Floats2d:
        """Return ``vectors``, Floats2d (n, r), with noise on each row, as its class needs.

        Args:
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
    """The noise of RAPT and its price, for mechanisms that protect different words.

    The builder finds levels for this noise; another noise needs another calibration.
    """

    eta: float

    def __post_init__(self) -> None:
        check_eta(self.eta)

    def eta_of(self, name: str) -> float:
        """Return the same eta for all classes."""
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
        return np.array([known[name] for name in classes])


@dataclass(frozen=True, slots=True)
class T2T(SphericalNoise):
    """Text-to-text privatisation of every word (RAPT v1 section 3.1; RAPT v2 section III-A1).

    >>> T2T(25.0).word_class("NOUN", clitic=False)
    '*'
    """

    name: ClassVar[str] = "t2t.v1"
    contextual: ClassVar[bool] = True

    @classmethod
    def of(cls, level: Level, readings: tuple[str, ...]) -> Self:
        """Whatever the policy says: no reading is left out."""
        return cls(level.eta)

    @property
    def tags(self) -> None:
        """None: all parts of speech are treated alike."""
        return None

    def protects(self, tag: str) -> bool:
        """True: every word."""
        return True

    def word_class(self, tag: str, clitic: bool) -> str:
        """All free words, or all clitics."""
        return class_name(ANY, clitic)


@dataclass(frozen=True, slots=True)
class PCT2T(SphericalNoise):
    """Text-to-text privatisation constrained by part of speech (RAPT v2 section III-A2, eq. 2).

    The release shows the part of speech of each word, and all words with tags outside ``tags``.

    Attributes:
        tags: words of these parts of speech get noise.

    >>> PCT2T.of(Level(25.0), ("NOUN", "REFERENCE")).tags
    ('ADP', 'NOUN', 'PRON')
    """

    tags: tuple[str, ...]
    name: ClassVar[str] = "pct2t.v1"
    contextual: ClassVar[bool] = True

    @classmethod
    def of(cls, level: Level, readings: tuple[str, ...]) -> Self:
        """Cover each part of speech if most of its words have one of these readings."""
        tags = (tag for tag in UPOS if BY_TAG[tag] in readings and tag != "PUNCT")
        return cls(level.eta, tuple(tags))

    def protects(self, tag: str) -> bool:
        """Whether ``tag`` is one of ``tags``."""
        return tag in self.tags

    def word_class(self, tag: str, clitic: bool) -> str:
        """The words of the same part of speech, clitics apart."""
        return class_name(tag, clitic)


OWN: Final = "="
"""Begins the names of classes that follow from the word alone, "=NOUN" say; each listed word is in
one of them at most."""

_SHARED: Final = {"REFERENCE": "CLOSED", "GRAMMAR": "CLOSED", "OTHER": "ADV"}
"""Readings of less than a hundred words hide among others: whatever eta, a handful of words cannot
hide behind one another (one eta for all left .95 of five particles in the open)."""


@dataclass(frozen=True, slots=True)
class PCT2T2(SphericalNoise):
    """Text-to-text privatisation constrained by the word's own reading (RAPT v2, eq. 2).

    The release shows the class of each word, and words of other readings than ``tags``.

    Attributes:
        tags: the readings whose words get noise.
        etas: by class, set so that an attacker guesses right equally often in each class; if
            empty, `eta` for all.

    >>> PCT2T2(25.0, ("NOUN",)).word_class("GRAMMAR", False)
    '=CLOSED'
    """

    tags: tuple[str, ...]
    etas: Mapping[str, float] = field(default_factory=dict, hash=False)
    name: ClassVar[str] = "pct2t.v2"
    contextual: ClassVar[bool] = False

    @classmethod
    def of(cls, level: Level, readings: tuple[str, ...]) -> Self:
        """These readings."""
        return cls(level.eta, readings, level.etas)

    def __post_init__(self) -> None:
        for eta in (self.eta, *self.etas.values()):
            check_eta(eta)

    def eta_of(self, name: str) -> float:
        """Return the class's own eta; if none was found, the smallest eta of all classes."""
        found = self.etas.get(name)
        return min(self.etas.values(), default=self.eta) if found is None else found

    def protects(self, tag: str) -> bool:
        """Whether words of the reading ``tag`` get noise."""
        return tag in self.tags

    def word_class(self, tag: str, clitic: bool) -> str:
        """Return the class of this reading, which several readings may share; clitics apart.

        English has seven clitics, and their spelling shows that they are clitics. They can only
        become one another, so at most six others hide each clitic.
        """
        return class_name(ANY, clitic=True) if clitic else OWN + _SHARED.get(tag, tag)
