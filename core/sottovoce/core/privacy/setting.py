"""How a text is to be privatised, by the names that people, files and requests use.

The commands' help, the owner's configuration and the builder use the same levels, mechanisms and
policies. A bundle's manifest defines the levels. The module `policies` defines the policies, and no
bundle can change them.

The owner's limits hold for every bundle, app and command. The provider sets the names and numbers
of levels, and an app asks for a level by name. The limits apply to both. They are enforced where
the noise is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sottovoce.core.errors import NotReady
from sottovoce.core.privacy import policies
from sottovoce.core.privacy.mechanisms import registry
from sottovoce.core.privacy.policies import Policy, find

__all__ = ["LARGEST_ETA", "LEAST_POLICY", "LEVELS", "PrivacyLimits", "Setting"]

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


LARGEST_ETA: Final = 100.0
"""Unless the owner says otherwise. The lightest named level of the default bundle has 76."""

LEAST_POLICY: Final = "personal"
"""Unless the owner says otherwise. Conversations use it; each other policy lets less pass."""


@dataclass(frozen=True, slots=True)
class PrivacyLimits:
    """The owner's limits.

    Attributes:
        largest_eta: no word gets noise of a larger eta; without a number there is no limit.
        least_policy: no kind of word is treated more lightly than by the policy of this name.
    """

    largest_eta: float = math.inf
    least_policy: str = LEAST_POLICY

    def check_etas(self, *etas: float) -> None:
        """Check that the owner allows a level with these etas.

        Raises:
            NotReady: one is too large or not a number.
        """
        # Written so that NaN is refused.
        if beyond := [eta for eta in etas if not eta <= self.largest_eta]:
            raise NotReady(
                f"the level has eta {beyond[0]:.4g}, and the owner of this device allows "
                f"{self.largest_eta:g} at most",
                fix="take a stronger level, or raise privacy.largest_eta in the configuration",
                subject="privacy.largest_eta",
            )

    def check_policy(self, policy: Policy) -> None:
        """Check that the owner allows the policy.

        Raises:
            NotReady: it treats some kind of word more lightly than `least_policy`.
        """
        if not policy.covers(find(self.least_policy)):
            raise NotReady(
                f"the policy {policy.name!r} lets words pass that {self.least_policy!r}, the least "
                "that the owner of this device allows, does not",
                fix="take a stronger policy, or change privacy.least_policy in the configuration",
                subject="privacy.least_policy",
            )
