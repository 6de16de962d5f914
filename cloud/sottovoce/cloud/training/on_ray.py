"""Run trainers as actors of an existing Ray cluster, one for each GPU.

Ray knows the cluster's machines and the free GPUs. It places trainers, assigns each a GPU, and
restarts failed ones. Leases alone decide which trainer has which job, because Ray's queue is lost
with its head node.
"""

from __future__ import annotations

import logging
import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from sottovoce.cloud.config import ServerLimits
from sottovoce.core.errors import (
    ConfigError,
    NotReady,
    Side,
    SottovoceError,
    Unavailable,
    speaking_to,
)
from sottovoce.core.rpc import telemetry
from sottovoce.core.rpc.error_status import kind_and_place
from sottovoce.core.rpc.telemetry import traced

GRACE_SECONDS: Final = 60.0
"""Time for trainers to write their checkpoints."""
_LOOK_SECONDS: Final = 0.5
_REACH_SECONDS: Final = 5.0
_FOR_EVER: Final = -1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of every trainer, with paths on the trainer's machine. See `Worker`."""

    state: Path
    backbone: str
    decoder: str
    objects: str
    key_file: Path | None
    threads: int
    training_seconds: int
    log_format: str = "text"
    trace: str = field(default="", repr=False)
    store: str = field(default="", repr=False)


class Trainer:
    """An actor on a machine that Ray chose; its two methods run at the same time."""

    def __init__(self) -> None:
        self._worker: Any = None
        self._stopped = False

    def work(self, given: Given) -> tuple[str, str, str] | None:
        """Train until told to stop.

        Returns:
            Reason, problem and fix of an error that prevents further training, or None.

        Raises:
            RuntimeError: another error, by type and place, because Ray prints exception messages.
        """
        telemetry.configure_logs(given.log_format, "trainer")
        with speaking_to(Side.PROVIDER):
            return self._work(given)

    def _work(self, given: Given) -> tuple[str, str, str] | None:
        from sottovoce.cloud.training.worker import Worker

        try:
            worker = self._worker = Worker(
                given.state,
                given.backbone,
                limits=ServerLimits(training_seconds=given.training_seconds),
                decoder=given.decoder,
                store=given.store,
                objects=given.objects,
                key_file=given.key_file,
                threads=given.threads,
            )
            if self._stopped:
                worker.stop()
            try:
                with traced("trainer", given.trace, plaintext=True):
                    worker.run()
            finally:
                worker.database.close()
        except SottovoceError as error:
            return error.reason, error.problem, error.fix
        except Exception as error:
            raise RuntimeError(kind_and_place(error)) from None
        return None

    def stop(self) -> None:
        """Tell the trainer to put its job down and end."""
        self._stopped = True
        if self._worker is not None:
            self._worker.stop()


def run(cluster: str, number: int, given: Given, on_ready: Any = lambda number: None) -> None:
    """Keep trainers running on a cluster until SIGTERM or SIGINT, and end them in order.

    The trainers belong to this process. If it dies, they end, and others take up their jobs.

    Args:
        cluster: its address, or "auto" for this machine's cluster.
        number: of trainers; 0 for one for each present GPU. A trainer without a GPU waits for
            one.

    Raises:
        ConfigError: Ray is not installed, the cluster does not exist, or it has no GPU.
        SottovoceError: a trainer could not start.
        KeyboardInterrupt: SIGINT ended the trainers, in order.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ConfigError(
            "--ray needs Ray, which is not installed",
            fix="pip install 'sottovoce-cloud[ray]', here and on the machines of the cluster",
            subject="ray",
        ) from error
    try:
        _reach(cluster)
        ray.init(address=cluster, namespace="sottovoce", logging_level=logging.WARNING)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"no Ray cluster answers at {cluster}",
            fix="start one with `ray start --head`, or correct the address after --ray: HOST:PORT",
            subject="ray",
        ) from error
    try:
        number = number or int(ray.cluster_resources().get("GPU", 0))
        if not number:
            raise ConfigError(
                "the Ray cluster has no GPU",
                fix="add a machine that has one, or say with --ray-trainers how many will come",
                subject="ray",
            )
        _keep(ray, number, given, on_ready)
    finally:
        ray.shutdown()


def _reach(cluster: str) -> None:
    """Check that the address answers; Ray would wait for minutes."""
    if cluster != "auto":
        parts = urlsplit(f"//{cluster}")
        socket.create_connection((parts.hostname or "", parts.port or 0), _REACH_SECONDS).close()


def _keep(ray: Any, number: int, given: Given, on_ready: Any) -> None:
    ending: list[int] = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda got, _: ending.append(got))
    # Ray's name of the resource {"GPU": 1}; two methods at once, so that `stop` gets through.
    actor = ray.remote(Trainer).options(
        num_gpus=1, max_restarts=_FOR_EVER, max_task_retries=_FOR_EVER, max_concurrency=2
    )
    trainers = [actor.remote() for _ in range(number)]
    working = [trainer.work.remote(given) for trainer in trainers]
    on_ready(number)
    while not ending:
        ended, _ = ray.wait(working, timeout=_LOOK_SECONDS)
        if ended:  # a trainer ends only if it cannot go on
            _stop(ray, trainers, working)
            raise _reason(ray, ended[0])
    _log.info("stopping")
    _stop(ray, trainers, working)
    if ending[0] == signal.SIGINT:
        raise KeyboardInterrupt


def _stop(ray: Any, trainers: list[Any], working: list[Any]) -> None:
    for trainer in trainers:
        trainer.stop.remote()
    ray.wait(working, num_returns=len(working), timeout=GRACE_SECONDS)
    for trainer in trainers:
        ray.kill(trainer)


def _reason(ray: Any, ended: Any) -> SottovoceError:
    try:
        found = ray.get(ended)
    except Exception as error:  # only its type is shown: see `Trainer.work`
        return Unavailable(f"a trainer ended ({type(error).__name__})", fix="see Ray's logs")
    if found is None:
        return Unavailable("a trainer ended by itself", fix="see Ray's logs")
    _, problem, fix = found
    return NotReady(f"a trainer cannot work: {problem}", fix=fix, subject="ray")
