"""How often words are written, from public text: what ships with the device, of its own.

Why it is here: a level is a claim about everyday text. A device that took the words' frequencies
from whoever makes the claim could not hold anyone to it. The table is cut from the one that bundles
are built with (`sotto-models device-counts`): the commonest words, and how often any other was met.
"""

from __future__ import annotations

import gzip
import heapq
import json
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import DataLoss
from sottovoce.core.text.tagger import UPOS

__all__ = ["Counted", "PublicCounts", "commonest", "normal_form"]

_FOLDER: Final = "sottovoce.core.text"
_FORMAT: Final = "device-counts.v1"


class Counted(Protocol):
    """What a table of words counted by part of speech gives; one entry a (word, clitic, tag)."""

    @property
    def words(self) -> tuple[str, ...]:
        """In normal form."""

    @property
    def clitics(self) -> NDArray[np.bool_]:
        """(n,) whether the entry counts the word as a clitic."""

    @property
    def tags(self) -> NDArray[np.uint8]:
        """(n,) positions in `UPOS`."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """(n,) times met."""

    def normal_form(self, word: str) -> str:
        """The form in which ``word`` is counted."""


@dataclass(frozen=True, slots=True)
class PublicCounts:
    """The table that ships for one language.

    Attributes:
        language: its code, as bundles name it.
        accents: whether words that differ in accents alone are counted apart.
        words, clitics, tags, counts: see `Counted`.
        tail: how often a word that is not in the table was met, on average.
        listed: the reading of words that a public list gives one whatever they were counted as:
            what states a fact or an origin of somebody, and number words.
    """

    language: str
    accents: bool
    words: tuple[str, ...]
    clitics: NDArray[np.bool_]
    tags: NDArray[np.uint8]
    counts: NDArray[np.int64]
    tail: float
    listed: dict[str, str]

    def normal_form(self, word: str) -> str:
        """See `normal_form`."""
        return normal_form(word, accents=self.accents)

    @classmethod
    def shipped(cls, language: str) -> Self | None:
        """The one for ``language``, None where none ships.

        Raises:
            DataLoss: this installation's is damaged.
        """
        file = resources.files(_FOLDER) / f"counts.{language}.tsv.gz"
        if not language.isalpha() or not file.is_file():
            return None
        try:
            return cls.unpack(file.read_bytes())
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise DataLoss(
                "the word counts that ship with the agent cannot be read",
                fix="install sottovoce-edge again",
                subject="counts",
            ) from error

    def pack(self) -> bytes:
        """As a file: a line of JSON, then a line a word."""
        about = {
            "format": _FORMAT,
            "language": self.language,
            "accents": self.accents,
            "tail": self.tail,
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
        """Reads what `pack` wrote.

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
    """The ``n`` words of a language that are met most often; none where no counts ship for it.

    Read line by line: nobody who asks for this needs the table in memory.

    Raises:
        DataLoss: this installation's counts are damaged.
    """
    file = resources.files(_FOLDER) / f"counts.{language}.tsv.gz"
    if not language.isalpha() or not file.is_file():
        return frozenset()
    counts: dict[str, int] = {}
    try:
        with file.open("rb") as raw, gzip.open(raw, "rt", encoding="utf-8") as lines:
            next(lines)
            for line in lines:
                word, *rest = line.split("\t")
                if len(rest) == 2:
                    counted = sum(map(int, rest[1].split()[1::2]))
                    counts[word] = counts.get(word, 0) + counted
    except (OSError, EOFError, ValueError, StopIteration) as error:
        raise DataLoss(
            "the word counts that ship with the agent cannot be read",
            fix="install sottovoce-edge again",
            subject="counts",
        ) from error
    return frozenset(heapq.nlargest(n, counts, key=lambda word: counts[word]))


def normal_form(word: str, *, accents: bool) -> str:
    """The form in which a word is counted: small letters, a plain apostrophe, and accents only
    where the language keeps them.

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
