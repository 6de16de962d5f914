"""The start of a program: an interrupt during imports ends it without a traceback.

This module imports nothing heavy, because an interrupt before `run` cannot be handled.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as in shells: 128 plus the number of the signal."""


def run(module: str) -> None:
    """Import ``module`` and call its ``main``.

    Until a command starts, an interrupt ends the process at once. An exception would not do:
    extension modules and finalisers swallow exceptions while they are imported.
    """
    _open_streams()
    # A process in the background of a shell ignores interrupts, and goes on doing so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    import_module(module).main()


def _open_streams() -> None:
    """Open the null device for each standard stream that the caller has closed.

    Otherwise the next file would take the stream's number, and prints could go there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest free number, so the stream's
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace"))


def raise_interrupts() -> None:
    """Have interrupts raise KeyboardInterrupt from now on, if `run` started the program."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(INTERRUPTED)
