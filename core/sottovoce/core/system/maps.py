"""Files that are mapped rather than read, so that the system may keep only the pages in use."""

from __future__ import annotations

import mmap
import threading
import weakref
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.system.limits import opening

__all__ = ["map_array", "map_bytes", "unload"]

_maps: Final = weakref.WeakSet[mmap.mmap]()
_changes: Final = threading.Lock()
"""The lock of the list, because some threads map files while others unload them."""


def map_array(path: Path) -> NDArray[Any]:
    """Return a read-only array over an ``.npy`` file.

    Raises:
        OSError: it cannot be mapped. ValueError: it is no array. NotReady: see `opening`.
    """
    with opening():
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    if isinstance(array.base, mmap.mmap):
        _remember(array.base)
    return array


def map_bytes(path: Path) -> mmap.mmap:
    """Return a file's bytes.

    Raises:
        OSError: it cannot be mapped. ValueError: it is empty. NotReady: see `opening`.
    """
    with opening(), path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _remember(mapping)
    return mapping


def unload() -> None:
    """Unload all resident pages; they are mapped again when next used."""
    if hasattr(mmap, "MADV_DONTNEED"):
        with _changes:
            held = list(_maps)  # which keeps each where it is
        for mapping in held:
            mapping.madvise(mmap.MADV_DONTNEED)


def _remember(mapping: mmap.mmap) -> None:
    with _changes:
        _maps.add(mapping)
