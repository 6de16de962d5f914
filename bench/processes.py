"""What processes that share out a measurement have in common.

Why it is here: a parent that was killed cannot tell its workers, who would wait for work for ever.
"""

from __future__ import annotations

import os
from multiprocessing import parent_process
from multiprocessing.connection import wait
from threading import Thread

__all__ = ["end_with_parent"]


def end_with_parent() -> None:
    """From now on this process ends when the one that started it does; of a process that nobody
    started so, nothing changes."""
    parent = parent_process()
    if parent is not None:
        Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
