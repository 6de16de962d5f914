"""Threads and open files: checks that there are enough, a pool that copes with few, and signals.

Without the checks, programs fail in misleading ways. A library that cannot open an intact file
reports it as damaged, which suggests the wrong fix. If gRPC finds no thread at the start, it ends
the process. If it finds none later, it stops answering for good, even when threads are free again.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Final

from sottovoce.core.errors import NotReady

_log = logging.getLogger(__name__)
_EACH: Final = 1_000
"""One in this many failed thread starts is logged."""


class Threads(ThreadPoolExecutor):
    """A pool that continues with the threads it has; it starts one at once.

    Raises:
        RuntimeError: not even the first thread could be started.
    """

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most, thread_name_prefix=name)
        self._missed = 0
        self._name = name
        self.submit(int).result()

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise
            if self._missed % _EACH == 0:
                _log.warning("the machine has no more threads: calls wait for %s", self._name)
            self._missed += 1


def join(threads: Iterable[Thread], seconds: float) -> None:
    """Wait until all of ``threads`` that were started have ended, ``seconds`` at most together."""
    until = time.monotonic() + seconds
    for thread in threads:
        if thread.is_alive():
            thread.join(max(0.0, until - time.monotonic()))


class Ending:
    """Takes over SIGTERM and SIGINT for the rest of the process; only for its main thread."""

    def __init__(self) -> None:
        self._arrives, self._departs = os.pipe()
        os.set_blocking(self._departs, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        # Written to by the C handler, in whatever thread it runs.
        signal.set_wakeup_fd(self._departs, warn_on_full_buffer=False)

    def set(self) -> None:
        """End the wait as a signal does; for any thread, any number of times."""
        with suppress(BlockingIOError):  # full: the wait ends anyway
            os.write(self._departs, b"\0")

    def wait(self) -> signal.Signals | None:
        """Return the first signal, or None after `set`; at once if it came before."""
        number = os.read(self._arrives, 1)[0]
        return signal.Signals(number) if number else None


FILES: Final = 64
"""Open files at once: a command has up to twenty."""
DAEMON_FILES: Final = 256
"""A daemon's open files: two dozen at the start, and one connection a caller."""
_ENOUGH_FILES: Final = 1_024
"""The limit of most systems; programs started from here may not be written for more."""
THREADS: Final = 48
"""Threads of a daemon itself, of its libraries, and of some calls at once."""
_STACK: Final = 256 << 10
"""The stack of each trial thread; the trial counts threads, not reserved memory."""


def room_for_files(files: int = FILES) -> None:
    """Raise the limit of open files to the most that this process may set.

    Raises:
        NotReady: fewer than ``files`` (subject "files").
    """
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH_FILES if most == resource.RLIM_INFINITY else min(_ENOUGH_FILES, most)
    if least != resource.RLIM_INFINITY and least < wanted:
        with suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            least = wanted
    if least != resource.RLIM_INFINITY and least < files:
        raise _too_few_files(f"only {least} files may be open at once here, and {files} are needed")


@contextmanager
def opening() -> Iterator[None]:
    """Report a file that could not be opened because of the limit as `NotReady`, not as damaged.

    Raises:
        NotReady: this process, or the machine, has as many files open as it may (subject "files").
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise _too_few_files("as many files are open here as may be") from error
        raise


def room_for_threads(threads: int = THREADS) -> None:
    """Check that this many more threads can run at once, by starting them for a moment.

    Raises:
        NotReady: fewer can (subject "threads").
    """
    over = threading.Event()
    had = []
    before = threading.stack_size(_STACK)
    try:
        for _ in range(threads):
            thread = threading.Thread(target=over.wait, daemon=True)
            thread.start()
            had.append(thread)
    except (RuntimeError, MemoryError) as error:
        raise NotReady(
            f"only {len(had)} more threads may be had here, and {threads} are needed",
            fix="raise the limit of this user, container or service (`ulimit -u`, "
            "`--pids-limit`, `TasksMax=`; `ulimit -v`, where memory is limited)",
            subject="threads",
        ) from error
    finally:
        threading.stack_size(before)
        over.set()
        for thread in had:
            thread.join()


def _too_few_files(problem: str) -> NotReady:
    return NotReady(
        problem,
        fix="raise the limit of this user, container or service (`ulimit -n`, "
        "`--ulimit nofile=`, `LimitNOFILE=`)",
        subject="files",
    )
