"""CusText (Chen et al., 2023): an exponential mechanism within disjoint sets of similar words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.random import Generator

from bench.attacks.interface import Candidates, Floats
from bench.attacks.text import Ints
from bench.baselines.interface import ROWS, Baseline, solve

__all__ = ["CusText"]

_IMPOSSIBLE: Final = -60.0


@dataclass(eq=False)
class CusText(Baseline):
    """CusText (Chen et al., 2023), with disjoint sets of 20 similar words.

    Each word becomes a word of its set, P(y | x) ~ exp(epsilon * u(x, y) / 2). The utility u falls
    from 1 for the most similar word to 0 for the least. The sets are public, so a word hides only
    among the words in its set.
    """

    size: int = 20
    mechanism: str = field(default="CusText", init=False)
    epsilon: float = field(default=0.0, init=False)
    _sets: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int32), init=False, repr=False)
    _place: Ints = field(default_factory=lambda: np.zeros(0, np.int32), init=False, repr=False)
    _log_table: Floats = field(
        default_factory=lambda: np.zeros((0, 0), np.float32), init=False, repr=False
    )

    def __post_init__(self) -> None:
        rows = self.rows
        halves = np.square(rows).sum(axis=1) / 2
        taken, sets = np.zeros(len(rows), np.bool_), []
        for first in np.random.default_rng(0).permutation(len(rows)).tolist():
            if taken[first] or len(rows) - taken.sum() < self.size:
                continue
            scores = np.where(taken, -np.inf, rows @ rows[first] - halves)
            scores[first] = np.inf
            sets.append(np.argpartition(-scores, self.size - 1)[: self.size].astype(np.int32))
            taken[sets[-1]] = True
        place = np.empty(len(rows), np.int32)
        for number, members in enumerate(sets):
            place[members] = number
        # The few remaining words join the last set as inputs.
        place[~taken] = len(sets) - 1
        self._sets = np.stack(sets)
        self._place = place
        ids, _ = self.sample()

        def kept(epsilon: float) -> float:
            self.epsilon = epsilon
            shares = np.exp(self._log_shares(ids))
            return float(shares[self._sets[place[ids]] == ids[:, None]].sum() / len(ids))

        self.epsilon = solve(kept, self.kept, 0.01, 200.0)
        every = np.array_split(np.arange(len(rows), dtype=np.int32), 1 + len(rows) // ROWS)
        self._log_table = np.concatenate([self._log_shares(some) for some in every])

    def send(self, ids: Ints, group: Ints, random: Generator) -> Ints:
        """Draw from each word's set."""
        ends = np.cumsum(np.exp(self._log_table[ids]), axis=1)
        drawn = random.random((len(ids), 1))
        chosen = np.minimum((ends < drawn).sum(axis=1), self.size - 1)
        found: Ints = self._sets[self._place[ids], chosen]
        return found

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """Return log P(y | x)."""
        scores = np.full((len(seen), len(candidates.ids)), _IMPOSSIBLE, np.float32)
        sets = self._place[candidates.ids]
        order = np.argsort(sets, kind="stable")
        wanted = self._place[np.asarray(seen)]
        starts, ends = (np.searchsorted(sets[order], wanted, side) for side in ("left", "right"))
        for row, word in enumerate(np.asarray(seen).tolist()):
            same = order[starts[row] : ends[row]]
            where = self._sets[sets[same]] == word
            scores[row, same] = np.where(
                where.any(axis=1),
                (self._log_table[candidates.ids[same]] * where).sum(axis=1),
                _IMPOSSIBLE,
            )
        return scores

    def _log_shares(self, ids: Ints) -> Floats:
        """Return log P(y | x) over the set of each x: Floats2d (n, size)."""
        members = self._sets[self._place[ids]]
        apart = np.linalg.norm(self.rows[members] - self.rows[ids][:, None], axis=2)
        apart -= apart.min(axis=1, keepdims=True)
        utility = 1 - apart / np.maximum(apart.max(axis=1, keepdims=True), 1e-9)
        scores = np.exp(self.epsilon / 2 * utility)
        found: Floats = np.log(scores / scores.sum(axis=1, keepdims=True)).astype(np.float32)
        return found
