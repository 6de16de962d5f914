"""Success of guesses with 95 % intervals, over all words and over rare words, names and numbers.

An attack's success is one number about one text. The words of a sentence are guessed together, so
intervals resample sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.attacks.text import Ints, Text
from bench.resampling import drawn, interval

__all__ = ["Judged", "Tally", "scores"]

Bools = NDArray[np.bool_]
Counts = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Tally:
    """Judged and correctly guessed symbols of each sentence.

    Attributes:
        right, judged: Ints1d (sentences,).
    """

    right: Counts
    judged: Counts

    @property
    def share(self) -> float:
        """Share of judged symbols that were guessed."""
        return float(self.right.sum() / self.judged.sum())

    def interval(self, seed: int = 0) -> list[float]:
        """95 % bootstrap interval of `share`, [low, high]. Sentences are drawn and not words: the
        words of one sentence are guessed together, and stand or fall together."""
        times = drawn(len(self.judged), seed)
        return interval((times @ self.right) / np.maximum(times @ self.judged, 1))


@dataclass(frozen=True)
class Judged:
    """Masks of the judged symbols, the same for every mechanism.

    Attributes:
        all: Bools1d (n,), identifiers and parts of speech that get noise by default.
        rare: the part of ``all`` outside the 5,000 commonest words; includes unlisted words.
        names: proper nouns. Where names are drawn they are not part of ``all``: their low
            recovery would flatter the noise.
        numbers: numerals, treated as names are, and all words that hold a digit.
        sentence: Ints1d (n,).
    """

    all: Bools
    rare: Bools
    names: Bools
    numbers: Bools
    sentence: Ints

    @classmethod
    def of(cls, text: Text, tags: Sequence[str], common: Bools) -> Judged:
        """Build the masks from the treebank's tags."""
        judged = text.tagged(tags) | text.identifier
        listed = np.minimum(text.ids, len(common) - 1)
        frequent = common[listed] & (text.ids < len(common))
        return cls(
            judged,
            judged & ~frequent & ~text.identifier,
            text.tagged(["PROPN"]) & ~text.identifier,
            text.tagged(["NUM"]) | text.identifier,
            text.sentence,
        )

    def tallies(self, right: Bools) -> dict[str, Tally]:
        """Return the tallies of "all", "rare", "names" and "numbers"."""
        _, place = np.unique(self.sentence, return_inverse=True)
        n = int(place.max()) + 1
        kinds = {"all": self.all, "rare": self.rare, "names": self.names, "numbers": self.numbers}
        return {
            name: Tally(_per(place, right & each, n), _per(place, each, n))
            for name, each in kinds.items()
        }


def scores(tallies: dict[str, Tally]) -> dict[str, Any]:
    """Return success on all judged symbols and the tails, with 95 % intervals; None without any."""
    found: dict[str, Any] = {}
    for name, tally in tallies.items():
        key, ci = ("success", "ci") if name == "all" else (name, f"{name}_ci")
        some = bool(tally.judged.any())
        found |= {key: tally.share if some else None, ci: tally.interval() if some else None}
    return found


def _per(place: NDArray[np.integer[Any]], which: Bools, n: int) -> Counts:
    """Count the ``which`` at each of ``n`` places."""
    return np.bincount(place[which], minlength=n)
