"""Processes that kill themselves (SIGKILL) at a chosen moment, for `test_kill`.

A fork server imports torch once, so each process takes half a second. Wrapped calls set the
moments; the program does not know them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from sottovoce.cloud.api import training_service
from sottovoce.cloud.api.server import Server
from sottovoce.cloud.config import Settings
from sottovoce.cloud.jobs import queue, uploads
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.training import worker

MOMENTS: dict[str, tuple[str, int]] = {
    # What is called, and at which call of it the process dies.
    "before the first step": ("step", 1),
    "in the middle of the first checkpoint": ("checkpoint half written", 1),
    "in the middle of the third checkpoint": ("checkpoint half written", 3),
    # In place where it was written, then among the objects, then by its row.
    "before a written checkpoint is in place": ("checkpoint put in place", 3),
    "before a checkpoint is among the objects": ("checkpoint put in place", 4),
    "before a checkpoint counts": ("checkpoint kept", 2),
    "between the last checkpoint and the adapter": ("adapter file", 1),
    "in the middle of the adapter's weights": ("adapter file half written", 1),
    "before the adapter's folder is in place": ("adapter put in place", 1),
    "before the adapter is among the objects": ("adapter put in place", 2),
    "before the job is told to have ended": ("end of job", 1),
    "before its end and the adapter's name are committed": ("adapter named", 1),
}
UPLOAD_MOMENTS: dict[str, tuple[str, int]] = {
    "in the middle of a message": ("example stored", 13),
    "between commit and answer": ("message stored", 2),
}

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(
    # A worker imports the trainer with its first job, and what saves must be there to be wrapped.
    [
        "sottovoce.cloud.api.server",
        "sottovoce.cloud.training.trainer",
        "sottovoce.cloud.training.worker",
    ]
)


def work(state: Path, backbone: str, moment: tuple[str, int] | None = None) -> tuple[int, int]:
    """Runs a worker until nothing is queued, or the moment comes.

    Returns:
        The exit code, and how many training steps it did (0 if it was killed).
    """
    steps = state.with_name(f"{state.name}.steps")
    steps.write_text("0")
    process = _processes.Process(target=_work, args=(state, backbone, moment, steps))
    process.start()
    process.join(100)
    assert process.exitcode is not None, "the worker hangs"
    return process.exitcode, int(steps.read_text())


@contextlib.contextmanager
def serving(settings: Settings, moment: tuple[str, int] | None = None) -> Iterator[Any]:
    """Run a server in its own process; kill it at the end if it is still alive."""
    process = _processes.Process(target=_serve, args=(settings, moment))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


@contextlib.contextmanager
def working(state: Path, backbone: str, owner: str, lease_seconds: float) -> Iterator[Any]:
    """Run a worker in its own process for the length of the block."""
    process = _processes.Process(target=_go_on, args=(state, backbone, owner, lease_seconds))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _go_on(state: Path, backbone: str, owner: str, lease_seconds: float) -> None:
    torch.set_num_threads(1)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    worker.Worker(state, backbone, owner=owner, lease_seconds=lease_seconds).run()


def _work(state: Path, backbone: str, moment: tuple[str, int] | None, steps: Path) -> None:
    torch.set_num_threads(1)
    # Sums on a GPU come in any order, and here bits are compared.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    done = 0

    def count() -> None:
        nonlocal done
        done += 1

    _before(torch.optim.AdamW, "step", lambda *_: count())
    if moment:
        _arm(*moment)

    class UntilIdle(worker.Worker):
        def run_next(self) -> bool:
            found = super().run_next()
            if not found:
                self.stop()
            return found

    # As the server starts one worker after the other.
    UntilIdle(state, backbone, owner="worker").run()
    steps.write_text(str(done))


def _serve(settings: Settings, moment: tuple[str, int] | None) -> None:
    if moment:
        _arm(*moment)
    server = Server(settings)
    server.start()
    signal.pause()
    server.stop()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(what: str, number: int) -> None:
    """Has the process die at the ``number``-th time that ``what`` happens."""
    calls = 0

    def happens() -> bool:
        nonlocal calls
        calls += 1
        return calls == number

    def die() -> None:
        if happens():
            _die()

    match what:
        case "step":
            _before(torch.optim.AdamW, "step", lambda *_: die())
        case "end of job":
            _before(Queue, "finish", lambda *_: die())
        case "checkpoint kept":
            _before(Queue, "keep", lambda *_: die())
        case "adapter named":
            _after(queue, "install", die)
        case "example stored":
            _before(uploads, "_insert", lambda *_: die())
        case "message stored":
            _after(training_service, "append", die)
        case "checkpoint half written" | "adapter file half written" | "adapter file":
            _wrap_saves(what, happens)
        case "checkpoint put in place" | "adapter put in place":
            kind = what.partition(" ")[0]
            _before(os, "replace", lambda _, to: die() if _kind(Path(to)) == kind else None)
        case _:
            raise ValueError(what)


def _kind(path: Path) -> str:
    if "checkpoints" in path.parts:
        return "checkpoint"
    if path.name == "objects.id":
        return "id of the store"
    return "adapter"


def _wrap_saves(what: str, happens: Callable[[], bool]) -> None:
    real = safetensors.torch.save_file
    kind, _, half = what.partition(" ")

    def save_file(tensors: Any, filename: Any, metadata: Any = None) -> None:
        last = _kind(Path(filename)) == kind and happens()
        if last and half == "file":
            _die()
        real(tensors, filename, metadata)
        if last:
            os.truncate(filename, os.path.getsize(filename) // 2)
            _die()

    users = [m for name, m in sys.modules.items() if name.startswith("sottovoce.cloud.")]
    for module in users:
        if getattr(module, "save_file", None) is real:
            module.save_file = save_file  # type: ignore[attr-defined]


def _before(owner: Any, name: str, do: Callable[..., None]) -> None:
    real = getattr(owner, name)

    def wrapped(*args: Any, **more: Any) -> Any:
        do(*args)
        return real(*args, **more)

    setattr(owner, name, wrapped)


def _after(owner: Any, name: str, do: Callable[[], None]) -> None:
    real = getattr(owner, name)

    def wrapped(*args: Any, **more: Any) -> Any:
        found = real(*args, **more)
        do()
        return found

    setattr(owner, name, wrapped)
