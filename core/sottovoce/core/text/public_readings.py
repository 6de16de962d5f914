"""How public words read by themselves: a list that ships with the device.

A bundle gives each of its words a reading, and the reading decides whether the word passes, gets
noise or is drawn. A provider could list a private name as a noun or a pronoun. So the device holds
every reading against this list. `sotto-models device-counts` makes it from the public texts that
bundles are built from.

Words that are always drawn (names, number words, origins) are left out: the device draws a word
that is not in the list as well.
"""

from __future__ import annotations

import gzip
import json
import re
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.text.frequencies import normal_form, read_shipped
from sottovoce.core.text.word_classes import READINGS

__all__ = ["PublicReadings"]

_FORMAT: Final = "device-readings.v1"
_WORD: Final = re.compile("[^ ]+")


@dataclass(frozen=True, slots=True)
class PublicReadings:
    """The list of one language.

    Attributes:
        language: its code, as bundles name it.
        accents: see `normal_form`.
        words: the words of each reading, in normal form, separated by spaces.
    """

    language: str
    accents: bool
    words: Mapping[str, str]

    @classmethod
    def shipped(cls, language: str) -> Self | None:
        """The list of ``language``; None where none ships.

        Raises:
            DataLoss: the list of this installation is damaged.
        """
        return read_shipped("readings", language, lambda file: cls.unpack(file.read_bytes()))

    def __len__(self) -> int:
        return sum(len(each.split()) for each in self.words.values())

    def lines(self) -> str:
        """The list as a file that is searched where it lies, see `trust`.

        A reading has a line that begins with a tab. Its words follow, each in a line.
        """
        parts = ((f"\t{name}", *words.split()) for name, words in self.words.items())
        return "".join(f"{line}\n" for lines in parts for line in lines)

    def pack(self) -> bytes:
        """The list as a file: a line of JSON, then a line for each reading."""
        about = {"format": _FORMAT, "language": self.language, "accents": self.accents}
        lines = [json.dumps(about), *(f"{name}\t{words}" for name, words in self.words.items())]
        return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """The list in a file that `pack` wrote.

        Raises:
            OSError, EOFError, ValueError, KeyError, TypeError: the file is something else.
        """
        first, *lines = gzip.decompress(data).decode().splitlines()
        about = json.loads(first)
        if about.pop("format") != _FORMAT:
            raise ValueError("format")
        return cls(words=dict(line.split("\t") for line in lines), **about)

    def of(self, words: Iterable[str]) -> NDArray[np.uint8]:
        """The readings of ``words``.

        Returns:
            Ints1d (n,), places in ``(*READINGS, UNLISTED)``.
        """
        number: dict[str, int] = {}
        which = array("I")
        for word in words:
            form = normal_form(word, accents=self.accents)
            which.append(number.setdefault(form, len(number)))
        found = np.full(len(number), len(READINGS), np.uint8)
        for reading, listed in self.words.items():
            value = READINGS.index(reading)
            for match in _WORD.finditer(listed):  # one by one: a list would take megabytes
                if (place := number.get(match[0])) is not None:
                    found[place] = value
        return found[np.frombuffer(which, np.uint32)] if which else found

    @property
    def clitics(self) -> frozenset[str]:
        """The endings that are cut off as words."""
        return frozenset(self.words.get("CLITIC", "").split())
