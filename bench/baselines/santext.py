"""SanText (Yue et al., 2021): an exponential mechanism over distances to all words."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from bench.attacks.channels import distances
from bench.attacks.interface import Candidates, Floats
from bench.attacks.text import Ints
from bench.baselines.interface import ROWS, Baseline, outputs_of, solve

__all__ = ["SanText"]


@dataclass(eq=False)
class SanText(Baseline):
    """In the manner of SanText (Yue et al., 2021): P(y | x) ~ exp(-epsilon / 2 * ||x - y||).

    The outputs are the whole list. The attacker knows the exact probabilities.
    """

    mechanism: str = field(default="SanText", init=False)
    epsilon: float = field(default=0.0, init=False)
    _log_total: tuple[Floats, ...] = field(default=(), init=False, repr=False)
    _outputs: tuple[Ints, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        self._outputs = outputs_of(self.ours.public, self.ours.groups)
        ids, group = self.sample()
        apart = {
            each: distances(self.rows[ids[group == each]], self.rows[self._outputs[each]])
            for each in np.unique(group).tolist()
        }

        def kept(epsilon: float) -> float:
            stay = [1 / np.exp(-epsilon / 2 * each).sum(axis=1) for each in apart.values()]
            return float(np.concatenate(stay).mean())

        self.epsilon = epsilon = solve(kept, self.kept, 1.0, 1_000.0)
        totals = []
        for members, each in zip(self._outputs, self.candidates, strict=True):
            total = np.zeros(len(self.rows), np.float32)
            for start in range(0, len(each.ids), ROWS):
                some = each.ids[start : start + ROWS]
                scores = distances(self.rows[some], self.rows[members])
                scores *= np.float32(-epsilon / 2)
                total[some] = np.log(np.exp(scores, out=scores).sum(axis=1))
            totals.append(total)
        self._log_total = tuple(totals)

    def send(self, ids: Ints, group: Ints, random: Generator) -> Ints:
        """Draw from the exponential mechanism; compute each word's shares once."""
        found = np.empty(len(ids), np.int32)
        for each in np.unique(group).tolist():
            which, members = np.flatnonzero(group == each), self._outputs[each]
            words, place = np.unique(ids[which], return_inverse=True)
            drawn = random.random(len(which))
            for start in range(0, len(words), ROWS):
                scores = distances(self.rows[words[start : start + ROWS]], self.rows[members])
                scores *= np.float32(-self.epsilon / 2)
                ends = np.cumsum(np.exp(scores, out=scores), axis=1, dtype=np.float64)
                ends /= ends[:, -1:]
                for row, shares in enumerate(ends, start):
                    here = np.flatnonzero(place == row)
                    chosen = np.searchsorted(shares, drawn[here], side="right")
                    found[which[here]] = members[np.minimum(chosen, len(members) - 1)]
        return found

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """Return log P(y | x)."""
        scores = distances(self.rows[seen], self.rows[candidates.ids])
        scores *= np.float32(-self.epsilon / 2)
        group = next(
            place
            for place, each in enumerate(self.candidates)
            if np.array_equal(each.ids, candidates.ids)
        )
        return scores - self._log_total[group][candidates.ids]
