"""What operators may watch: jobs as the database has them, calls as they are answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from prometheus_client import start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sottovoce.cloud.job import State
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.metrics import Metrics
from sottovoce.core.errors import ConfigError
from sottovoce.core.wire.interception import Handler, Interceptor, within

__all__ = ["CallCounter", "JobsCollector", "expose"]


class JobsCollector(Collector):
    """Jobs by state, and how fast training goes, read from the database when asked."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The two figures as they are now."""
        counts, speed = self._jobs.overview()
        jobs = GaugeMetricFamily("sottovoce_jobs", "Training jobs, by state.", labels=["state"])
        for state in State:
            jobs.add_metric([state.lower()], counts[state])
        yield jobs
        yield GaugeMetricFamily(
            "sottovoce_training_examples_per_second", "Of the jobs that run now.", value=speed
        )


class CallCounter(Interceptor):
    """Counts the calls of every method this server has; goes outside the error interceptor."""

    def __init__(self, metrics: Metrics) -> None:
        self._calls = metrics.calls

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        return within(handler, lambda context: self._counted(method, context))

    @contextmanager
    def _counted(self, method: str, context: Any) -> Iterator[None]:
        try:
            yield
        finally:
            left = grpc.StatusCode.OK if context.is_active() else grpc.StatusCode.CANCELLED
            self._calls.labels(method, (context.code() or left).name).inc()


def expose(metrics: Metrics, address: str) -> Callable[[], None]:
    """Answers ``GET /metrics`` on ``address`` (HOST:PORT); what it returns stops that.

    Raises:
        ConfigError: the address is none, or taken.
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
