"""The public vocabulary: words that anyone may use, and that say nothing about the writer.

The policy `personal` lets a listed word pass, unless the context makes it a name. The list ships
with the device, so no provider can add a name to it. `sotto-models vocabulary` builds the file.

The file holds sorted blocks of lines, each compressed. A line is a word and its marks. A look-up
unpacks one block and searches its bytes. The blocks are small, because unpacking takes most of the
time. The file is mapped, and has less than 1.4 MB.
"""

from __future__ import annotations

import struct
import unicodedata
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, Self

from sottovoce.core.errors import DataLoss
from sottovoce.core.platform.memory import map_bytes

_MAGIC: Final = b"sotto-vocabulary.v2\n"
_COUNTS: Final = struct.Struct("<II")
_OFFSET: Final = struct.Struct("<I")
_WORDS_IN_BLOCK: Final = 160
_LARGEST_BLOCK: Final = 1 << 14
"""Bytes of an unpacked block; a larger one is damaged."""
_MOST_KNOWN: Final = 512
"""Words whose marks are remembered."""
LONGEST: Final = 64
"""Bytes of the longest word that is listed."""


class Mark:
    """The public meanings of a listed word: bits of a number, read far faster than of an enum."""

    WORD: Final = 1
    """An ordinary word, also in small letters."""
    NAME: Final = 2
    """Also a given name, a surname or the name of a place."""
    PUBLIC: Final = 4
    """A product, a company, a standard, a technical term, a month, a language."""
    PLACE: Final = 8
    """A country or a continent."""
    ORIGIN: Final = 16
    """Says where people are from or what they believe, and also names a language or a style."""
    TITLE: Final = 32
    """Stands before a person's name."""
    UNIT: Final = 64
    """Stands after an amount."""
    DATE: Final = 128
    """A month or a day of the week."""
    COMMON: Final = 256
    """A word that most people know; a misspelling is taken for one of these."""
    SMALL: Final = 512
    """Known in small letters; with a capital it may be a name that no list holds."""


_LARGEST: Final = 2 * Mark.SMALL - 1
_SHORTEST_MISSPELT, _LONGEST_MISSPELT = 6, 20
"""Letters of a word that may be a misspelling."""
_SURE: Final = 2
"""Letters at the beginning that a misspelling leaves as they are."""
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class Vocabulary:
    """Words and their marks, in a mapped file. Safe to share between threads.

    Args:
        path: the file.

    Raises:
        OSError: the file cannot be mapped. ValueError: it is something else, or cut short.
    """

    def __init__(self, path: Path) -> None:
        data = map_bytes(path)
        start = len(_MAGIC)
        if data[:start] != _MAGIC:
            raise ValueError("no vocabulary")
        self._data = data
        self._n: int
        self._blocks: int
        self._n, self._blocks = _COUNTS.unpack_from(data, start)
        self._offsets = start + _COUNTS.size
        end = self._offsets + _OFFSET.size * (self._blocks + 1)
        if not self._blocks or end > len(data):
            raise ValueError("cut short")
        begin, size = self._at(0), self._at(self._blocks)
        self._known: dict[str, int] = {}
        self._firsts = data[end:begin].split(b"\n")
        if size != len(data) or len(self._firsts) != self._blocks:
            raise ValueError("cut short")

    @classmethod
    def shipped(cls, language: str = "en") -> Self:
        """Open the vocabulary that ships for a language.

        Raises:
            DataLoss: this installation has none, or a damaged one.
        """
        return cls.in_file(f"vocabulary.{language}.bin")

    @classmethod
    @cache
    def in_file(cls, name: str) -> Self:
        """Open another file of this package that is written in the same form.

        Raises:
            DataLoss: this installation has none, or a damaged one.
        """
        try:
            with resources.as_file(resources.files(__package__) / name) as path:
                return cls(path)
        except (OSError, ValueError, struct.error) as error:
            raise DataLoss(
                f"the vocabulary {name!r} that ships with the agent cannot be read",
                fix="install sottovoce-core again",
                subject="vocabulary",
            ) from error

    def __len__(self) -> int:
        return self._n

    def __contains__(self, word: str) -> bool:
        return bool(self.marks(word))

    def marks(self, word: str) -> int:
        """Return the `Mark` bits of a word in any case; 0 for a word that is not listed.

        Raises:
            DataLoss: the file is damaged.
        """
        word = plain(word)
        marks = self._known.get(word)
        if marks is None:
            key = word.encode("utf-8", "surrogatepass")
            if not 0 < len(key) <= LONGEST or not word.isprintable():
                return 0
            marks = _marks_in(self._unpacked(self._block_of(key)), key)
            if len(self._known) >= _MOST_KNOWN:
                self._known = {}  # other threads go on with the old one
            self._known[word] = marks
        return marks

    def beginning(self, start: str) -> Iterator[tuple[str, int]]:
        """Yield the words that begin so, and their marks, sorted by the bytes of UTF-8.

        Raises:
            DataLoss: the file is damaged.
        """
        key = start.encode("utf-8", "surrogatepass")
        for block in range(self._block_of(key), self._blocks):
            if self._firsts[block][: len(key)] > key:
                return
            lines = self._unpacked(block)
            for line in lines[1:-1].split(b"\n"):
                if line.startswith(key):
                    word = line.partition(b"\t")[0]
                    yield _text(word), _marks_in(lines, word)

    def _block_of(self, key: bytes) -> int:
        """Return the only block that may hold a word."""
        return max(bisect_right(self._firsts, key) - 1, 0)

    def _at(self, block: int) -> int:
        """Return where a block begins, or the last one ends."""
        place: int = _OFFSET.unpack_from(self._data, self._offsets + _OFFSET.size * block)[0]
        return place

    def misspelt(self, word: str) -> bool:
        """Return whether a word is a common word with one letter wrong, missing, added or moved.

        The first two letters must be right, and the common word must be no name.
        """
        if not _SHORTEST_MISSPELT <= len(word) <= _LONGEST_MISSPELT or not word.isascii():
            return False
        blocks: dict[int, bytes] = {}
        for other in _one_edit_away(word):
            key = other.encode()
            block = self._block_of(key)
            if block not in blocks:
                blocks[block] = self._unpacked(block)
            marks = _marks_in(blocks[block], key)
            if marks & Mark.COMMON and not marks & Mark.NAME:
                return True
        return False

    def _unpacked(self, block: int) -> bytes:
        """Return a block's lines, each between two line ends."""
        start, end = self._at(block), self._at(block + 1)
        unpack = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            lines = unpack.decompress(self._data[start:end], _LARGEST_BLOCK)
        except zlib.error as error:
            raise _damaged() from error
        if not unpack.eof or lines[:1] != b"\n" or lines[-1:] != b"\n":
            raise _damaged()
        return lines

    def items(self) -> Iterator[tuple[str, int]]:
        """Yield every word with its marks, sorted by the bytes of UTF-8."""
        for block in range(self._blocks):
            lines = self._unpacked(block)
            for line in lines[1:-1].split(b"\n"):
                key = line.partition(b"\t")[0]
                yield _text(key), _marks_in(lines, key)


def _marks_in(lines: bytes, key: bytes) -> int:
    """Return the marks of a word in a block; 0 if the block does not hold it.

    Words that only begin with the key stand after it.
    """
    at = lines.find(b"\n" + key)
    if at < 0:
        return 0
    rest = lines[at + 1 + len(key) : lines.index(b"\n", at + 1)]
    if not rest:
        return Mark.WORD
    try:
        return int(rest[1:], 16) if rest[:1] == b"\t" else 0
    except ValueError:
        raise _damaged() from None


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise _damaged() from error


def _damaged() -> DataLoss:
    return DataLoss(
        "the vocabulary that ships with the agent is damaged",
        fix="install sottovoce-core again",
        subject="vocabulary",
    )


def _one_edit_away(word: str) -> Iterator[str]:
    """Yield the words that differ from ``word`` in one letter, or in the order of two."""
    for at in range(_SURE, len(word) + 1):
        before, after = word[:at], word[at:]
        if after:
            yield before + after[1:]
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
        for letter in _LETTERS:
            if after:
                yield before + letter + after[1:]
            yield before + letter + after


def plain(word: str) -> str:
    """Return the form in which words are listed: small letters and a plain apostrophe.

    Nothing else is changed. A word with an invisible character is a different word.
    """
    return word.lower().replace("’", "'")


def pack(words: Mapping[str, int]) -> bytes:
    """Return the file of a vocabulary: the same bytes for the same words.

    Args:
        words: the marks of each word in its `plain` form.

    Raises:
        ValueError: a word is empty, too long or not in its plain form, or has no marks.
    """
    entries = sorted((word.encode(), marks) for word, marks in words.items())
    for key, marks in entries:
        word = key.decode()
        if word != plain(word) or not 0 < len(key) <= LONGEST or not 0 < marks <= _LARGEST:
            raise ValueError(f"{word!r} cannot be listed")
        if not word.isprintable() or " " in word:
            raise ValueError(f"{word!r} cannot be listed")
    starts = range(0, len(entries), _WORDS_IN_BLOCK)
    blocks = [_block(entries[start : start + _WORDS_IN_BLOCK]) for start in starts]
    firsts = b"\n".join(entries[start][0] for start in starts)
    places = [len(_MAGIC) + _COUNTS.size + _OFFSET.size * (len(blocks) + 1) + len(firsts)]
    for block in blocks:
        places.append(places[-1] + len(block))
    return b"".join(
        (
            _MAGIC,
            _COUNTS.pack(len(entries), len(blocks)),
            *map(_OFFSET.pack, places),
            firsts,
            *blocks,
        )
    )


def _block(entries: Iterable[tuple[bytes, int]]) -> bytes:
    lines = (word if marks == Mark.WORD else b"%b\t%x" % (word, marks) for word, marks in entries)
    packed = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9)
    return packed.compress(b"\n".join((b"", *lines, b""))) + packed.flush()


NAMES_FILE: Final = "names.en.bin"
"""The lists of names, in the form of a `Vocabulary`."""


class Listed:
    """Public lists of names, as bits of a number.

    The finder that reads the sentence learns which lists hold a word, because it cannot tell a
    rare surname from a rare noun by its letters. A list alone decides nothing: many surnames are
    also words, and most names of the world are in no list. The file ships with the device, so no
    provider can remove a name. `sotto-models vocabulary --names` builds the file.
    """

    SURNAME: Final = 1
    USUAL_SURNAME: Final = 2
    """One of the commonest."""
    GIVEN: Final = 4
    USUAL_GIVEN: Final = 8
    """A given name of the census of the United States."""
    TOWN: Final = 16
    LARGE_CITY: Final = 32
    PART: Final = 64
    """A word of a town's name of several words."""


def listed_names(word: str) -> int:
    """Return the `Listed` bits of a word in any case, with or without accents; 0 if in no list.

    Raises:
        DataLoss: the file is missing or damaged.
    """
    if not word.isascii():
        letters = unicodedata.normalize("NFKD", word)
        word = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return Vocabulary.in_file(NAMES_FILE).marks(word)
