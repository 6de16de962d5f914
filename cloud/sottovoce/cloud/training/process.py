"""The worker's process, beside a server or as a separate trainer.

python -m sottovoce.cloud.training.process --state DIR
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from pathlib import Path

import torch

from sottovoce.cloud.config import STORE_VARIABLE, ServerLimits
from sottovoce.cloud.jobs.queue import JobsCollector
from sottovoce.cloud.metrics import expose
from sottovoce.cloud.training.worker import Worker
from sottovoce.core.errors import Side, speaking_to
from sottovoce.core.rpc import telemetry
from sottovoce.core.rpc.telemetry import traced


def work(
    worker: Worker, threads: int, metrics: str = "", on_ready: Callable[[], None] | None = None
) -> bool:
    """Run the worker until SIGTERM or SIGINT; return whether SIGINT ended it.

    Args:
        metrics: HOST:PORT for Prometheus; "" for none.
        on_ready: called before the first job.
    """
    torch.set_num_threads(threads)
    ended_by: list[int] = []

    def stop(number: int, _: object) -> None:
        ended_by.append(number)
        worker.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    stop_metrics = None
    try:
        if metrics:
            worker.metrics.registry.register(JobsCollector(worker.database))
            stop_metrics = expose(worker.metrics, metrics)
        if on_ready is not None:
            on_ready()
        worker.run()
    finally:
        if stop_metrics is not None:
            stop_metrics()
        worker.database.close()
    return ended_by[:1] == [signal.SIGINT]


def main() -> None:
    """Run the worker process beside a server."""
    parser = argparse.ArgumentParser(prog="python -m sottovoce.cloud.training.process")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--backbone", default="default")
    parser.add_argument("--decoder", default="")
    parser.add_argument("--parent", type=int)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--training-seconds", type=int, default=ServerLimits().training_seconds)
    parser.add_argument("--owner", default="")
    parser.add_argument("--objects", default="")
    parser.add_argument("--key-file", type=Path)
    parser.add_argument("--metrics", default="")
    parser.add_argument("--log-format", choices=telemetry.LOG_FORMATS, default="text")
    parser.add_argument("--trace", default="")
    options = parser.parse_args()
    telemetry.configure_logs(options.log_format, "trainer", "worker: ")
    with speaking_to(Side.PROVIDER):
        _work(options)


def _work(options: argparse.Namespace) -> None:
    limits = ServerLimits(training_seconds=options.training_seconds)
    worker = Worker(
        options.state,
        options.backbone,
        options.parent,
        limits,
        options.owner,
        decoder=options.decoder,
        store=os.environ.get(STORE_VARIABLE, ""),
        objects=options.objects,
        key_file=options.key_file,
    )
    with traced("trainer", options.trace, plaintext=True):
        work(worker, options.threads, options.metrics)


if __name__ == "__main__":
    main()
