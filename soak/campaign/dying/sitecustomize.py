"""Wraps what `soak.campaign.moments` names, as it is imported: first of all in every process that
has this folder on its path.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from soak.campaign.moments import FILE, MOMENTS, PROCESS, Moment, happening

_WORKER = "--parent"
_lock = threading.Lock()
_calls: dict[str, int] = {}


class _Wrapping(importlib.abc.MetaPathFinder):
    """Finds what others find, and has it wrapped once it is there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        named = [moment for moment in MOMENTS if moment.place.partition(":")[0] == fullname]
        others = (finder for finder in sys.meta_path if named and finder is not self)
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next(filter(None, found), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def wrapped(module: ModuleType) -> None:
                execute(module)
                for moment in named:
                    wrap(module, moment)

            spec.loader.exec_module = wrapped  # type: ignore[method-assign]
        return spec


def wrap(module: ModuleType, moment: Moment) -> None:
    """Has a process die where ``moment`` says, if it is asked to."""
    *owners, name = moment.place.partition(":")[2].split(".")
    owner: Any = functools.reduce(getattr, owners, module)
    real = vars(owner)[name]
    kind: Callable[..., Any] = type(real) if isinstance(real, classmethod) else lambda made: made
    call = real.__func__ if isinstance(real, classmethod) else real

    @functools.wraps(call)
    def wrapped(*given: Any, **named: Any) -> Any:
        if moment.when == "before":
            _die_at(moment)
        came = call(*given, **named)
        if moment.when == "after":
            _die_at(moment)
        return came

    setattr(owner, name, kind(wrapped))


def _die_at(moment: Moment) -> None:
    process = "worker" if _WORKER in sys.orig_argv else os.environ[PROCESS]
    with _lock:
        if happening(Path(os.environ[FILE]), moment.name, process, _calls):
            os.kill(os.getpid(), signal.SIGKILL)


if FILE in os.environ:
    sys.meta_path.insert(0, _Wrapping())
