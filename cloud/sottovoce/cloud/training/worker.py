"""The process that trains: one job at a time, resumed where it was left.

It is a process of its own so that training never slows an answer's interpreter
and a crash in it takes no request along. A lock file keeps two workers apart,
and a worker whose parent has died puts its job down by itself.

    python -m sottovoce.cloud.training.worker --state DIR
"""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

import torch

from sottovoce.cloud.config import Limits
from sottovoce.cloud.job import Example, Job, Progress, State
from sottovoce.cloud.jobs.disposal import discard, job_folder
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.jobs.wakeup import Wakeup
from sottovoce.cloud.models import backbone, methods, noise_aware
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.noise_aware import NoiseTable, WordPlaces
from sottovoce.cloud.state import quotas
from sottovoce.cloud.state.adapters import install
from sottovoce.cloud.state.database import Store
from sottovoce.cloud.training.trainer import Stopped, train
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import BundleMismatch, QuotaExceeded, SottovoceError, Unavailable
from sottovoce.core.wire.status import kind_and_place

__all__ = ["Worker", "main"]

ATTEMPTS = 3
POLL_SECONDS = 0.2
IDLE_SECONDS = 5.0
"""An idle worker looks again, should it have missed a wake-up; also before a full disk is tried."""
REPORT_SECONDS = 0.5

_log = logging.getLogger(__name__)


class Worker:
    """Trains the jobs of one state folder.

    Args:
        state: the state folder.
        backbone_name: what jobs are trained on.
        parent: process id that this worker belongs to; it stops when that
            process is gone. None for a worker that stands alone.
        limits: ``training_seconds`` ends a job that takes longer as FAILED. Its weights so far
            are thrown away: a half-trained adapter must not take the place of a good one.
        bundles: folders of those served, which the noise-aware input needs.
    """

    def __init__(
        self,
        state: Path,
        backbone_name: str,
        parent: int | None = None,
        limits: Limits | None = None,
        bundles: Sequence[Path] = (),
    ) -> None:
        self.state = state
        self._bundles = bundles
        self.jobs = Jobs(Store(state), limits)
        self._backbone = backbone_name
        self._parent = parent
        self._stop = False
        self._wakeup = Wakeup(state)

    def stop(self) -> None:
        """Asks the worker to put its job down and end."""
        self._stop = True
        self._wakeup.ring()

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop, or is an orphan."""
        return self._stop or (self._parent is not None and os.getppid() != self._parent)

    def run(self) -> None:
        """Works until told to stop."""
        with (self.state / "worker.lock").open("w") as lock:
            if not self._own(lock):
                return
            # A worker that was killed may have left a name it had not yet put in place.
            for left in (self.state / "adapters").glob("*/.*"):
                left.unlink(missing_ok=True)
            with self._wakeup.heard() as wait:
                while not self.stopping:
                    try:
                        idle = not self.run_next()
                    except Unavailable as error:
                        _log.error("waiting: %s", error)
                        idle = True
                    if idle:
                        wait(IDLE_SECONDS)

    def _own(self, lock: IO[str]) -> bool:
        while not self.stopping:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # an orphan is still writing its last checkpoint
                time.sleep(POLL_SECONDS)
            else:
                return True
        return False

    def run_next(self) -> bool:
        """Trains the next job, if there is one; False if there is none.

        Raises:
            Unavailable: how a job ended could not be written. The next call sees to it.
        """
        for deleted in self.jobs.unpurged():
            discard(self.jobs, deleted)
        self.jobs.give_up_abandoned()
        job = self.jobs.claim()
        if job is None:
            return False
        _log.info("job %s: %d examples", job.id, job.next_sequence)
        state, message = State.SUCCEEDED, ""
        try:
            if job.attempts >= ATTEMPTS:
                raise SottovoceError(
                    f"the worker died {job.attempts} times while training this job",
                    fix="try a smaller batch size; the provider finds more in the server's log",
                )
            self._patiently(job)
        except Stopped:
            if not self.jobs.stop_requested(job.id):
                self.jobs.forgive(job.id)
                return True  # stays RUNNING, for the next worker to take up
            state = State.CANCELLED
        except SottovoceError as error:
            state, message = State.FAILED, str(error)
        except Exception as error:
            _log.error("job %s: unexpected %s", job.id, kind_and_place(error))
            kind = type(error).__name__
            state, message = (
                State.FAILED,
                f"internal error ({kind}); try again, or ask the provider",
            )
        _log.info("job %s: %s", job.id, state)
        if state != State.SUCCEEDED:
            # Before the job ends: nothing looks at the folder of one that has ended.
            shutil.rmtree(job_folder(self.state, job.id), ignore_errors=True)
        if self.jobs.finish(job.id, state, message):
            discard(self.jobs, job)
        return True

    def _patiently(self, job: Job) -> None:
        """Trains, and waits for as long as the disk is full: that is not the job's failure."""
        while True:
            began = time.monotonic()
            try:
                return self._train(job)
            except Unavailable as error:
                _log.error("job %s waits: %s", job.id, error)
            job = replace(job, trained=job.trained + time.monotonic() - began)
            again = time.monotonic() + IDLE_SECONDS
            while time.monotonic() < again:
                if self.stopping or self.jobs.stop_requested(job.id):
                    raise Stopped
                time.sleep(POLL_SECONDS)

    def _train(self, job: Job) -> None:
        folder = job_folder(self.state, job.id)
        for left in folder.glob(".*"):  # half written by a worker that was killed
            shutil.rmtree(left, ignore_errors=True)
        # The adapter's folder appears whole or not at all: if it is there, the worker died between
        # that and the end of the job, and nothing is left to train.
        if not (folder / "adapter").is_dir():
            self._fit(job, folder)
        install(self.state, job.tenant, job.adapter, folder / "adapter")
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)

    def _fit(self, job: Job, folder: Path) -> None:
        began = time.monotonic()
        most = quotas.of(self.jobs.store, job.tenant, self.jobs.limits).training_seconds
        quantized = methods.from_options(job.training).quantized
        loaded = backbone.load(self._backbone, quantized=quantized)
        noise, places = self._noise(job, loaded)
        examples: list[Example] = self.jobs.examples(job.id)
        self.jobs.begin(job.id, tuple(sorted({e.label for e in examples})))
        reported = 0.0
        further = False

        def taken() -> float:
            return job.trained + time.monotonic() - began

        def report(progress: Progress) -> None:
            nonlocal reported
            if time.monotonic() - reported > REPORT_SECONDS or progress.step == progress.steps:
                self.jobs.report(job.id, progress, taken())
                reported = time.monotonic()

        def kept() -> None:
            nonlocal further
            if not further:
                self.jobs.forgive(job.id)
            further = True

        checked = 0.0

        def should_stop() -> bool:
            nonlocal checked
            if self.stopping:
                return True
            if time.monotonic() - checked < POLL_SECONDS:
                return False
            checked = time.monotonic()
            if self.jobs.stop_requested(job.id):
                return True
            if taken() > most:
                raise QuotaExceeded(
                    f"training took longer than {most} s, which is the limit",
                    fix="give fewer examples or epochs, or ask the provider for more time",
                    subject="training_seconds",
                )
            return False

        train(
            examples,
            job.training,
            loaded,
            folder / "adapter",
            noise=noise,
            places=places,
            resume=folder / "checkpoints" / "last.safetensors",
            on_progress=report,
            on_checkpoint=kept,
            should_stop=should_stop,
            origin={
                "job": job.id,
                "bundle_id": job.release.bundle_id,
                "training": asdict(job.training),
                "release": asdict(job.release),
            },
        )

    def _noise(
        self, job: Job, loaded: LoadedBackbone
    ) -> tuple[NoiseTable, WordPlaces] | tuple[None, None]:
        """How to read the words received, where the job asks for that."""
        if not job.training.noise_aware:
            return None, None
        for folder in self._bundles:
            bundle = Bundle.open(folder)
            if bundle.id == job.release.bundle_id:
                made = noise_aware.table(bundle, job.release, loaded, self.state / "noise")
                return made, WordPlaces(bundle)
        raise BundleMismatch(
            "the examples were released with a bundle this cloud no longer serves",
            fix="fetch the current one with `sotto pull HOST:PORT` and customise again",
            subject="bundle_id",
        )


def main() -> None:
    """Entry point of the worker process."""
    parser = argparse.ArgumentParser(prog="python -m sottovoce.cloud.training.worker")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--backbone", default="default")
    parser.add_argument("--parent", type=int)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--training-seconds", type=int, default=Limits().training_seconds)
    parser.add_argument("--bundle", type=Path, action="append", default=[])
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="worker: %(message)s")
    torch.set_num_threads(options.threads)
    limits = Limits(training_seconds=options.training_seconds)
    worker = Worker(options.state, options.backbone, options.parent, limits, options.bundle)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    worker.run()


if __name__ == "__main__":
    main()
