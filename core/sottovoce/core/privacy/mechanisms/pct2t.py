"""`pct2t.v1`: a word may become any other of the part of speech that it has in its sentence.

This is the mechanism as published, kept for comparison. A tagger that reads the neighbours chooses
the class of a word, so the bound holds only for given tags. `pct2t.v2` fixes this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Self

from sottovoce.core.bundle.levels import Level
from sottovoce.core.bundle.manifest import ANY, class_name
from sottovoce.core.privacy.mechanisms.interface import SphericalNoise, check_eta
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.word_classes import BY_TAG

__all__ = ["OWN", "PCT2T", "PCT2T2"]


@dataclass(frozen=True, slots=True)
class PCT2T(SphericalNoise):
    """Text-to-text privatisation constrained by part of speech (RAPT v2 section III-A2, eq. 2).

    The release shows the part of speech of each word, and other words than those of ``tags``.

    Attributes:
        tags: the parts of speech whose words get noise.

    >>> PCT2T.of(Level(25.0), ("NOUN", "REFERENCE")).tags
    ('ADP', 'NOUN', 'PRON')
    """

    tags: tuple[str, ...]
    name: ClassVar[str] = "pct2t.v1"
    contextual: ClassVar[bool] = True

    @classmethod
    def of(cls, level: Level, readings: tuple[str, ...]) -> Self:
        """The parts of speech whose words mostly have one of these readings."""
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
        """Its own; where none was found for it, the least of all."""
        found = self.etas.get(name)
        return min(self.etas.values(), default=self.eta) if found is None else found

    def protects(self, tag: str) -> bool:
        """Whether words of the reading ``tag`` get noise."""
        return tag in self.tags

    def word_class(self, tag: str, clitic: bool) -> str:
        """The words of the same reading, or of readings it shares a class with; clitics apart.

        English has seven clitics, and they spell out their own spacing: they can only become one
        another, so at most six others hide each of them.
        """
        return class_name(ANY, clitic=True) if clitic else OWN + _SHARED.get(tag, tag)
