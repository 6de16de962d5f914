"""Reads single rows of a large array from its file.

A query needs a few hundred rows of a table of megabytes. Through a memory map, each row makes the
kernel map sixteen pages, so that most of the table is soon resident. Read with pread(2), a row
takes only its own bytes.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sottovoce.core.system.limits import opening

__all__ = ["RowFile"]

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class RowFile:
    """The rows of a ``.npy`` file. Safe to share between threads.

    Attributes:
        shape: of the array.
        dtype: of its elements.

    Raises:
        OSError: it cannot be opened. ValueError: it is no array of rows, or cut short. NotReady:
            see `opening`.
    """

    def __init__(self, path: Path) -> None:
        with opening():
            self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        with open(self._file, "rb", closefd=False) as file:
            read = _HEADERS.get(npy.read_magic(file))
            if read is None:
                raise ValueError(f"{path.name} is of another version")
            self.shape: tuple[int, ...]
            self.dtype: np.dtype[Any]
            self.shape, fortran, self.dtype = read(file)
            self._begin = file.tell()
            size = file.seek(0, os.SEEK_END)
        if len(self.shape) != 2 or fortran or self.dtype.hasobject:
            raise ValueError(f"{path.name} has no rows")
        self._step = self.shape[1] * self.dtype.itemsize
        if size < self._begin + self.shape[0] * self._step:
            raise ValueError(f"{path.name} is cut short")

    def sha256(self) -> str:
        """Return the SHA-256 of the open file, in hexadecimal.

        It is of the opened file even if another file now has its name.
        """
        with open(self._file, "rb", closefd=False) as file:
            file.seek(0)
            return hashlib.file_digest(file, "sha256").hexdigest()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, places: NDArray[np.int64] | Sequence[int]) -> NDArray[Any]:
        """Return the rows (n, width) at ``places``, each in 0 .. rows - 1."""
        parts = [
            os.pread(self._file, self._step, self._begin + int(place) * self._step)
            for place in places
        ]
        return np.frombuffer(b"".join(parts), self.dtype).reshape(len(parts), self.shape[1])
