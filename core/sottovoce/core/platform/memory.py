"""Keeps the daemon's resident memory to the amount that serving needs.

On a board with a gigabyte, every process's memory counts. Python's imports and onnxruntime's
registration of operators map library code that stays resident, although half is never run again.
The C library keeps an arena for each thread that ever allocated. Once it has seen large blocks
freed, it puts the next ones among small blocks, which keep their pages from being returned.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.platform.threads import opening

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


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # mallopt(3)
_LARGE: Final = 256 << 10
_MAPPING: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+\s*(/.*)")
_RTLD_DI_LINKMAP: Final = 2  # dlinfo(3)
_AT_PHDR: Final = 3  # getauxval(3)

_ENOUGH: Final = 76 * 10**6
"""Bytes that texts alone need; a process with fewer resident is left alone."""
_GROWN: Final = 4 * 10**6
"""Growth in bytes that makes another release worth its 20 ms."""

_libraries: Final[dict[str, ctypes.CDLL]] = {}
"""Libraries by path; a handle keeps each at its address, even if other code closes it."""


_left = 0
"""Bytes that were resident after the last release."""


class _Header(ctypes.Structure):
    """``Elf64_Ehdr`` of elf(5), as far as needed."""

    _fields_ = (
        ("identity", ctypes.c_char * 16),
        ("kind", ctypes.c_uint16 * 2),
        ("version", ctypes.c_uint32),
        ("entry", ctypes.c_uint64),
        ("segments", ctypes.c_uint64),
        ("sections", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("sizes", ctypes.c_uint16 * 2),
        ("number", ctypes.c_uint16),
    )


class _Segment(ctypes.Structure):
    """``Elf64_Phdr`` of elf(5)."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("physical", ctypes.c_uint64),
        ("file_bytes", ctypes.c_uint64),
        ("memory_bytes", ctypes.c_uint64),
        ("alignment", ctypes.c_uint64),
    )


class _Mapping(NamedTuple):
    """A mapping of a file in memory, from ``start`` to ``end``.

    It also says whether the mapping is executable, and whether its resident pages are the file's
    own, unchanged.
    """

    path: str
    start: int
    end: int
    code: bool
    as_in_file: bool


def bound_heap(large: int = _LARGE, arenas: int = 1) -> None:
    """Make the C library return large blocks at once; call before there are threads.

    Does nothing where it is not glibc.

    Args:
        large: bytes of a block that is returned, and of free heap at its end.
        arenas: the most arenas, which threads share.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, arenas)
        mallopt(_M_MMAP_THRESHOLD, large)
        mallopt(_M_TRIM_THRESHOLD, large)


def give_back() -> None:
    """Return free heap, and the resident pages of files, to the system.

    From libraries it returns only code and constants that were not changed in memory. These pages
    stay in the system's cache and are mapped again, without a read, when next used. Without
    ``/proc`` it can return little.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    unload()
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return
    bases: dict[str, int] = {}
    unchanged: set[tuple[int, int]] = set()
    libraries: set[str] = set()
    for mapping in _mappings():
        bases.setdefault(mapping.path, mapping.start)
        if mapping.code:
            libraries.add(mapping.path)
        if mapping.as_in_file:
            unchanged.add((mapping.start, mapping.end))
    # A listed mapping may be gone by now, and another thread's mapping in its place (a stack,
    # say) would be emptied. So only libraries that the loader holds for good are touched. The
    # loader is asked about code alone, because it may open and close the file. Closing any
    # descriptor of a database would drop SQLite's locks on it (fcntl(2)).
    program = _program()
    for path in libraries:
        if bases[path] in (program, _held(path)):
            for start, end in unchanged.intersection(_stretches(bases[path])):
                libc.madvise(
                    ctypes.c_size_t(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED
                )


def give_back_if_grown() -> None:
    """Call `give_back` if more is resident than texts need and than after the last release."""
    global _left
    if _resident() > max(_ENOUGH, _left + _GROWN):
        give_back()
        _left = _resident()


def _resident() -> int:
    """Return the resident bytes; 0 without ``/proc``."""
    try:
        with open("/proc/self/statm", encoding="ascii") as sizes:
            return int(sizes.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def _program() -> int:
    """Return the address of the program itself, which has no loader handle; 0 if unknown."""
    getauxval = getattr(ctypes.CDLL(None), "getauxval", None)
    if getauxval is None:
        return 0
    getauxval.restype, getauxval.argtypes = ctypes.c_ulong, (ctypes.c_ulong,)
    segments = int(getauxval(_AT_PHDR))
    return segments - ctypes.sizeof(_Header) if segments else 0  # as linkers lay them out


def _held(path: str) -> int:
    """Return the address of a library, and keep the library loaded; 0 for other files."""
    if path not in _libraries:
        with suppress(OSError):
            _libraries[path] = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    if path not in _libraries:
        return 0
    map_ = ctypes.POINTER(ctypes.c_uint64)()  # struct link_map, of which the base comes first
    handle = ctypes.c_void_p(_libraries[path]._handle)
    if ctypes.CDLL(None).dlinfo(handle, _RTLD_DI_LINKMAP, ctypes.byref(map_)) != 0:
        return 0
    return int(map_[0])


def _stretches(base: int) -> Iterator[tuple[int, int]]:
    """Return start and end of each piece of a library that lies at ``base``, in whole pages."""
    header = _Header.from_address(base)
    for segment in (_Segment * header.number).from_address(base + header.segments):
        start = base + segment.address
        end = start + segment.file_bytes
        yield start - start % mmap.PAGESIZE, end + -end % mmap.PAGESIZE


def _mappings() -> Iterator[_Mapping]:
    """Return all mappings of files, by address."""
    try:
        with open("/proc/self/smaps", encoding="utf-8", errors="replace") as smaps:
            lines = smaps.readlines()
    except OSError:
        return
    here: re.Match[str] | None = None
    resident = False
    for line in lines:
        if not line[0].isupper():  # as the figures' names are; twice as fast as to look for more
            here = _MAPPING.fullmatch(line.rstrip("\n"))
        elif here is None:
            continue
        elif line.startswith("Rss:"):
            resident = line.split()[1] != "0"
        elif line.startswith("Anonymous:"):
            own = line.split()[1] != "0"
            as_in_file = resident and not own and "w" not in here[3]
            code = "x" in here[3]
            yield _Mapping(here[4], int(here[1], 16), int(here[2], 16), code, as_in_file)
