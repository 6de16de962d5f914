"""Places with equal releases after equal releases are read together, and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.attacks.interface import OPEN, Candidates, Floats, Seen
from bench.attacks.trained import Pooled

WORDS, TEXTS = 12, 400


@dataclass(frozen=True)
class TwoGroups:
    """Two groups with the same candidates."""

    candidates: tuple[Candidates, ...] = (
        Candidates(np.arange(WORDS, dtype=np.int32), np.zeros(WORDS, np.float32)),
    ) * 2


class Hints(Pooled):
    """The context of each place gives its true word a small lead over chance."""

    def __init__(self, true: NDArray[np.int32]) -> None:
        channel: Any = TwoGroups()
        self.channel, self._true = channel, true
        self._hints = np.random.default_rng(3).normal(0, 1, (len(true), WORDS))
        self._hints[np.arange(len(true)), true] += 0.8

    def _alone(self, seen: Seen, group: int, which: NDArray[np.int64]) -> Floats:
        found: Floats = self._hints[which].astype(np.float32)
        return found


def texts(left: int, released: int, group: int = 0) -> Seen:
    """Return texts of two words: one that passes, and one with noise."""
    symbols = np.tile(np.array([left, released], np.int32), TEXTS)
    groups = np.tile(np.array([OPEN, group], np.int32), TEXTS)
    return Seen(symbols, None, groups, np.repeat(np.arange(TEXTS, dtype=np.int32), 2))


def joined(*parts: Seen) -> Seen:
    sentence = [each.sentence + np.int32(TEXTS * place) for place, each in enumerate(parts)]
    columns = ([each.symbols for each in parts], [each.group for each in parts], sentence)
    symbols, group, sentences = (np.concatenate(column) for column in columns)
    return Seen(symbols, None, group, sentences)


@pytest.mark.parametrize("other", [(8, 3, 0), (7, 4, 0), (7, 3, 1)])
def test_places_of_one_draw_are_named_alike(other: tuple[int, int, int]) -> None:
    """The ``other`` texts differ in the word before, the released word, or the group."""
    seen = joined(texts(7, 3), texts(*other))
    true = seen.symbols.copy()
    hidden = seen.group != OPEN
    true[hidden] = np.repeat([2, 9], TEXTS)
    found = Hints(true).guess(seen)
    assert (found[~hidden] == seen.symbols[~hidden]).all()
    # 400 hints of .8 standard deviations: the lead is 16 of the sum's standard deviations.
    assert (found == true).all()


def test_no_word_stands_before_the_first_of_a_text() -> None:
    """The same release as first word of a text, after texts that end differently."""
    symbols = np.array([3, 5, 3, 6] * TEXTS, np.int32)
    sentence = np.repeat(np.arange(2 * TEXTS, dtype=np.int32), 2)
    group = np.tile(np.array([0, OPEN], np.int32), 2 * TEXTS)
    true = np.where(group == OPEN, symbols, 2).astype(np.int32)
    found = Hints(true).guess(Seen(symbols, None, group, sentence))
    assert (found == true).all()
