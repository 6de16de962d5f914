"""`pct2t.v1`: a word may become any other of the part of speech that it has in its sentence.

This is the mechanism as published, kept for comparison. A tagger that reads the neighbours chooses
the class of a word, so the bound holds only for given tags. `pct2t.v2` fixes this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from sottovoce.core.bundle.levels import Level
from sottovoce.core.bundle.manifest import class_name
from sottovoce.core.privacy.mechanisms.interface import ALWAYS_LEAKS, Guarantee, SphericalNoise
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.word_classes import BY_TAG

__all__ = ["PCT2T"]


@dataclass(frozen=True, slots=True)
class PCT2T(SphericalNoise):
    """Text-to-text privatisation constrained by part of speech (RAPT v2 section III-A2, eq. 2).

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

    @property
    def guarantee(self) -> Guarantee:
        """d_X-privacy within a part of speech, none across."""
        metric = "distance in the privacy space within a part of speech, at most 2; infinite across"
        leaks = (
            "the part of speech of each word",
            f"words of other parts of speech than {', '.join(self.tags)}, as they were typed",
        )
        return Guarantee(metric, self.eta, 2 * self.eta, leaks + ALWAYS_LEAKS)

    def protects(self, tag: str) -> bool:
        """Whether ``tag`` is one of ``tags``."""
        return tag in self.tags

    def word_class(self, tag: str, clitic: bool) -> str:
        """The words of the same part of speech, clitics apart."""
        return class_name(tag, clitic)
