"""What the owner of a device allows at most, whatever a bundle, an app or a command asks for.

Why it is here: levels are the provider's numbers under the provider's names, and an app asks for
them by name. The floor under both is the owner's, and it is held where the noise is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sottovoce.core.errors import NotReady

__all__ = ["LARGEST_ETA", "Floors"]

LARGEST_ETA: Final = 100.0
"""Unless the owner says otherwise. The lightest named level of the default bundle has 76."""


@dataclass(frozen=True, slots=True)
class Floors:
    """The owner's limits.

    Attributes:
        largest_eta: no word gets noise of a larger eta; without a number there is no limit.
    """

    largest_eta: float = math.inf

    def check_etas(self, *etas: float) -> None:
        """Nothing, if the owner allows a level that has these.

        Raises:
            NotReady: one is too large, or none.
        """
        # Written so that NaN is refused.
        if beyond := [eta for eta in etas if not eta <= self.largest_eta]:
            raise NotReady(
                f"the level has eta {beyond[0]:.4g}, and the owner of this device allows "
                f"{self.largest_eta:g} at most",
                fix="take a stronger level, or raise privacy.largest_eta in the configuration",
                subject="privacy.largest_eta",
            )
