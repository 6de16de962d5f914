"""`pct2t.v1`: a word may become any other of its part of speech.

Why it is here: it is the default; what it leaves of the grammar is worth more to the cloud's model
than the part of speech is to an attacker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from sottovoce.core.bundle.levels import Level
from sottovoce.core.bundle.manifest import class_name
from sottovoce.core.privacy.mechanisms.interface import ALWAYS_LEAKS, Guarantee, SphericalNoise

__all__ = ["PCT2T"]


@dataclass(frozen=True, slots=True)
class PCT2T(SphericalNoise):
    """Text-to-text privatisation constrained by part of speech (RAPT v2 section III-A2, eq. 2).

    Attributes:
        tags: the parts of speech whose words are replaced.

    >>> PCT2T(25.0, ("NOUN",)).protects("DET")
    False
    """

    tags: tuple[str, ...]
    name: ClassVar[str] = "pct2t.v1"
    contextual: ClassVar[bool] = True

    @classmethod
    def of(cls, level: Level, tags: tuple[str, ...]) -> Self:
        """The policy's parts of speech."""
        return cls(level.eta, tags)

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
