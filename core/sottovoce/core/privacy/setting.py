"""How a text is to be privatised, by the names that people, files and requests use.

Why it is here: the commands' help, the owner's configuration and the builder speak of the same
levels, mechanisms and policies. What a level means, a bundle's manifest says; what a policy means,
`policies` does, and no bundle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sottovoce.core.privacy import policies
from sottovoce.core.privacy.mechanisms import registry

__all__ = ["LEVELS", "Setting"]

LEVELS: Final = ("strong", "balanced", "light")
"""Levels that every bundle is built with, from the strongest on."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How to privatise: names that the bundle's manifest resolves.

    Attributes:
        level: a calibrated protection level.
        mechanism: a versioned name.
        policy: which words are protected, and how.
    """

    level: str = "balanced"
    mechanism: str = registry.DEFAULT
    policy: str = policies.DEFAULT
