"""How a text is to be privatised, by the names that people, files and requests use.

Why it is here: the commands' help, the owner's configuration and the builder speak of the same
levels and policies, and this is where they are named. What a name means, a bundle's manifest says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sottovoce.core.privacy.mechanisms import registry

__all__ = ["LEVELS", "POLICIES", "Setting"]

LEVELS: Final = ("strong", "balanced", "light")
"""Levels that every bundle is built with, from the strongest on."""

POLICIES: Final = ("default", "all")
"""Policies that every bundle is built with: choices of parts of speech."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How to privatise: names that the bundle's manifest resolves.

    Attributes:
        level: a calibrated protection level.
        mechanism: a versioned name.
        policy: which parts of speech are replaced, by a mechanism that tells them apart.
    """

    level: str = "balanced"
    mechanism: str = registry.DEFAULT
    policy: str = "default"
