"""Keep adapters in memory within a budget of bytes; the least recently used are removed.

A provider has more adapters than memory. The first request for an adapter reads it, on the
request's own thread, so the model keeps answering other requests. An adapter in use stays until its
requests are answered, so the budget always holds.

An adapter's identity is its folder and the folder's hash, from the registry. An adapter trained
again under the same name is a different one. A deleted adapter is never answered from memory.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.models import adapters
from sottovoce.cloud.models.adapters import Adapter
from sottovoce.cloud.store.adapters import AdapterFiles, damaged
from sottovoce.core.errors import BundleMismatch, NotReady, Overloaded
from sottovoce.core.rpc import telemetry

BUDGET: Final = 1 << 30
PATIENCE: Final = 10.0
"""Seconds to wait for other requests if memory is full of adapters in use."""
SWEEP: Final = 1.0
"""Seconds between checks for deleted adapters, while requests arrive."""


class Sized(Protocol):
    """A value with a size in bytes."""

    @property
    def bytes(self) -> int: ...


T = TypeVar("T", bound=Sized)


@dataclass(slots=True)
class _Held(Generic[T]):
    users: int
    bytes: int = 0
    value: T | None = None  # None while it is being read
    stale: bool = False  # leaves with its last user


class AdapterCache(Generic[T]):
    """Adapters in memory; safe to share between threads.

    Args:
        load: reads an adapter's folder.
        budget: bytes.
        patience: seconds that `acquire` waits for room.
    """

    def __init__(
        self,
        load: Callable[[Path], T],
        *,
        budget: int = BUDGET,
        patience: float = PATIENCE,
        metrics: Metrics | None = None,
    ) -> None:
        self._load = load
        self._budget, self._patience = budget, patience
        self._metrics = metrics or Metrics()
        self._held: OrderedDict[AdapterFiles, _Held[T]] = OrderedDict()
        self._bytes = 0
        self._swept = time.monotonic()
        self._changed = threading.Condition()
        self._metrics.keeps(lambda: (len(self._held), self._bytes))

    def acquire(self, files: AdapterFiles) -> tuple[T, Callable[[], None]]:
        """Return the adapter of these files, and a function that releases it, to call once.

        Raises:
            DataLoss: the adapter is missing or damaged. NotReady: it is larger than the budget.
            Overloaded: memory is full of adapters in use. Also the errors of ``load``.
        """
        if files.gone:
            raise damaged()
        with self._changed:
            self._forget_deleted()
            while (held := self._held.get(files)) is not None:
                if held.value is not None:
                    held.users += 1
                    self._held.move_to_end(files)
                    return held.value, partial(self._release, held)
                self._changed.wait()  # another call is reading it
            held = self._held[files] = _Held(users=1)
        try:
            with telemetry.span("adapter read"), files.opened() as folder:
                self._make_room(held, _size(folder))
                value = self._load(folder)
            self._make_room(held, value.bytes)  # may exceed the files: no file has the noise table
        except BaseException:
            with self._changed:
                if self._held.get(files) is held:
                    self._drop(files)
            self._release(held)
            raise
        with self._changed:
            held.value = value
            self._changed.notify_all()
        self._metrics.loads.inc()
        return value, partial(self._release, held)

    def _release(self, held: _Held[T]) -> None:
        with self._changed:
            held.users -= 1
            if held.stale and not held.users:
                self._bytes -= held.bytes
            self._changed.notify_all()

    def _make_room(self, held: _Held[T], size: int) -> None:
        if size > self._budget:
            raise NotReady(
                "the adapter is larger than the memory this cloud keeps for adapters",
                fix="ask the provider to raise `sotto-cloud serve --adapter-memory`",
                subject="adapter",
            )
        with self._changed:
            if not self._changed.wait_for(lambda: self._evict(size - held.bytes), self._patience):
                raise Overloaded(
                    "the cloud's memory is full of adapters that are in use",
                    fix="send the same message again later",
                    subject="adapter",
                )
            self._bytes += size - held.bytes
            held.bytes = size
            self._changed.notify_all()  # it may take less than its files

    def _evict(self, size: int) -> bool:
        """Remove unused adapters, and return whether ``size`` more bytes fit."""
        for files in [f for f, held in self._held.items() if not held.users]:
            if self._bytes + size <= self._budget:
                break
            self._drop(files)
            self._metrics.evictions.inc()
        return self._bytes + size <= self._budget

    def _forget_deleted(self) -> None:
        now = time.monotonic()
        if now - self._swept > SWEEP:
            self._swept = now
            gone = [files for files in self._held if files.gone]
            for files in gone:
                self._drop(files)

    def _drop(self, files: AdapterFiles) -> None:
        held = self._held.pop(files)
        held.stale = True
        if not held.users:
            self._bytes -= held.bytes


def _size(folder: Path) -> int:
    """Return an adapter's estimated size, from its files."""
    try:
        return sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    except OSError as error:
        raise damaged() from error


_SERVED: Final = {
    "classification": ("backbone", "write, and has no labels", "have it write: `sotto generate`"),
    "generation": ("decoder", "classify, and does not write", "ask it for predictions"),
}
"""By task: the name of its model, the use of the other task's adapters, and the remedy."""


def opened(folder: Path, task: str, sha256: str) -> Adapter:
    """Return the adapter in ``folder``, for a server with one model.

    Args:
        task, sha256: of the server's model.

    Raises:
        NotReady: the adapter has the other task. BundleMismatch: it belongs to another model.
        DataLoss, SottovoceError: see `adapters.load`.
    """
    model, other, fix = _SERVED[task]
    adapter = adapters.load(folder)
    if adapter.task != task:
        raise NotReady(f"the adapter was trained to {other}", fix=fix, subject="adapter")
    if adapter.backbone_sha256 != sha256:
        raise BundleMismatch(
            f"the adapter was trained on another {model} than this server runs",
            fix=f"customise again, or start the server with the adapter's --{model}",
            subject="adapter",
        )
    return adapter


def check_bundle(asked: str, trained: str) -> None:
    """Raise `BundleMismatch` unless a text's bundle ``asked`` is the adapter's ``trained``."""
    if asked != trained:
        raise BundleMismatch(
            f"the adapter was trained on bundle {trained}, not on the text's",
            fix="customise again with the bundle the device holds now",
            subject="bundle_id",
        )
