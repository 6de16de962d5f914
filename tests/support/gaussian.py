"""What Gaussian mechanisms cost, in closed form."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.stats import norm


def of_gaussian(noise: float, steps: int, delta: float) -> float:
    """Epsilon of ``steps`` Gaussian mechanisms in closed form (Balle and Wang, 2018, theorem 8)."""
    mean = math.sqrt(steps) / noise

    def excess(epsilon: float) -> float:
        upper = norm.cdf(mean / 2 - epsilon / mean)
        lower = norm.cdf(-mean / 2 - epsilon / mean)
        return float(upper - math.exp(epsilon) * lower - delta)

    return float(brentq(excess, 0, 100))
