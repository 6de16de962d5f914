"""What would PATE cost if epsilon depended on the votes (Papernot et al., 2018)?

Where teachers agree, one record hardly changes an answer, so the data-dependent epsilon is smaller.
The papers report this epsilon. It reveals information about the records, so its release needs noise
in proportion to smooth sensitivity (section B.3). Smooth sensitivity is the largest change of the
cost by one vote, at any distance from the votes, discounted by that distance. The product neither
computes nor shows this epsilon (docs/training.md says why). This is the published calculation, for
comparison. Theorems and algorithms are numbered as in the paper's appendix; the tests compare
figures with its reference code.

All costs are Renyi divergences at one order. "Spread" is the standard deviation of the noise on a
count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfc, erfcinv
from scipy.stats import norm

from sottovoce.core.privacy.votes import Ints, VotePlan

__all__ = ["Price", "answer_moves", "check_moves", "price"]

Floats = NDArray[np.float64]

_ORDERS: Final = (1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 14.0, 20.0, 30.0, 50.0)
_DISCOUNTS: Final = (0.49, 0.3, 0.2, 0.1)
"""Discounts per vote of distance, times the order; each is below a half."""


@dataclass(frozen=True, slots=True)
class Price:
    """Epsilon at the plan's delta, by Renyi accounting.

    Attributes:
        fixed: independent of the votes.
        exact: computed from the votes; its release would reveal the votes.
        told: computed from the votes, plus the cost of its release and twice the standard
            deviation of its noise.
    """

    fixed: float
    exact: float
    told: float


def price(counts: Ints, answered: Sequence[int], plan: VotePlan) -> Price:
    """Of one vote; order and discount are the best for it, as published.

    Args:
        counts: votes of all teachers, Ints2d (Q, C); every teacher voted.
        answered: places of the texts that were answered.
        plan: of the vote.
    """
    best = Price(math.inf, math.inf, math.inf)
    check, answer = (stage.noise * stage.clip for stage in (plan.check, plan.answer))
    tops = counts.max(1).tolist()
    agreed = [tuple(sorted(counts[at].tolist(), reverse=True)) for at in answered]
    for order in _ORDERS:
        slack = math.log(1 / plan.budget.delta) / (order - 1)
        fixed = sum(s.steps * order / (2 * s.noise**2) for s in (plan.check, plan.answer))
        exact, moves = 0.0, np.zeros(plan.teachers)
        for top in tops:
            exact += float(_check_costs(plan.teachers, plan.threshold, check, order)[top])
            moves += check_moves(top, plan.teachers, plan.threshold, check, order)
        for votes in agreed:
            exact += _answer_cost(_other(votes, answer), answer, order)
            moves += answer_moves(votes, answer, order)
        told = min(exact + _telling(moves, of / order, order) for of in _DISCOUNTS)
        best = Price(
            min(best.fixed, fixed + slack),
            min(best.exact, exact + slack),
            min(best.told, told + slack),
        )
    return best


def _telling(moves: Floats, discount: float, order: float) -> float:
    """Return the cost to release a vote-dependent epsilon.

    This is the mechanism's cost (theorem 23) plus twice the noise, at the noise that minimises the
    sum.
    """
    smooth = float((moves * np.exp(-discount * np.arange(len(moves)))).max())
    if smooth == 0:
        return 0.0
    spread = math.cbrt(order * math.exp(2 * discount) / smooth)
    cost = order * math.exp(2 * discount) / spread**2
    cost += (discount * order - 0.5 * math.log(1 - 2 * order * discount)) / (order - 1)
    return cost + 2 * smooth * spread


@lru_cache(maxsize=1 << 16)
def answer_moves(votes: tuple[int, ...], spread: float, order: float) -> Floats:
    """Return the largest change of an answer's cost by one vote: Floats1d (T,).

    Entry k holds at k votes from ``votes``. In algorithms 4 and 5 the largest change lies between
    `_least` and a vote before it. The shortest way there moves votes between the first and the
    second label.

    Args:
        votes: votes of each label, in descending order; their sum is T.
        spread: standard deviation of the noise on a count.
        order: order of the Renyi divergence, more than 1.
    """
    labels = len(votes)
    highest = _least(spread, order)
    lowest = _log(_fewer(math.exp(highest), spread, labels))
    found = np.full(sum(votes), _answer_move(lowest, spread, labels, order))
    now, other = list(votes), _other(votes, spread)
    if lowest <= other <= highest:
        return found
    found[0] = _answer_move(other, spread, labels, order)
    away, surer = 0, other > highest
    while (other > highest and now[1] > 0) if surer else other < lowest:
        away += 1
        step = 1 if surer else -1
        now[0], now[1] = now[0] + step, now[1] - step
        now[1:] = sorted(now[1:], reverse=True)
        other = _other(now, spread)
        found[away] = _answer_move(other, spread, labels, order)
    return found


@lru_cache(maxsize=1 << 16)
def check_moves(top: int, teachers: int, threshold: float, spread: float, order: float) -> Floats:
    """The same of the question whether enough agree: Floats1d (T,).

    Args:
        top: the highest count.
        teachers: T.
        threshold: votes that are enough.
        spread, order: see `answer_moves`.
    """
    step = np.abs(np.diff(_check_costs(teachers, threshold, spread, order)))
    near = np.maximum(np.append(step, 0.0), np.append(0.0, step))  # (T + 1,)
    found = np.zeros(teachers)
    for away in range(max(top, teachers - top)):
        reached = [near[at] for at in (top - away, top + away) if 0 <= at <= teachers]
        found[away] = max(reached)
    return found


@lru_cache(maxsize=256)
def _check_costs(teachers: int, threshold: float, spread: float, order: float) -> Floats:
    """Return the cost of the agreement check, by the highest count: Floats1d (T + 1,).

    One vote moves this count by 1, and an answer by the square root of 2. So the same noise hides
    more.
    """
    passed = norm.logsf(threshold - np.arange(teachers + 1.0), scale=spread)
    rare = np.minimum(passed, norm.logcdf(threshold - np.arange(teachers + 1.0), scale=spread))
    return np.array([_cost(float(each), math.sqrt(2) * spread, order) for each in rare])


def _other(votes: Sequence[int], spread: float) -> float:
    """Log of how likely another label than the first wins, at most (proposition 7)."""
    gaps = votes[0] - np.array(votes[1:])
    bound = float(np.logaddexp.reduce(norm.logsf(gaps, scale=math.sqrt(2) * spread)))
    return min(bound, math.log(1 - 1 / len(votes)))


def _cost(rare: float, spread: float, order: float) -> float:
    """Of an outcome but for a chance of e^``rare`` (theorem 6 where it holds, else whatever the
    votes)."""
    variance, fixed = spread**2, order / spread**2
    if rare == -math.inf:
        return 0.0
    second = spread * math.sqrt(-rare)  # the orders of proposition 10
    first = second + 1
    if second <= 1 or first <= order or -rare <= second / variance:
        return fixed
    bar = (second - 1) * second / variance
    bar -= second * (math.log(first / (first - 1)) + math.log(second / (second - 1)))
    return min(fixed, _by_votes(rare, spread, order)) if rare <= bar else fixed


def _by_votes(rare: float, spread: float, order: float) -> float:
    """Theorem 6, where its conditions hold."""
    variance, second = spread**2, spread * math.sqrt(-rare)
    first = second + 1
    usual = math.log1p(-math.exp(rare))
    a = usual - math.log1p(-math.exp((rare + second / variance) * (1 - 1 / second)))
    b = first / variance - rare / (first - 1)
    both = np.logaddexp(usual + (order - 1) * a, rare + (order - 1) * b)
    return float(both) / (order - 1)


@lru_cache(maxsize=256)
def _least(spread: float, order: float) -> float:
    """Return the log probability of another answer below which votes lower the cost."""

    def apart(rare: float) -> float:
        return _by_votes(rare, spread, order) - order / spread**2

    upper = min(-((1 + 1 / spread) ** 2), -(((order - 0.99) / spread) ** 2))
    if apart(upper) < 0:
        return upper
    lower = 2 * upper
    while apart(lower) > 0:
        lower *= 1.5
    return float(brentq(apart, lower, upper))


def _answer_cost(other: float, spread: float, order: float) -> float:
    if other >= _least(spread, order):
        return order / spread**2
    return _by_votes(other, spread, order) if other > -math.inf else 0.0


def _answer_move(other: float, spread: float, labels: int, order: float) -> float:
    """Return the largest change of an answer's cost by one vote (algorithm 3)."""
    highest = _least(spread, order)
    lowest = _log(_fewer(math.exp(highest), spread, labels))
    chance = math.exp(lowest if lowest <= other <= highest else other)
    here, more, fewer = (
        _answer_cost(_log(each), spread, order)
        for each in (chance, _more(chance, spread, labels), _fewer(chance, spread, labels))
    )
    return max(more - here, here - fewer)


def _fewer(chance: float, spread: float, labels: int) -> float:
    """Return the lowest probability of another answer after one vote changes (proposition 12)."""
    return _moved(chance, 1 / spread, labels)


def _more(chance: float, spread: float, labels: int) -> float:
    """Return the highest one."""
    return min(1.0, _moved(chance, -1 / spread, labels))


def _moved(chance: float, by: float, labels: int) -> float:
    others = (labels - 1) / 2
    return float(others * erfc(by + erfcinv(chance / others)))


def _log(chance: float) -> float:
    return math.log(chance) if chance > 0 else -math.inf
