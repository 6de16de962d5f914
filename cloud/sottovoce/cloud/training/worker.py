"""The process that trains: one job at a time, each from its checkpoint.

Training runs in a separate process, so it never slows the server's interpreter, and a crash fails
no request. Leases keep workers apart. A worker puts its job down if its parent process has died.

The holder of a lease works in the folder ``scratch/<job>.<token>`` of its machine. Checkpoints and
the adapter are copied from there to the objects, under names that begin with the token. They count
once a row names them. The next holder continues from the row's checkpoint, on any machine. Files
from a former holder that was only asleep have no effect.

Torch and the trainers are imported with the first job, as many servers never train.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import Example, Job, Progress, State, Stopped, Watch
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.ending import (
    adapter_name,
    checkpoint_name,
    clear,
    discard_left,
    scratch_home,
    sweep,
    tidy,
)
from sottovoce.cloud.jobs.queue import LEASE_SECONDS, Lease, LeaseLost, Queue, Wakeup, overview
from sottovoce.cloud.jobs.records import BaseMoved
from sottovoce.cloud.metrics import JobsCollector, TrainerMetrics, expose
from sottovoce.cloud.store import bundles, check_objects, open_database
from sottovoce.cloud.store.adapters import AdapterFiles, digest, stored
from sottovoce.cloud.store.objects import copy_files, one_by_one
from sottovoce.cloud.tenants import quotas
from sottovoce.core.errors import DataLoss, QuotaExceeded, SottovoceError, Unavailable
from sottovoce.core.platform.files import full_disk_is_unavailable
from sottovoce.core.rpc import telemetry
from sottovoce.core.rpc.error_status import kind_and_place

if TYPE_CHECKING:
    from sottovoce.cloud.training.run import Result
    from sottovoce.cloud.training.trainer import Base

_log = logging.getLogger(__name__)


class Scratch:
    """A lease holder's folder.

    Attributes:
        adapter: path for the trained adapter.
        checkpoint: file to continue from and to update; its folder is kept as a whole.
    """

    def __init__(self, folder: Path, queue: Queue, lease: Lease) -> None:
        self.adapter = folder / "adapter"
        self.checkpoint = folder / "checkpoints" / "last.safetensors"
        self._queue, self._lease = queue, lease
        self._objects = queue.database.objects

    def fetch(self) -> None:
        """Copy the job's latest checkpoint from the objects, from any earlier holder.

        Raises:
            LeaseLost: see `Queue`. Unavailable: the objects are unreachable, or the disk is full.
        """
        reached = self._queue.checkpoint(self._lease)
        if not reached:
            return
        try:
            with self._objects.at(reached) as files, full_disk_is_unavailable():
                if files.is_dir():  # otherwise it is lost, and the job begins again
                    copy_files(files, self.checkpoint.parent)
        except DataLoss as error:  # the job begins again, too
            _log.error("job %s begins anew: %s", self._lease.job, error)

    def keep(self) -> None:
        """Copy the checkpoint to the objects, and make it the job's checkpoint."""
        # A new name every time, because the row may still name the last checkpoint.
        name = checkpoint_name(self._lease.job, self._lease.token, secrets.token_hex(8))
        self._objects.put(self.checkpoint.parent, name)
        try:
            before = self._queue.keep(self._lease, name)
        except LeaseLost:
            self._objects.remove(name)
            raise
        if before:  # otherwise it is deleted when the job ends
            remove = partial(self._objects.remove, before)
            one_by_one(self._objects, [(self._lease.job, remove)])

    def put_adapter(self) -> AdapterFiles:
        """Copy the trained adapter to the objects."""
        self._queue.renew(self._lease)  # the job may have ended or been deleted meanwhile
        name = adapter_name(self._lease.job, self._lease.token)
        self._objects.put(self.adapter, name)
        return stored(self._objects, name, digest(self.adapter))


@contextmanager
def scratch(state: Path, queue: Queue, lease: Lease) -> Iterator[Scratch]:
    """Create a folder for the duration of the block.

    Raises:
        Unavailable: the disk is full.
    """
    folder = scratch_home(state) / f"{lease.job}.{lease.token}"
    try:
        with full_disk_is_unavailable():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        yield Scratch(folder, queue, lease)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


ATTEMPTS = 3
POLL_SECONDS = 0.2
IDLE_SECONDS = 5.0
"""Interval at which an idle worker looks for ended leases, or tries a full disk again."""
REPORT_SECONDS = 0.5
SWEEP_SECONDS = 3600.0


class Worker:
    """Trains the jobs of one database.

    Args:
        state, store, objects, key_file: see `open_database`.
        parent: process id of the worker's parent; the worker stops when the parent is gone. None
            for a separate worker.
        limits: a job that exceeds ``training_seconds`` ends as FAILED. Its weights are discarded: a
            half-trained adapter must not replace a good one.
        decoder: the decoder for generation jobs; "" for none.
        owner: resumes at once the jobs of an earlier worker of this name, which must be dead; by
            default a new name.
        lease_seconds: after this time, others take the job of a dead or stalled worker.
        threads: of torch; 0 leaves its own number.
    """

    def __init__(
        self,
        state: Path,
        backbone_name: str,
        parent: int | None = None,
        limits: ServerLimits | None = None,
        owner: str = "",
        lease_seconds: float = LEASE_SECONDS,
        decoder: str = "",
        store: str = "",
        objects: str = "",
        key_file: Path | None = None,
        threads: int = 0,
    ) -> None:
        self.state = state
        self.database = open_database(state, store, objects, key_file)
        check_objects(self.database)
        self.database.keys.check(self.database)
        self.objects = self.database.objects
        self.jobs = Jobs(self.database, limits)
        quotas.note(self.database, self.jobs.limits, quotas.OF_TRAINERS)
        self.queue = Queue(self.database, lease_seconds)
        self._owner = owner or secrets.token_hex(8)
        self._backbone = backbone_name
        self._decoder = decoder
        self._parent = parent
        self._threads = threads
        self.metrics = TrainerMetrics()
        self._stop = False
        self._swept = time.monotonic()

    def stop(self) -> None:
        self._stop = True

    @property
    def stopping(self) -> bool:
        """Whether the worker was told to stop, or its parent is gone."""
        return self._stop or (self._parent is not None and os.getppid() != self._parent)

    def run(self) -> None:
        wakeup = Wakeup(self.database)
        while not self.stopping:
            try:
                idle = not self.run_next()
            except Unavailable as error:
                _log.error("waiting: %s", error)
                idle = True
            if idle:
                wakeup.wait(IDLE_SECONDS, lambda: self.stopping)

    def run_next(self) -> bool:
        """Train the next job, if there is one; return False otherwise.

        Raises:
            Unavailable: the job's end could not be written. The next call writes it.
        """
        self._clean_up()
        self.jobs.give_up_abandoned()
        claimed = self.queue.claim(self._owner)
        if claimed is None:
            return False
        job, lease = claimed
        _log.info("job %s: %d examples", job.id, job.next_sequence)
        outcome, began = "put_down", time.monotonic()
        self.metrics.busy.set(1)
        try:
            with (
                _kept_alive(self.queue, lease),
                telemetry.span("job", job.trace, examples=job.next_sequence, attempts=job.attempts),
            ):
                outcome = self._bring_to_an_end(job, lease)
        except LeaseLost:
            outcome = "lost"
            _log.warning("job %s: another worker has it now", job.id)
            # If the job was deleted meanwhile, no later worker looks at its files.
            self.objects.remove(adapter_name(job.id, lease.token))
        finally:
            self.metrics.busy.set(0)
            self.metrics.seconds.inc(time.monotonic() - began)
            self.metrics.jobs.labels(outcome).inc()
        return True

    def _clean_up(self) -> None:
        """Remove the leftovers of dead workers and of this one."""
        clear(self.state, self.queue)
        discard_left(self.jobs)
        self.database.keys.destroy(self.database)
        tidy(self.jobs)
        if time.monotonic() - self._swept > SWEEP_SECONDS:
            self._swept = time.monotonic()  # a failed sweep waits for the next interval
            sweep(self.jobs)
            bundles.sweep(self.database)

    def _bring_to_an_end(self, job: Job, lease: Lease) -> str:
        """Train a job, and return its outcome as in `TrainerMetrics.OUTCOMES`."""
        state = State.FAILED
        for _ in range(ATTEMPTS):
            ended = self._ended(job, lease)
            if ended is None:
                return "put_down"
            _log.info("job %s: %s", job.id, ended[0])
            try:
                self.queue.finish(lease, *ended)
                state = ended[0]
                break
            except BaseMoved:  # the adapter now has other devices' examples
                _log.info("job %s: the adapter was changed, once more", job.id)
                self.objects.remove(adapter_name(job.id, lease.token))
            except (LeaseLost, Unavailable):
                raise
            except SottovoceError as error:  # the adapter to continue from was deleted
                self.queue.finish(lease, State.FAILED, _told(error))
                break
        else:
            message = f"the adapter was changed in each of {ATTEMPTS} rounds; customise again later"
            self.queue.finish(lease, State.FAILED, message)
        self._clean_up()
        return state.lower()

    def _ended(self, job: Job, lease: Lease) -> tuple[State, str, AdapterFiles | None, str] | None:
        """Return the arguments of `Queue.finish` for a job; None if it was put down."""
        try:
            if job.attempts >= ATTEMPTS:
                raise SottovoceError(
                    f"the worker died {job.attempts} times while training this job",
                    fix="try a smaller batch size; the provider finds more in the server's log",
                )
            return (State.SUCCEEDED, "", *self._patiently(job, lease))
        except Stopped:
            if not self.queue.stop_requested(lease):
                self.queue.release(lease)
                return None  # stays RUNNING, for the next worker
            return State.CANCELLED, "", None, ""
        except LeaseLost:
            raise
        except SottovoceError as error:
            return State.FAILED, _told(error), None, ""
        except Exception as error:
            _log.error("job %s: unexpected %s", job.id, kind_and_place(error))
            message = f"internal error ({type(error).__name__}); try again, or ask the provider"
            return State.FAILED, message, None, ""

    def _patiently(self, job: Job, lease: Lease) -> tuple[AdapterFiles, str]:
        """Train, waiting while the disk is full or the database is away, so the job does not fail.

        Also returns the hash of the adapter that the job continued from, if any.
        """
        while True:
            try:
                return self._train(job, lease)
            except Unavailable as error:
                _log.error("job %s waits: %s", job.id, error)
            self.metrics.waits.inc()
            self._pause(lease)

    def _pause(self, lease: Lease) -> None:
        again = time.monotonic() + IDLE_SECONDS
        while time.monotonic() < again:
            if self.stopping:
                raise Stopped
            # While the database is away, no tenant can have cancelled the job.
            with contextlib.suppress(Unavailable):
                if self.queue.stop_requested(lease):
                    raise Stopped
            time.sleep(POLL_SECONDS)

    def _train(self, job: Job, lease: Lease) -> tuple[AdapterFiles, str]:
        from sottovoce.cloud.training.trainer import Base

        base = Base.of(self.database, job)
        with scratch(self.state, self.queue, lease) as place:
            place.fetch()
            with telemetry.span("training"):
                self._fit(job, lease, place, base)
            with telemetry.span("adapter put"):
                return place.put_adapter(), base.sha256 if base else ""

    def _fit(self, job: Job, lease: Lease, place: Scratch, base: Base | None) -> None:
        before, began = self.queue.trained(lease), time.monotonic()
        most = quotas.of(self.database, job.tenant, self.jobs.limits).training_seconds
        learn = self._trainer(job, base)
        if self.queue.stop_requested(lease):  # examples may be partly deleted: see `ending`
            raise Stopped
        examples: list[Example] = self.queue.examples(job.id)
        self.queue.begin(lease, tuple(sorted({e.label for e in examples} - {""})))
        reported = checked = 0.0

        def taken() -> float:
            return before + time.monotonic() - began

        def report(progress: Progress) -> None:
            nonlocal reported
            self.metrics.steps.inc()
            if time.monotonic() - reported > REPORT_SECONDS or progress.step == progress.steps:
                self.queue.report(lease, progress, taken())
                reported = time.monotonic()

        def should_stop() -> bool:
            nonlocal checked
            if self.stopping:
                return True
            if time.monotonic() - checked < POLL_SECONDS:
                return False
            checked = time.monotonic()
            if self.queue.stop_requested(lease):
                return True
            if taken() > most:
                raise QuotaExceeded(
                    f"training took longer than {most} s, which is the limit",
                    fix="give fewer examples or epochs, or ask the provider for more time",
                    subject="training_seconds",
                )
            return False

        learn(
            examples,
            job.training,
            folder=place.adapter,
            resume=place.checkpoint,
            watch=Watch(report, place.keep, should_stop),
            origin={
                "job": job.id,
                "bundle_id": job.release.bundle_id,
                "training": asdict(job.training),
                "release": asdict(job.release),
                **({"base": base.sha256} if base else {}),
            },
        )

    def _trainer(self, job: Job, base: Base | None) -> Callable[..., Result]:
        """Return the training function for the job, with its model loaded."""
        import torch

        from sottovoce.cloud.models import backbone, decoder, methods
        from sottovoce.cloud.training.dp_sgd.trainer import train_private
        from sottovoce.cloud.training.generation_trainer import train_generation
        from sottovoce.cloud.training.pate_trainer import train_pate
        from sottovoce.cloud.training.trainer import train

        if self._threads:
            torch.set_num_threads(self._threads)
        quantized = methods.from_options(job.training).quantized
        if job.training.writes:
            if not self._decoder:  # the server was restarted without one
                raise decoder.no_decoder()
            writer = decoder.load(self._decoder, quantized=quantized)
            return partial(train_generation, decoder=writer)
        loaded = backbone.load(self._backbone, quantized=quantized)
        if job.training.dp_epsilon:
            private = train_pate if job.training.pate else train_private
            return partial(private, backbone=loaded)
        return partial(train, backbone=loaded, base=base)


def _told(error: SottovoceError) -> str:
    """Return the error text for the job's tenant."""
    fix = error.fix_for_callers
    return f"{error.problem} ({fix})" if fix else error.problem


@contextlib.contextmanager
def _kept_alive(queue: Queue, lease: Lease) -> Iterator[None]:
    """Renew the lease from a thread, because loading a model may take longer than a lease."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(queue.seconds / 3):
            try:
                queue.renew(lease)
            except LeaseLost:
                return  # the training thread meets the error too, at the latest at the job's end
            except Unavailable as error:
                _log.error("job %s: %s", lease.job, error)

    thread = threading.Thread(target=beat, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def work(worker: Worker, metrics: str = "", on_ready: Callable[[], None] | None = None) -> bool:
    """Run the worker until SIGTERM or SIGINT; return whether SIGINT ended it.

    Args:
        metrics: HOST:PORT for Prometheus; "" for none.
        on_ready: called before the first job.
    """
    ended_by: list[int] = []

    def stop(number: int, _: object) -> None:
        ended_by.append(number)
        worker.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    stop_metrics = None
    try:
        if metrics:
            worker.metrics.registry.register(JobsCollector(partial(overview, worker.database)))
            stop_metrics = expose(worker.metrics, metrics)
        if on_ready is not None:
            on_ready()
        worker.run()
    finally:
        if stop_metrics is not None:
            stop_metrics()
        worker.database.close()
    return ended_by[:1] == [signal.SIGINT]
