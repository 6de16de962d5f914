"""Finds the eta of each class at which whoever guesses succeeds equally often in all of them.

Why it is here: how well a word hides depends on how many others there are and how alike in
frequency. One eta for all left .95 of particles and .70 of odd words in the open where .26 of
pronouns were. So here every class is attacked by itself, by who knows its words' frequencies, and
gets the noise that holds him to the level's share. Where one word makes up more of a class than
that, he needs no vector; then the vectors may tell him one point more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.levels import ClassLevel
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.running_text import draw
from sottovoce.core.privacy.sphere_map import Candidates, SphereMap
from sottovoce.models.calibration.survival import Survival, cell_lengths

__all__ = ["ABOVE_BLIND", "Hiding"]

ABOVE_BLIND: Final = 0.01
"""What vectors may add to a blind guess that exceeds the level already."""

_DRAWS: Final = 5_000
"""Words attacked in a class: the mean of the attacker's confidence errs by about half a point."""

_GRID: Final = tuple(np.geomspace(0.5, 250.0, 22).tolist())
"""Etas at which success is measured; between them its log odds are nearly straight in log eta."""


@dataclass(frozen=True)
class Hiding:
    """How well the words of one class hide, as a function of eta.

    Attributes:
        attacker: knows the class and how often each of its words is written.
        rows: Floats2d (n, r), words of running text.
        steps: Floats2d (n, r), their noise at eta 1; divided by eta it is noise at eta.
        cells: Floats1d (n,), how far each can move along its step and remain the nearest word.
        blind: share of the commonest word.
    """

    attacker: SphereMap
    rows: Floats2d
    steps: Floats2d
    cells: NDArray[np.float64]
    blind: float

    @classmethod
    def of(
        cls,
        space: Floats2d,
        weights: NDArray[np.float64],
        members: NDArray[np.int32],
        draws: int = _DRAWS,
        seed: int = 0,
    ) -> Self:
        """Draws words of running text, and a noise for each that serves every eta.

        Args:
            space: Floats2d (words, r).
            weights: Floats1d (words,), how often each is met in the class.
            members: Ints1d ids, those that may be released in it.
            draws: about so many words.
            seed: of the draws.
        """
        candidates = Candidates.of(weights, members)
        shares = np.zeros(len(weights))
        shares[candidates.ids] = np.exp(candidates.log_prior)
        random = np.random.default_rng(seed)
        ids = draw({"": shares}, draws, random)[""]
        steps = noise.draw(random, len(ids), space.shape[1], 1.0)
        directions = steps / np.linalg.norm(steps, axis=1, keepdims=True)
        cells = cell_lengths(space, members, ids, directions)
        attacker = SphereMap.of(space, candidates)
        return cls(attacker, space[ids], steps, cells, float(shares.max()))

    def success(self, eta: float) -> float:
        """Share of the words that the attacker recovers from their vectors.

        The mean of his own confidence: he is right as often as he thinks, on text that is as his
        prior says, and a mean varies far less than a count of hits.
        """
        noisy = self.rows + self.steps / np.float32(eta)
        return float(self.attacker.confidence(noisy, eta).mean())

    def levels(self, targets: Sequence[float], survival: Survival) -> list[ClassLevel]:
        """What each of ``targets``, shares of words he may recover, asks for; in their order."""
        rising = np.maximum.accumulate([self.success(eta) for eta in _GRID])
        goals = [t if self.blind < t else self.blind + ABOVE_BLIND for t in targets]
        # Just above blind guessing the curve is all but flat: where it is, the least eta counts.
        kept = np.flatnonzero(np.diff(rising, prepend=-1.0) > 1e-9)
        etas = np.exp(
            np.interp(_log_odds(goals), _log_odds(rising[kept]), np.log(np.array(_GRID)[kept]))
        )
        return [
            ClassLevel(eta, 1 - survival(self.cells, eta), self.success(eta), self.blind)
            for eta in etas.tolist()
        ]


def _log_odds(shares: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    inside = np.clip(shares, 1e-6, 1 - 1e-6)
    odds: NDArray[np.float64] = np.log(inside / (1 - inside))
    return odds
