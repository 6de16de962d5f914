"""Finds the eta of each level of `token-embedding.v1`, by what the strongest attacker recovers.

Why it is here: in Split-and-Denoise nothing is replaced, a noisy vector leaves for every token, so
the level is the share of tokens that the maximum-a-posteriori attacker reads off those vectors. His
success over tokens that come as often as the prior says is the mean of his own confidence, which
varies far less than a count of hits, and the same directions and lengths serve every eta, so the
curve is smooth and can be interpolated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.cloud.models.encoder import PosteriorMean
from sottovoce.core.bundle.levels import EmbedLevel
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.running_text import draw

__all__ = ["LEVELS", "calibrate", "success"]

LEVELS: Final = {"strong": 0.3, "balanced": 0.5, "light": 0.7}
"""Share of the tokens of running text that the attacker recovers."""

_DRAWS: Final = 1_500
_CONFIRMING: Final = 6_000
_GRID: Final = np.geomspace(0.3, 6, 12)
"""Etas looked at, in units of r / (mean distance of two tokens of running text)."""


def calibrate(
    space: Floats2d, log_prior: NDArray[np.float32], *, seed: int = 0
) -> Mapping[str, EmbedLevel]:
    """The levels, with the attacker's success measured at each.

    Args:
        space: Floats2d (tokens, r).
        log_prior: Floats1d (tokens,), see `sottovoce.models.corpus.token_frequencies`.
        seed: of the simulation; the same gives the same levels.
    """
    sample = _sample(log_prior, _DRAWS, seed)
    spread = np.linalg.norm(space[sample] - space[np.roll(sample, len(sample) // 2)], axis=1)
    etas = _GRID * space.shape[1] / float(spread.mean())
    curve = [success(space, log_prior, float(eta), draws=_DRAWS, seed=seed) for eta in etas]
    rising = np.maximum.accumulate(curve)
    found = {}
    for name, wanted in LEVELS.items():
        eta = float(np.exp(np.interp(wanted, rising, np.log(etas))))
        reached = success(space, log_prior, eta, draws=_CONFIRMING, seed=seed + 1)
        found[name] = EmbedLevel(eta, reached)
    return found


def success(
    space: Floats2d,
    log_prior: NDArray[np.float32],
    eta: float,
    *,
    draws: int = _CONFIRMING,
    seed: int = 0,
) -> float:
    """Share of tokens of running text that the MAP attacker recovers at ``eta``."""
    sample = _sample(log_prior, draws, seed)
    random = np.random.default_rng(seed)
    steps = noise.draw(random, len(sample), space.shape[1], 1.0) / np.float32(eta)
    none = np.zeros((len(space), 0), np.float32)  # the attacker needs no embeddings
    attack = PosteriorMean(space, none, log_prior)
    return float(attack.confidence(space[sample] + steps, eta).mean())


def _sample(log_prior: NDArray[np.float32], n: int, seed: int) -> NDArray[np.int32]:
    shares = np.exp(log_prior.astype(np.float64))
    return draw({"": shares}, n, np.random.default_rng(seed))[""]
