"""Prometheus metrics of each process.

An operator must see load, queues, memory and jobs, but no tenants and no contents. Labels take
their values from fixed sets only (methods of the wire, status codes, job states, roles). So no
text, class, tenant or adapter name can become a label. Each role has only the counters that it
uses: a front's waiting requests would be a meaningless zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sottovoce.cloud.job import State
from sottovoce.core.errors import ConfigError

if TYPE_CHECKING:
    from sottovoce.cloud.jobs.queue import Overview

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128)


class RoleMetrics:
    """Metrics of every process: role, processor time and memory, in a separate registry.

    Args:
        role: "serve", "replica", "front" or "trainer".
    """

    def __init__(self, role: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        Info("sottovoce_process", "What this process is.", registry=self.registry).info(
            {"role": role}
        )
        self._counter = partial(Counter, registry=self.registry)
        self._gauge = partial(Gauge, registry=self.registry)
        self._histogram = partial(Histogram, registry=self.registry)


class CallMetrics(RoleMetrics):
    """Metrics of a process that answers calls, for example a front."""

    def __init__(self, role: str = "front") -> None:
        super().__init__(role)
        self.calls = self._counter(
            "sottovoce_calls", "Calls ended, by method and status code.", ["method", "code"]
        )


class Metrics(CallMetrics):
    """Metrics of a process that answers calls from models: a server or a replica."""

    def __init__(self, role: str = "serve") -> None:
        super().__init__(role)
        self.waiting = self._gauge("sottovoce_waiting_requests", "Requests waiting for the model.")
        self.batch = self._histogram(
            "sottovoce_batch_requests", "Requests answered together.", buckets=_ROWS
        )
        self.latency = self._histogram(
            "sottovoce_request_seconds",
            "From a request's arrival in the queue to its answer.",
            buckets=_SECONDS,
        )
        self.adapters = self._gauge("sottovoce_adapters", "Adapters in memory.")
        self.adapter_bytes = self._gauge("sottovoce_adapter_bytes", "Memory adapters take.")
        self._kept: list[Callable[[], tuple[int, int]]] = []
        self.adapters.set_function(lambda: sum(kept()[0] for kept in self._kept))
        self.adapter_bytes.set_function(lambda: sum(kept()[1] for kept in self._kept))
        self.loads = self._counter("sottovoce_adapter_loads", "Adapters read from disk.")
        self.evictions = self._counter(
            "sottovoce_adapter_evictions", "Adapters that left memory for another."
        )

    def keeps(self, kept: Callable[[], tuple[int, int]]) -> None:
        """Add one more cache's adapters and bytes to the totals."""
        self._kept.append(kept)


class TrainerMetrics(RoleMetrics):
    OUTCOMES: Final = ("succeeded", "failed", "cancelled", "put_down", "lost")
    """How a job may leave a trainer; "put down" means released to the next, "lost" taken by
    another.
    """

    def __init__(self) -> None:
        super().__init__("trainer")
        self.jobs = self._counter(
            "sottovoce_trainer_jobs", "Jobs that this trainer is done with, by how.", ["outcome"]
        )
        for outcome in self.OUTCOMES:
            self.jobs.labels(outcome)  # a rate needs a zero before the first event
        self.steps = self._counter("sottovoce_trainer_steps", "Steps of training made.")
        self.seconds = self._counter("sottovoce_trainer_busy_seconds", "Seconds with a job.")
        self.busy = self._gauge("sottovoce_trainer_busy", "1 while there is a job here.")
        self.waits = self._counter(
            "sottovoce_trainer_waits", "Times that a job waited for a full disk or the database."
        )


class JobsCollector(Collector):
    """Metrics about jobs, read from the database on each scrape.

    Args:
        read: see `jobs.queue.overview`.
    """

    def __init__(self, read: Callable[[], Overview]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the current figures; they are the same on every process."""
        found = self._read()
        jobs = GaugeMetricFamily("sottovoce_jobs", "Training jobs, by state.", labels=["state"])
        for state in State:
            jobs.add_metric([state.lower()], found.counts[state])
        yield jobs
        for name, about, value in (
            (
                "sottovoce_oldest_queued_seconds",
                "Since the job that has waited longest was queued.",
                found.oldest_queued_seconds,
            ),
            ("sottovoce_trainers", "Trainers that hold the lease of a job.", found.trainers),
            (
                "sottovoce_expired_leases",
                "Jobs in training whose trainer died or stands still.",
                found.expired,
            ),
            (
                "sottovoce_training_examples_per_second",
                "Of the jobs that run now.",
                found.examples_per_second,
            ),
        ):
            yield GaugeMetricFamily(name, about, value=value)


def expose(metrics: RoleMetrics, address: str) -> Callable[[], None]:
    """Serve ``GET /metrics`` on ``address`` (HOST:PORT); return a stop function.

    Raises:
        ConfigError: the address is invalid, or taken.
    """
    host, _, port = address.rpartition(":")
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), metrics.registry)
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"cannot serve metrics on {address}", fix="choose a free HOST:PORT with --metrics"
        ) from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
