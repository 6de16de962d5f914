"""Room for threads and open files, looked at before anything is begun.

Why it is here: without it programs fail where nobody expects them to. A library that cannot open a
sound file says that it is damaged, and the remedy for that would be the wrong one. gRPC's ends the
process where it finds no thread for itself at the start, or answers nobody later on, with all the
room there may be by then.
"""

from __future__ import annotations

import resource
import threading
from typing import Final

from sottovoce.core.errors import NotReady

__all__ = ["FILES", "THREADS", "room_for_files", "room_for_threads"]

FILES: Final = 64
"""Open at once: a command has up to twenty."""
_ENOUGH_FILES: Final = 1_024
"""What most systems give: programs that are run from here may be made for no more."""
THREADS: Final = 48
"""A daemon's own, those of the libraries it stands on, and of some calls at once."""


def room_for_files() -> None:
    """Lets this process open as many files as it may have asked for itself.

    Raises:
        NotReady: fewer than `FILES` (subject "files").
    """
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    known = most != resource.RLIM_INFINITY
    wanted = min(_ENOUGH_FILES, most) if known else _ENOUGH_FILES
    if least != resource.RLIM_INFINITY and least < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    if wanted < FILES:
        raise NotReady(
            f"only {wanted} files may be open at once here, and {FILES} are needed",
            fix="raise the limit of this user, container or service (`ulimit -n`, "
            "`--ulimit nofile=`, `LimitNOFILE=`)",
            subject="files",
        )


def room_for_threads(threads: int = THREADS) -> None:
    """Makes sure that so many more threads may be had at once, by having them for a moment.

    Raises:
        NotReady: fewer may (subject "threads").
    """
    over = threading.Event()
    had = []
    try:
        for _ in range(threads):
            thread = threading.Thread(target=over.wait, daemon=True)
            thread.start()
            had.append(thread)
    except RuntimeError as error:
        raise NotReady(
            f"only {len(had)} more threads may be had here, and {threads} are needed",
            fix="raise the limit of this user, container or service (`ulimit -u`, "
            "`--pids-limit`, `TasksMax=`)",
            subject="threads",
        ) from error
    finally:
        over.set()
        for thread in had:
            thread.join()
