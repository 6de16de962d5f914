"""Public words and their frequencies and readings, which ship with the device.

A level is a claim about everyday text. A device that took the frequencies from the provider could
not check the provider's claim. The table is cut from the builder's larger table (`sotto-models
device-counts`). It holds the commonest words, and the average count of all others.

A bundle gives each of its words a reading, and the reading decides whether the word passes, gets
noise or is drawn. A provider could list a private name as a noun or a pronoun. So the device holds
every reading against the public ones. The list leaves out words that are always drawn (names,
number words, origins): the device draws a word that is not listed.
"""

from __future__ import annotations

import gzip
import heapq
import json
import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import DataLoss
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.word_classes import READINGS

_FOLDER: Final = "sottovoce.core.text"
_FORMAT: Final = "device-counts.v1"
_Read = TypeVar("_Read")


class Counted(Protocol):
    """The words of a table, counted by part of speech; one entry a (word, clitic, tag)."""

    @property
    def words(self) -> tuple[str, ...]:
        """Words in normal form."""

    @property
    def clitics(self) -> NDArray[np.bool_]:
        """(n,) whether the entry counts the word as a clitic."""

    @property
    def tags(self) -> NDArray[np.uint8]:
        """(n,) positions in `UPOS`."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """(n,) counts."""

    def normal_form(self, word: str) -> str:
        """Return the form in which ``word`` is counted."""


@dataclass(frozen=True, slots=True)
class PublicCounts:
    """The table that ships for one language.

    Attributes:
        language: its code, as in bundles.
        accents: whether words that differ in accents alone are counted apart.
        words, clitics, tags, counts: see `Counted`.
        tail: the average count of a word that is not in the table.
        rare: the number of words that were cut off. More words share their occurrences.
        listed: words whose reading is fixed by a public list, whatever their counts: words that
            state a fact or an origin of a person, and number words.
    """

    language: str
    accents: bool
    words: tuple[str, ...]
    clitics: NDArray[np.bool_]
    tags: NDArray[np.uint8]
    counts: NDArray[np.int64]
    tail: float
    listed: dict[str, str]
    rare: int = 1 << 20

    def tail_of(self, words: int) -> float:
        """Return the average count of an unlisted word, if there are ``words`` of them."""
        return self.tail * min(1.0, self.rare / max(1, words))

    def normal_form(self, word: str) -> str:
        """See `normal_form`."""
        return normal_form(word, accents=self.accents)

    @classmethod
    def shipped(cls, language: str) -> Self | None:
        """Return the table for ``language``; None if none ships.

        Raises:
            DataLoss: the table of this installation is damaged.
        """
        return read_shipped("counts", language, lambda file: cls.unpack(file.read_bytes()))

    def pack(self) -> bytes:
        """Return the table as a file: a line of JSON, then a line a word."""
        about = {
            "format": _FORMAT,
            "language": self.language,
            "accents": self.accents,
            "tail": self.tail,
            "rare": self.rare,
        }
        rows: dict[tuple[str, bool], list[str]] = {}
        entries = zip(self.words, self.clitics.tolist(), self.tags, self.counts, strict=True)
        for word, clitic, tag, count in entries:
            rows.setdefault((word, clitic), []).append(f"{UPOS[tag]} {count}")
        lines = [json.dumps(about)]
        lines += [
            f"{word}\t{clitic:d}\t{' '.join(found)}" for (word, clitic), found in rows.items()
        ]
        lines += [f"{word}\t{reading}" for word, reading in self.listed.items()]
        return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Read the file that `pack` wrote.

        Raises:
            OSError, EOFError, ValueError, KeyError, TypeError: it is something else.
        """
        first, *lines = gzip.decompress(data).decode().splitlines()
        about = json.loads(first)
        if about.pop("format") != _FORMAT:
            raise ValueError("format")
        words: list[str] = []
        clitics, tags, counts = [], [], []
        listed: dict[str, str] = {}
        places = {tag: place for place, tag in enumerate(UPOS)}
        for line in lines:
            word, *rest = line.split("\t")
            if len(rest) == 1:
                listed[word] = rest[0]
                continue
            attached, found = rest
            numbers = found.split(" ")
            for tag, count in zip(numbers[::2], numbers[1::2], strict=True):
                words.append(word)
                clitics.append(attached == "1")
                tags.append(places[tag])
                counts.append(int(count))
        return cls(
            words=tuple(words),
            clitics=np.array(clitics, np.bool_),
            tags=np.array(tags, np.uint8),
            counts=np.array(counts, np.int64),
            listed=listed,
            **about,
        )


@cache
def commonest(language: str, n: int) -> frozenset[str]:
    """Return the ``n`` commonest words of a language; none where no counts ship for it.

    The file is read line by line, because the caller does not need the table in memory.

    Raises:
        DataLoss: this installation's counts are damaged.
    """

    def count(file: Traversable) -> dict[str, int]:
        counts: dict[str, int] = {}
        with file.open("rb") as raw, gzip.open(raw, "rt", encoding="utf-8") as lines:
            next(lines)
            for line in lines:
                word, *rest = line.split("\t")
                if len(rest) == 2:
                    counted = sum(map(int, rest[1].split()[1::2]))
                    counts[word] = counts.get(word, 0) + counted
        return counts

    counts = read_shipped("counts", language, count) or {}
    return frozenset(heapq.nlargest(n, counts, key=lambda word: counts[word]))


def read_shipped(what: str, language: str, read: Callable[[Traversable], _Read]) -> _Read | None:
    """Read a list that ships with the device; None if none ships for the language.

    Args:
        what: the list, "counts" or "readings".
        read: reads the file.

    Raises:
        DataLoss: the list of this installation is damaged.
    """
    file = resources.files(_FOLDER) / f"{what}.{language}.tsv.gz"
    if not language.isalpha() or not file.is_file():
        return None
    try:
        return read(file)
    except (OSError, EOFError, ValueError, KeyError, TypeError, StopIteration) as error:
        raise DataLoss(
            f"the word {what} that ship with the agent cannot be read",
            fix="install sottovoce-edge again",
            subject=what,
        ) from error


def normal_form(word: str, *, accents: bool) -> str:
    """Return the form in which a word is counted.

    It has small letters, a plain apostrophe, and accents only where the language keeps them.

    >>> normal_form("Café’s", accents=False), normal_form("Schön", accents=True)
    ("cafe's", 'schön')
    """
    if word.isascii():
        return word.lower()  # the same, and faster
    word = word.replace("’", "'")
    if accents:
        # Letter by letter, as tokenizers do: no letter depends on its place in the word.
        return "".join(c.lower() for c in unicodedata.normalize("NFC", word))
    apart = unicodedata.normalize("NFD", word)
    return "".join(c.lower() for c in apart if unicodedata.category(c) != "Mn")


_READINGS_FORMAT: Final = "device-readings.v1"
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
        """Return the list of ``language``; None if none ships.

        Raises:
            DataLoss: the list of this installation is damaged.
        """
        return read_shipped("readings", language, lambda file: cls.unpack(file.read_bytes()))

    def __len__(self) -> int:
        return sum(len(each.split()) for each in self.words.values())

    def lines(self) -> str:
        """Return the list as a file that is searched without loading it, see `trust`.

        A reading has a line that begins with a tab. Its words follow, each in a line.
        """
        parts = ((f"\t{name}", *words.split()) for name, words in self.words.items())
        return "".join(f"{line}\n" for lines in parts for line in lines)

    def pack(self) -> bytes:
        """The list as a file: a line of JSON, then a line for each reading."""
        about = {"format": _READINGS_FORMAT, "language": self.language, "accents": self.accents}
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
        if about.pop("format") != _READINGS_FORMAT:
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
