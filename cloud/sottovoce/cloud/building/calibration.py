"""Finds the eta of each protection level, and measures what the level protects.

Why it is here: eta means nothing to a person and little across mechanisms; the share of protected
words replaced does. A word survives the noise exactly if its noisy vector stays in its own Voronoi
cell, and along the ray in the noise's direction that cell ends at one length. Finding that length
once, by exact search, gives the word's survival at every eta in closed form (the length of the
noise is Gamma distributed), so the eta of a level is a root of one smooth function and no search is
repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from sottovoce.cloud.building.attack import best_slope
from sottovoce.core.bundle.levels import Level
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.running_text import draw, released_in
from sottovoce.core.privacy.search import ExactIndex
from sottovoce.core.privacy.sphere_map import Candidates, SphereMap, perturb

__all__ = ["LEVELS", "REPLACED_ON_CURVE", "Run", "Survival", "Text", "calibrate", "cell_lengths"]

LEVELS: Final = {"strong": 0.85, "balanced": 0.45, "light": 0.14}
"""Share of protected in-vocabulary words replaced on running text."""

REPLACED_ON_CURVE: Final = tuple(np.linspace(0.97, 0.03, 12).tolist())
"""Shares replaced at the points of a manifest's curve."""

_DRAWS: Final = 40_000
"""Words drawn to set eta. Drawn systematically and with their survival in closed form, the share
replaced has a standard error below 0.1 point."""
_TAIL_DRAWS: Final = 5_000
_ATTACKS: Final = {True: (10_000, 5_000), False: (3_000, 1_000)}
"""Words attacked, all and of each tail, at a level and at a point of the curve."""
_FITTED: Final = 1_000
"""Words drawn to fit the attacker on released words."""
_SCORES: Final = 1 << 19
"""Scores held at once: 2 MiB, which a processor's cache holds."""
_WIDEST: Final = (1.0, 3_000.0)
"""Range of eta that is searched."""

_A = TypeVar("_A")
_B = TypeVar("_B")


class Run(Protocol):
    """`map`, or the `map` of a pool of threads."""

    def __call__(self, function: Callable[[_A], _B], items: Iterable[_A], /) -> Iterable[_B]: ...


@dataclass(frozen=True)
class Text:
    """Running text as one mechanism meets it.

    Attributes:
        space: Floats2d (words, r).
        classes: Ints1d ids by class name, those words are replaced from.
        weights: Floats1d (words,) by class name, how often each word is met in it.
        rare: Bools1d (words,).
        names: as ``weights``, of proper nouns alone.
    """

    space: Floats2d
    classes: Mapping[str, NDArray[np.int32]]
    weights: Mapping[str, NDArray[np.float64]]
    rare: NDArray[np.bool_]
    names: Mapping[str, NDArray[np.float64]]

    @property
    def tails(self) -> dict[str, dict[str, NDArray[np.float64]]]:
        """``weights`` of rare words and of names; of all words where there are no such."""
        rare = {name: each * self.rare for name, each in self.weights.items()}
        return {
            kind: {name: each for name, each in only.items() if each.any()} or dict(self.weights)
            for kind, only in (("rare", rare), ("names", self.names))
        }

    def members(self, name: str) -> NDArray[np.int32]:
        """The words that may replace one of class ``name``."""
        return self.classes[released_in(name, self.classes)]

    @cached_property
    def attackers(self) -> dict[str, SphereMap]:
        """Who guesses, by class name."""
        return {
            name: SphereMap.of(self.space, Candidates.of(each, self.members(name)))
            for name, each in self.weights.items()
        }

    def privatize(self, name: str, noisy: Floats2d) -> NDArray[np.int32]:
        """Ids of the nearest words, by exact search."""
        members = self.members(name)
        return members[ExactIndex(self.space[members]).nearest(noisy)]


def calibrate(text: Text, run: Run, *, seed: int = 0) -> tuple[dict[str, Level], tuple[Level, ...]]:
    """The levels of a mechanism, and points between and beyond them in order of eta.

    Every draw comes from ``seed`` and the same words and directions serve every eta, so the curve
    is smooth and a second build gives the same numbers.

    Args:
        text: the words met, those that replace them, and their space.
        run: applies a function to items; results do not depend on how many run at once.
        seed: of the simulation.

    Raises:
        InvalidInput: so many words are met outside the classes that a level cannot be had.
    """
    survival = Survival(text.space.shape[1])
    cells = _cells(text, text.weights, _DRAWS, seed, run)
    tail_cells = {
        kind: _cells(text, weights, _TAIL_DRAWS, seed + 1, run)
        for kind, weights in text.tails.items()
    }
    strangers = 1 - survival(cells, _WIDEST[1])  # replaced however short the noise
    if strangers >= min(LEVELS.values()):
        raise InvalidInput(
            f"{strangers:.0%} of the words people write are in none of the backbone's classes",
            fix="use a backbone with a larger vocabulary, or of the language of the frequencies",
            subject="backbone",
        )
    shares = (*LEVELS.values(), *(share for share in REPLACED_ON_CURVE if share > strangers))
    etas = [_eta_for(1 - share, cells, survival) for share in shares]

    def measure(task: tuple[float, bool]) -> Level:
        eta, at_level = task
        words, tail_words = _ATTACKS[at_level]
        slope = _fit_slope(text, eta, seed + 2)

        def from_vector(sample: _Sample) -> NDArray[np.int32]:
            return text.attackers[sample.name].behind_vectors(sample.noisy, eta)

        def from_word(sample: _Sample) -> NDArray[np.int32]:
            rows = text.space[sample.released]
            guesses: NDArray[np.int32] = text.attackers[sample.name].behind_words(rows, slope)[0]
            return guesses

        def shares(
            weights: Mapping[str, NDArray[np.float64]], lengths: NDArray[np.float64], n: int
        ) -> tuple[float, float, float]:
            """Replaced, recovered from the vector, recovered from the word."""
            kept = survival(lengths, eta)
            samples = _simulate(text, weights, n, eta, seed + 3)
            return (
                1 - kept,
                _success(samples, from_vector, kept),
                _success(samples, from_word, kept),
            )

        overall = shares(text.weights, cells, words)
        rare, names = (
            shares(weights, tail_cells[kind], tail_words) for kind, weights in text.tails.items()
        )
        return Level(
            eta=eta,
            replaced=overall[0],
            replaced_rare=rare[0],
            replaced_names=names[0],
            map_attack=overall[1],
            map_attack_rare=rare[1],
            map_attack_names=names[1],
            map_attack_word=overall[2],
            map_attack_word_rare=rare[2],
            map_attack_word_names=names[2],
        )

    points = run(measure, [(eta, place < len(LEVELS)) for place, eta in enumerate(etas)])
    measured = [*points]
    levels, curve = measured[: len(LEVELS)], measured[len(LEVELS) :]
    return dict(zip(LEVELS, levels, strict=True)), tuple(curve)


class Survival:
    """Share of words kept at an eta: the mean of P(||z|| < cell length), ||z|| ~ Gamma(r, 1/eta).

    Args:
        r: dimensions of the privacy space.
    """

    def __init__(self, r: int) -> None:
        # A table of the regularised incomplete gamma function: linear interpolation errs by 1e-7.
        self._at = np.linspace(0, r + 20 * np.sqrt(r), 20_001)
        shape = torch.full((len(self._at),), float(r), dtype=torch.float64)
        self._below: NDArray[np.float64] = torch.special.gammainc(
            shape, torch.from_numpy(self._at)
        ).numpy()

    def __call__(self, cells: NDArray[np.float64], eta: float) -> float:
        return float(np.interp(cells * eta, self._at, self._below).mean())


def cell_lengths(
    space: Floats2d,
    members: NDArray[np.int32],
    ids: NDArray[np.int32],
    directions: Floats2d,
) -> NDArray[np.float64]:
    """How far each word can move in a direction before another of its class is nearer.

    The bisector of x and y is crossed at (1 - x.y) / u.(y - x), rows having length 1.

    Args:
        space: Floats2d (words, r), rows of length 1.
        members: Ints1d, the class, ascending.
        ids: Ints1d (n,), the words that move.
        directions: Floats2d (n, r), of length 1.

    Returns:
        Floats1d (n,): 0 for a word that is not of the class, infinite where no other is ever
        nearer.
    """
    places = np.searchsorted(members, ids).clip(max=len(members) - 1)
    inside = members[places] == ids
    lengths = np.zeros(len(ids))
    # Constants go into the products as one more dimension: 1 - x.y and u.y - u.x come out whole.
    columns = np.vstack([space[members].T, np.ones((1, len(members)), np.float32)])  # (r + 1, m)
    own = space[ids]
    apart = np.hstack([-own, np.full((len(ids), 1), 1 + 1e-6, np.float32)])
    nearer = np.hstack([directions, -(directions * own).sum(axis=1, keepdims=True)])
    step = max(1, _SCORES // len(members))
    for start in range(0, len(ids), step):
        chunk = slice(start, start + step)
        ratios = nearer[chunk] @ columns  # (step, m)
        ratios /= apart[chunk] @ columns
        ratios[np.arange(len(ratios)), places[chunk]] = 0
        with np.errstate(divide="ignore"):
            lengths[chunk] = 1 / ratios.max(axis=1).astype(np.float64)
    lengths[~inside] = 0
    return lengths


def _cells(
    text: Text, weights: Mapping[str, NDArray[np.float64]], n: int, seed: int, run: Run
) -> NDArray[np.float64]:
    """Cell lengths of about ``n`` words of running text, each in a random direction."""
    random = np.random.default_rng(seed)
    tasks = []
    for name, ids in draw(weights, n, random).items():
        steps = noise.draw(random, len(ids), text.space.shape[1], 1.0)
        steps /= np.linalg.norm(steps, axis=1, keepdims=True)
        tasks += [
            (text.members(name), ids[start : start + 2_048], steps[start : start + 2_048])
            for start in range(0, len(ids), 2_048)
        ]
    return np.concatenate([*run(lambda task: cell_lengths(text.space, *task), tasks)])


def _eta_for(kept: float, cells: NDArray[np.float64], survival: Survival) -> float:
    """Bisection in log eta."""
    low, high = np.log(_WIDEST)
    for _ in range(30):
        middle = (low + high) / 2
        if survival(cells, float(np.exp(middle))) < kept:
            low = middle
        else:
            high = middle
    return float(np.exp(high))


@dataclass(frozen=True)
class _Sample:
    """Words of one class on their way through the mechanism: true ids, noisy vectors, released."""

    name: str
    ids: NDArray[np.int32]
    noisy: Floats2d
    released: NDArray[np.int32]


def _simulate(
    text: Text, weights: Mapping[str, NDArray[np.float64]], n: int, eta: float, seed: int
) -> list[_Sample]:
    random = np.random.default_rng(seed)
    samples = []
    for name, ids in draw(weights, n, random).items():
        noisy = perturb(text.space[ids], eta, random)
        samples.append(_Sample(name, ids, noisy, text.privatize(name, noisy)))
    return samples


def _fit_slope(text: Text, eta: float, seed: int) -> float:
    samples = _simulate(text, text.weights, _FITTED, eta, seed)
    true = {sample.name: sample.ids for sample in samples}
    released = {sample.name: sample.released for sample in samples}
    return best_slope(text.attackers, text.space, true, released)


def _success(
    samples: list[_Sample], guess: Callable[[_Sample], NDArray[np.int32]], kept: float
) -> float:
    """Share of ``samples`` that ``guess`` finds out.

    Counted as the gain over taking each released word for the original: that one's success is the
    share ``kept``, known far more exactly than by counting, and both counts vary together.
    """
    gain = sum(
        int((guess(sample) == sample.ids).sum()) - int((sample.released == sample.ids).sum())
        for sample in samples
    )
    return min(1.0, kept + gain / sum(len(sample.ids) for sample in samples))
