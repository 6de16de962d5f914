"""Keeps the daemon's resident memory to what serving needs.

Why it is here: on a board with a gigabyte, what a process holds counts. Half the library code that
is mapped while Python imports and onnxruntime registers its operators is never run again, yet stays
resident; and the C library keeps an arena for each thread that ever allocated, and, once it has
seen large blocks freed, puts the next ones where small ones keep their pages from being returned.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator

__all__ = ["bound_heap", "give_back"]

_MADV_DONTNEED = 4
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # mallopt(3)
_LARGE = 256 << 10
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+\s*(/.*)?")


def bound_heap() -> None:
    """Makes the C library return large blocks at once; call before there are threads.

    Does nothing where it is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        mallopt(_M_TRIM_THRESHOLD, _LARGE)


def give_back() -> int:
    """Returns free heap, and the resident pages of read-only files, to the system.

    Only mappings that cannot be written and hold no page of their own are touched: their pages stay
    in the system's cache and are mapped again, without a read, when next used.

    Returns:
        Bytes that were resident before and are not after. 0 where there is no ``/proc``.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    if not sys.platform.startswith("linux"):
        return 0
    given = 0
    for start, length, resident in _read_only_files():
        if libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _MADV_DONTNEED) == 0:
            given += resident
    return given


def _read_only_files() -> Iterator[tuple[int, int, int]]:
    """Start, length and resident bytes of every mapped file without private pages."""
    try:
        with open("/proc/self/smaps", encoding="utf-8", errors="replace") as smaps:
            lines = smaps.readlines()
    except OSError:
        return
    here: re.Match[str] | None = None
    resident = 0
    for line in lines:
        if found := _MAPPING.fullmatch(line.rstrip("\n")):
            here, resident = found, 0
        elif here is None or not here[4] or "w" in here[3]:
            continue
        elif line.startswith("Rss:"):
            resident = int(line.split()[1]) << 10
        elif line.startswith("Anonymous:") and line.split()[1] == "0" and resident:
            start, end = int(here[1], 16), int(here[2], 16)
            yield start, end - start, resident
