"""T2T and PCT2T as published: noise over the backbone's full width (RAPT v1 3.1, v2 III-A)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.random import Generator

from bench.attacks.channels import distances
from bench.attacks.interface import Candidates, Floats
from bench.attacks.text import Ints
from bench.baselines.interface import ROWS, Baseline, outputs_of, solve
from sottovoce.core.privacy import noise

__all__ = ["FullWidth"]

_SHARES: Final = (0.08, 0.12, 0.18, 0.25, 0.35, 0.5, 1.0)
"""Candidate rates as fractions of eta: how fast the likelihood of a word falls with distance."""


@dataclass(eq=False)
class FullWidth(Baseline):
    """T2T and PCT2T as published: noise over the backbone's full width (RAPT v1 3.1, v2 III-A)."""

    @property
    def mechanism(self) -> str:
        """Return the name for the table."""
        return f"{self.ours.mechanism}, full width"

    def __post_init__(self) -> None:
        names = self.ours.groups
        self._outputs = outputs_of(self.ours.public, names)
        ids, group = self.sample()

        def kept(eta: float) -> float:
            self.eta = eta
            sent = self.send(ids, group, np.random.default_rng(1))
            return float((sent == ids).mean())

        self.eta = solve(kept, self.kept, 5.0, 2_000.0)

    eta: float = field(default=0.0, init=False)
    _outputs: tuple[Ints, ...] = field(default=(), init=False)

    def rates(self, group: int) -> tuple[float, ...]:
        """Return the candidate rates; see `Channel`."""
        return tuple(self.eta * share for share in _SHARES)

    def send(self, ids: Ints, group: Ints, random: Generator) -> Ints:
        """Add noise, then take the nearest word of each group."""
        found = np.empty(len(ids), np.int32)
        for each in np.unique(group).tolist():
            which, members = np.flatnonzero(group == each), self._outputs[each]
            rows = self.rows[members]
            halves = np.square(rows).sum(axis=1) / 2
            noisy = self.rows[ids[which]] + noise.draw(
                random, len(which), self.rows.shape[1], self.eta
            )
            for start in range(0, len(which), ROWS):
                scores = noisy[start : start + ROWS] @ rows.T - halves
                found[which[start : start + ROWS]] = members[scores.argmax(axis=1)]
        return found

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """Return minus the distances."""
        return -distances(self.rows[seen], self.rows[candidates.ids])
