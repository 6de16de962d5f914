"""Compare the utility of two mechanisms at equal attack success.

Mechanisms lose different shares to the strongest attack at levels of the same name, so their
utilities there are not comparable. Here a mechanism's measured levels, together with clear text,
form a curve of utility over attack success. Each of our levels is compared with the other
mechanism's curve at our own attack success. Sentences, phrases and trainings are resampled for both
sides alike, so that hard items cancel out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from bench.attacks.interface import Floats
from bench.attacks.measures import Tally
from bench.resampling import drawn, interval

__all__ = ["ON", "UTILITIES", "Point", "against", "interval_of", "verdict"]

Doubles = NDArray[np.float64]

ON: Final = ("all", "rare", "names")
"""The groups of words for which attack success is made equal."""
UTILITIES: Final = ("accuracy", "cosine")
_APART: Final = 1e-6


@dataclass(frozen=True)
class Point:
    """A mechanism at a level: the success of the strongest attack, and the utility.

    Attributes:
        tallies: the attack's guesses, by `ON`.
        utility: Floats2d (trials, items) by `UTILITIES`; items of "cosine" are the sentences of the
            tallies. May lack some.
    """

    mechanism: str
    level: str
    tallies: dict[str, Tally]
    utility: dict[str, Floats]

    def clear(self) -> dict[str, Tally]:
        """Return the tallies of clear text."""
        return {name: Tally(each.judged, each.judged) for name, each in self.tallies.items()}

    def figures(self) -> dict[str, Any]:
        """Return each utility and its 95 % interval, for the tables."""
        found: dict[str, Any] = {}
        for name, replicates in self.resampled.utility.items():
            found[name], found[f"{name}_ci"] = interval_of(replicates)
        return found

    @cached_property
    def resampled(self) -> _Resampled:
        """Bootstrap replicates; points with the same number of items resample the same items."""
        return _Resampled.of(self)


@dataclass(frozen=True)
class _Resampled:
    """Replicates of a point's figures, Doubles1d (1 + resamples,), the measured figure first."""

    attack: dict[str, Doubles]
    utility: dict[str, Doubles]

    @classmethod
    def of(cls, point: Point) -> _Resampled:
        attack = {}
        for name, tally in point.tallies.items():
            times = _weights(len(tally.judged), "items")
            attack[name] = times @ tally.right / np.maximum(times @ tally.judged, 1e-9)
        utility = {}
        for name, found in point.utility.items():
            trials, items = found.shape
            seen = _weights(trials, "trials") @ found * _weights(items, "items")
            utility[name] = seen.sum(axis=1) / (trials * items)
        return cls(attack, utility)


@cache
def _weights(n: int, what: str) -> Doubles:
    """Return how often each of ``n`` is drawn: (1 + resamples, n); in the first row, each once."""
    return np.vstack([np.ones(n), drawn(n, [ord(letter) for letter in what])])


def interval_of(replicates: Doubles) -> tuple[float, list[float]]:
    """Return the measured figure and its 95 % interval."""
    return float(replicates[0]), interval(replicates[1:])


def against(
    ours: Point, curve: Sequence[Point], clear: dict[str, Floats]
) -> Iterable[dict[str, Any]]:
    """Compare ``ours`` with another mechanism at equal attack success.

    Args:
        ours: one of our levels.
        curve: the other mechanism's levels, in any order.
        clear: utility of clear text, where every attack succeeds.

    Yields:
        For each of `ON` and `UTILITIES` that all have: the common attack success ``at``, both
        utilities, their ``difference`` with its ``ci``, whether the other's curve reaches so low
        (``reached``), and the `verdict`. Where it does not, its utility at its strongest level is
        used, which is more than its utility at that point.
    """
    end = Point(curve[0].mechanism, "clear", curve[0].clear(), clear)
    points = [*curve, end]
    for on in ON:
        if not all(
            on in each.tallies and each.tallies[on].judged.any() for each in (ours, *points)
        ):
            continue
        points.sort(key=lambda point: point.resampled.attack[on][0])
        lowest = points[0].resampled.attack[on][0]
        at = ours.resampled.attack[on]
        named = [n for n in UTILITIES if all(n in point.utility for point in (ours, *points))]
        xs = np.array([point.resampled.attack[on] for point in points])
        ys = np.array([[point.resampled.utility[name] for name in named] for point in points])
        everywhere = np.array(
            [_at(x, curve, y) for x, curve, y in zip(at, xs.T, ys.transpose(2, 0, 1), strict=True)]
        )
        for name, theirs in zip(named, everywhere.T, strict=True):
            own = ours.resampled.utility[name]
            difference, ci = interval_of(own - theirs)
            reached = bool(at[0] >= lowest)
            yield {
                "ours": ours.mechanism,
                "level": ours.level,
                "against": curve[0].mechanism,
                "on": on,
                "utility": name,
                "at": float(at[0]),
                "value": float(own[0]),
                "theirs": float(theirs[0]),
                "difference": difference,
                "ci": ci,
                "reached": reached,
                "verdict": verdict(ci, reached),
            }


def verdict(ci: Sequence[float], reached: bool) -> str:
    """``ours`` or ``theirs`` where the interval lies on one side of 0, else ``undecided``; never
    ``theirs`` where the other was not measured at so low a success: ``out of reach``."""
    if ci[0] > 0:
        return "ours"
    if not reached:
        return "out of reach"
    return "theirs" if ci[1] < 0 else "undecided"


def _at(x: float, attack: Doubles, utilities: Doubles) -> Doubles:
    """Interpolate each utility curve, Doubles2d (points, utilities), at attack success ``x``.

    Beyond the curve's ends the end values hold: Doubles1d (utilities,).
    """
    rising = np.maximum.accumulate(attack) + _APART * np.arange(len(attack))
    curve = PchipInterpolator(rising, utilities)  # through the points, and never above the higher
    found: Doubles = curve(np.clip(x, rising[0], rising[-1]))
    return found
