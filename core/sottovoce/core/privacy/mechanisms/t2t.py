"""`t2t.v1`: any word may become any other.

This is the mechanism of RAPT's first version. Its release shows no part of speech.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from sottovoce.core.bundle.levels import Level
from sottovoce.core.bundle.manifest import ANY, class_name
from sottovoce.core.privacy.mechanisms.interface import SphericalNoise

__all__ = ["T2T"]


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
        """None: parts of speech are not told apart."""
        return None

    def protects(self, tag: str) -> bool:
        """True: every word."""
        return True

    def word_class(self, tag: str, clitic: bool) -> str:
        """All free words, or all clitics."""
        return class_name(ANY, clitic)
