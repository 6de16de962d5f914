"""Checks for free threads and open files before work begins.

Without the check, programs fail in misleading ways. A library that cannot open an intact file
reports it as damaged, which suggests the wrong fix. If gRPC finds no thread at the start, it ends
the process. If it finds none later, it stops answering for good, even when threads are free again.
"""

from __future__ import annotations

import errno
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sottovoce.core.errors import NotReady

__all__ = ["DAEMON_FILES", "FILES", "THREADS", "opening", "room_for_files", "room_for_threads"]

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
    """Tell a file that could not be opened at the limit from one that is damaged.

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
