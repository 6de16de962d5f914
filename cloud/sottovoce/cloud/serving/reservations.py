"""Memory that is promised before it is used.

Why it is here: a text that has begun must be able to go on to its end, so what it will hold is set
aside when it is asked for. Nobody's texts can take what all others need.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from sottovoce.core.errors import Overloaded, QuotaExceeded

__all__ = ["Reservations"]

PATIENCE: Final = 10.0
"""Seconds to wait for others to be done."""


class Reservations:
    """Shares out a budget of bytes; safe to share between threads. A tenant may have half of it.

    Args:
        budget: bytes.
        patience: seconds `reserve` waits for room.
    """

    def __init__(self, budget: int, *, patience: float = PATIENCE) -> None:
        self._budget, self._patience = budget, patience
        self._held: Counter[str] = Counter()
        self._changed = threading.Condition()

    @property
    def held(self) -> int:
        """Bytes set aside now."""
        return self._held.total()

    def reserve(self, tenant: str, size: int) -> Callable[[], None]:
        """Sets ``size`` bytes aside; what it returns gives them back, once.

        Raises:
            QuotaExceeded: more than a tenant may have. Overloaded: others kept what there is.
        """
        share = self._budget // 2
        if size > share:
            raise QuotaExceeded(
                "this text would take more memory than a tenant may have",
                fix="shorten the prompt or ask for fewer tokens, or have the provider raise "
                "`sotto-cloud serve --generation-memory`",
                subject="sampling.max_tokens",
            )

        def room() -> bool:
            return self._held[tenant] + size <= share and self.held + size <= self._budget

        with self._changed:
            if not self._changed.wait_for(room, self._patience):
                raise Overloaded(
                    "the cloud's memory is full of texts that are being written",
                    fix="send the same message again later",
                )
            self._held[tenant] += size
        return partial(self._give_back, tenant, size)

    def _give_back(self, tenant: str, size: int) -> None:
        with self._changed:
            self._held[tenant] -= size
            if not self._held[tenant]:
                del self._held[tenant]
            self._changed.notify_all()
