"""The bundle's words, id to word and word to id, straight from the mapped file.

As Python strings in a list and a dictionary, 20,000 words take 3 MB and 400,000 take 60 MB in every
process. Here the text stays in the file, which all processes share. A process keeps sixteen bytes a
word: where it begins, and its hash among the sorted hashes.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sottovoce.core.platform.memory import map_bytes
from sottovoce.core.platform.threads import opening


class WordList(Sequence[str]):
    """The lines of a UTF-8 file; a word's id is its place.

    Raises:
        OSError: the file cannot be mapped. ValueError: it is empty.
    """

    def __init__(self, path: Path) -> None:
        self._text = map_bytes(path)
        ends = np.flatnonzero(np.frombuffer(self._text, np.uint8) == ord("\n"))
        self._ends = array("I", ends.astype(np.uint32).tobytes())

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return self.take(range(*place.indices(len(self))))
        if place < 0:
            place += len(self)
        if not 0 <= place < len(self):
            raise IndexError(place)
        return self.take([place])[0]

    def take(self, places: Iterable[int]) -> list[str]:
        """Return the words at many places, each in 0 .. words - 1."""
        text, ends = self._text, self._ends
        return [
            text[ends[place - 1] + 1 if place else 0 : ends[place]].decode() for place in places
        ]

    def __iter__(self) -> Iterator[str]:
        return (self.take([place])[0] for place in range(len(self)))


class WordIds(Mapping[str, int]):
    """The ids of a list's words; a word that is there twice has the first id."""

    def __init__(self, words: WordList) -> None:
        hashes = np.fromiter(map(hash, words), np.int64, len(words))
        order = np.argsort(hashes, kind="stable")
        self._words = words
        self._hashes = hashes[order]
        self._ids = order.astype(np.int32)

    def __getitem__(self, word: str) -> int:
        found = self.get(word)
        if found is None:
            raise KeyError(word)
        return found

    def get(self, word: str, default: int | None = None) -> int | None:  # type: ignore[override]
        """As `dict.get`, because Mapping's own would raise and catch for every unknown word."""
        wanted = hash(word)
        found = self._among(word, wanted, int(np.searchsorted(self._hashes, wanted)))
        return default if found < 0 else found

    def of(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Return the ids of many words at once, -1 for words that are not listed."""
        wanted = np.fromiter(map(hash, words), np.int64, len(words))
        places = np.searchsorted(self._hashes, wanted)
        near = np.minimum(places, len(self._hashes) - 1)
        alike = self._hashes[near] == wanted
        found = np.where(alike, self._ids[near], -1).astype(np.int32)
        likely = np.flatnonzero(alike)
        listed = self._words.take(found[likely].tolist())
        for place, word in zip(likely.tolist(), listed, strict=True):
            if word != words[place]:  # two words, one hash
                found[place] = self._among(words[place], int(wanted[place]), int(places[place]))
        return found

    def _among(self, word: str, wanted: int, place: int) -> int:
        """Return which of the words from ``place`` on with the same hash it is, -1 if none."""
        while place < len(self._hashes) and self._hashes[place] == wanted:
            if self._words[self._ids[place]] == word:
                return int(self._ids[place])
            place += 1
        return -1

    def __len__(self) -> int:
        return len(self._words)

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)


_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class RowFile:
    """The rows of a ``.npy`` file. Safe to share between threads.

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
