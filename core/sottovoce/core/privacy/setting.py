"""How a text is to be privatised, by the names that people, files and requests use.

The commands' help, the owner's configuration and the builder use the same levels, mechanisms and
policies. A bundle's manifest defines the levels. The module `policies` defines the policies, and no
bundle can change them.
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
