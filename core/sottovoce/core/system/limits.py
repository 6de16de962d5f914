"""Room for threads and open files, looked at before anything is begun.

Why it is here: without it programs fail where nobody expects them to. A library that cannot open a
sound file says that it is damaged, and the remedy for that would be the wrong one. gRPC's ends the
process where it finds no thread for itself at the start, or answers nobody later on, with all the
room there may be by then.
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
"""Open at once: a command has up to twenty."""
DAEMON_FILES: Final = 256
"""A daemon's: two dozen before anybody calls, and a connection a caller."""
_ENOUGH_FILES: Final = 1_024
"""What most systems give: programs that are run from here may be made for no more."""
THREADS: Final = 48
"""A daemon's own, those of the libraries it stands on, and of some calls at once."""
_STACK: Final = 256 << 10
"""Of each that is tried: it is their number that counts, and not what they would reserve."""


def room_for_files(files: int = FILES) -> None:
    """Lets this process open as many files as it may have asked for itself.

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
    """Tells a file that could not be opened for want of room from one that is damaged.

    Raises:
        NotReady: as many files are open as this process, or the machine, may have (subject
            "files").
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise _too_few_files("as many files are open here as may be") from error
        raise


def room_for_threads(threads: int = THREADS) -> None:
    """Makes sure that so many more threads may be had at once, by having them for a moment.

    Raises:
        NotReady: fewer may (subject "threads").
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
