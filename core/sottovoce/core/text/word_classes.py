"""Readings: the class of a listed word by itself, whatever its context.

A tagger that looks at neighbours lets one word decide the treatment of another. Then no privacy
bound holds for either. In 10.8 % of trials, exchanging a word for another of its part of speech
changed a neighbour's treatment. A reading depends on the word alone. The builder of the bundle
decides it once, from public counts and lists, and the device only looks it up.
"""

from __future__ import annotations

import gzip
import json
import re
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import DataLoss
from sottovoce.core.text.frequencies import normal_form

__all__ = ["BY_TAG", "READINGS", "UNLISTED", "PublicReadings", "look_up"]

READINGS: Final = (
    *("NOUN", "VERB", "ADJ", "ADV", "REFERENCE", "GRAMMAR", "OTHER"),
    *("NAME", "NUMBER", "ORIGIN", "FACT", "CLITIC"),
)
"""The readings, in the order of all files and arrays.

The first four are open parts of speech. REFERENCE: pronouns and prepositions. GRAMMAR: auxiliaries,
determiners, conjunctions, particles. OTHER: interjections, symbols and the rest. NAME: mostly met
as a proper noun. NUMBER: number words and ordinals. ORIGIN: nationalities, religions, ethnic
groups. FACT: states a person's health, sexuality, politics, crime or money. CLITIC: "n't", "'s".
"""

BY_TAG: Final = {
    **{tag: tag for tag in ("NOUN", "VERB", "ADJ", "ADV")},
    **dict.fromkeys(("PRON", "ADP"), "REFERENCE"),
    **dict.fromkeys(("AUX", "DET", "CCONJ", "SCONJ", "PART"), "GRAMMAR"),
    **dict.fromkeys(("INTJ", "X", "SYM", "PUNCT"), "OTHER"),
    "PROPN": "NAME",
    "NUM": "NUMBER",
}
"""The reading of a word by its commonest part of speech."""

UNLISTED: Final = "UNLISTED"
"""Replaces a reading for a word that the bundle does not list."""


def look_up(readings: NDArray[np.uint8], ids: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return the readings of words.

    Args:
        readings: Ints1d (words,), places in `READINGS`; see `Bundle.readings`.
        ids: Ints1d (n,) of words, -1 for unlisted words.

    Returns:
        Ints1d (n,), places in ``(*READINGS, UNLISTED)``.
    """
    found: NDArray[np.uint8] = readings[ids]  # the last word's for -1, overwritten
    found[ids < 0] = len(READINGS)
    return found


_FOLDER: Final = "sottovoce.core.text"
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
        file = resources.files(_FOLDER) / f"readings.{language}.tsv.gz"
        if not language.isalpha() or not file.is_file():
            return None
        try:
            return cls.unpack(file.read_bytes())
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise DataLoss(
                "the word list that ships with the agent cannot be read",
                fix="install sottovoce-edge again",
                subject="readings",
            ) from error

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
