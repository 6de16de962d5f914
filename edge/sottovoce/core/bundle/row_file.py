"""Single rows of a large array, read where they lie in its file.

Why it is here: a query needs a few hundred rows of a table of megabytes. Through a memory map each
of them makes the kernel map sixteen pages, so that most of the table is resident before long; read
with pread(2), they cost what they weigh.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RowFile"]


class RowFile:
    """The rows of a ``.npy`` file. Safe to share between threads.

    Attributes:
        shape: of the array.
        dtype: of its elements.

    Raises:
        OSError: it cannot be opened. ValueError: it is no array of rows, or cut short.
    """

    def __init__(self, path: Path) -> None:
        whole = np.load(path, mmap_mode="r", allow_pickle=False)  # checks header and length
        if whole.ndim != 2 or not whole.flags.c_contiguous:
            raise ValueError(f"{path.name} has no rows")
        self.shape: tuple[int, ...] = whole.shape
        self.dtype: np.dtype[Any] = whole.dtype
        self._begin = whole.offset
        self._step = whole.strides[0]
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, places: NDArray[np.int64] | Sequence[int]) -> NDArray[Any]:
        """Rows (n, width) at ``places``, each in 0 .. rows - 1."""
        parts = [
            os.pread(self._file, self._step, self._begin + int(place) * self._step)
            for place in places
        ]
        return np.frombuffer(b"".join(parts), self.dtype).reshape(len(parts), self.shape[1])
