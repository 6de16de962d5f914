"""The two mechanisms on words, as small objects that know what they promise.

Why it is here: whoever asks what a release costs, what it protects and what it gives away must get
the answer from the object that draws the noise, never from a second place that could disagree. A
mechanism decides before the noise which words it covers and within which class each may move;
after the noise it has no part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from sottovoce.core.bundle.manifest import ANY, class_name
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.noise import Floats2d, Random

__all__ = ["MECHANISMS", "PCT2T", "T2T", "Guarantee", "Mechanism"]

_ALWAYS_LEAKS = (
    "the number and order of words, white space and punctuation",
    "whether a word is in small letters, Capitalised or in CAPITALS",
    "which words are clitics, such as n't and 's",
    "the length and shape of identifiers",
)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What holds for one word of a release, and what does not.

    For words x, x' of the same class and any output y (RAPT v2 eq. 1):
    ``P(y | x) <= exp(eta * d(x, x')) * P(y | x')``, with ``d`` the ``metric``.

    Attributes:
        metric: what ``d`` measures.
        eta: privacy parameter, in units of 1 / distance.
        ldp_epsilon: as d never exceeds 2, also plain local differential privacy at this epsilon.
        leaks: what the release shows regardless of eta.
    """

    metric: str
    eta: float
    ldp_epsilon: float
    leaks: tuple[str, ...]


class Mechanism(Protocol):
    """What the privatizer needs to know of a mechanism."""

    name: ClassVar[str]

    @property
    def eta(self) -> float:
        """Privacy parameter."""

    @property
    def guarantee(self) -> Guarantee:
        """What it promises for one word."""

    def protects(self, tag: str) -> bool:
        """Whether every word of this part of speech gets noise."""

    def word_class(self, tag: str, clitic: bool) -> str:
        """Name of the class within which such a word is replaced."""

    def perturb(self, vectors: Floats2d, random: Random) -> Floats2d:
        """``vectors`` Floats2d (n, r) with fresh noise on each row."""

    def charge(self, words: int) -> float:
        """Privacy loss of ``words`` words that got noise, for the ledger."""


@dataclass(frozen=True, slots=True)
class _OnWords:
    """What both mechanisms share: the noise and its price."""

    eta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.eta) and self.eta > 0):
            raise InvalidInput(
                "eta must be a positive number", fix="take a calibrated level", subject="eta"
            )

    def perturb(self, vectors: Floats2d, random: Random) -> Floats2d:
        """Adds noise of density exp(-eta * ||z||) to each row (RAPT v1 section 3.1)."""
        n, r = vectors.shape
        noisy: Floats2d = vectors + noise.draw(random, n, r, self.eta)
        return noisy

    def charge(self, words: int) -> float:
        """eta for each word: budgets add up (sequential composition of d_X-privacy)."""
        return self.eta * words


@dataclass(frozen=True, slots=True)
class T2T(_OnWords):
    """Text-to-text privatisation: any word may become any other.

    RAPT v1 section 3.1; RAPT v2 section III-A1.

    >>> T2T(25.0).guarantee.ldp_epsilon
    50.0
    """

    name: ClassVar[str] = "t2t.v1"

    @property
    def guarantee(self) -> Guarantee:
        """d_X-privacy over all words."""
        metric = "distance in the privacy space between any two words, at most 2"
        return Guarantee(metric, self.eta, 2 * self.eta, _ALWAYS_LEAKS)

    def protects(self, tag: str) -> bool:
        """True: every word."""
        return True

    def word_class(self, tag: str, clitic: bool) -> str:
        """All free words, or all clitics."""
        return class_name(ANY, clitic)


@dataclass(frozen=True, slots=True)
class PCT2T(_OnWords):
    """Text-to-text privatisation constrained by part of speech (RAPT v2 section III-A2, eq. 2).

    Attributes:
        tags: the parts of speech whose words are replaced.

    >>> PCT2T(25.0, ("NOUN",)).protects("DET")
    False
    """

    tags: tuple[str, ...]
    name: ClassVar[str] = "pct2t.v1"

    @property
    def guarantee(self) -> Guarantee:
        """d_X-privacy within a part of speech, none across."""
        metric = "distance in the privacy space within a part of speech, at most 2; infinite across"
        leaks = (
            "the part of speech of each word",
            f"words of other parts of speech than {', '.join(self.tags)}, as they were typed",
        )
        return Guarantee(metric, self.eta, 2 * self.eta, leaks + _ALWAYS_LEAKS)

    def protects(self, tag: str) -> bool:
        """Whether ``tag`` is one of ``tags``."""
        return tag in self.tags

    def word_class(self, tag: str, clitic: bool) -> str:
        """The words of the same part of speech, clitics apart."""
        return class_name(tag, clitic)


MECHANISMS = (PCT2T.name, T2T.name)
"""Every mechanism on words that this version knows, the default first."""
