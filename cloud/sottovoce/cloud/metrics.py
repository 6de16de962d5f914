"""What the server counts, for Prometheus to fetch.

Why it is here: an operator must see load, queues, memory and jobs, and must not see whose they are
or what they say. Labels take their values from fixed sets only (methods of the wire, status codes,
job states): no text, class, tenant or adapter name can become one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
)

__all__ = ["Metrics"]

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.calls = counter(
            "sottovoce_calls", "Calls ended, by method and status code.", ["method", "code"]
        )
        self.waiting = gauge("sottovoce_waiting_requests", "Requests waiting for the model.")
        self.batch = histogram(
            "sottovoce_batch_requests", "Requests answered together.", buckets=_ROWS
        )
        self.latency = histogram(
            "sottovoce_request_seconds",
            "From a request's arrival in the queue to its answer.",
            buckets=_SECONDS,
        )
        self.adapters = gauge("sottovoce_adapters", "Adapters in memory.")
        self.adapter_bytes = gauge("sottovoce_adapter_bytes", "Memory adapters take.")
        self._kept: list[Callable[[], tuple[int, int]]] = []
        self.adapters.set_function(lambda: sum(kept()[0] for kept in self._kept))
        self.adapter_bytes.set_function(lambda: sum(kept()[1] for kept in self._kept))
        self.loads = counter("sottovoce_adapter_loads", "Adapters read from disk.")
        self.evictions = counter(
            "sottovoce_adapter_evictions", "Adapters that left memory for another."
        )

    def keeps(self, kept: Callable[[], tuple[int, int]]) -> None:
        """Adds what one more cache holds, adapters and bytes, to what all hold."""
        self._kept.append(kept)
