"""Find the eta of each protection level, and measure the protection of the level.

An eta means nothing to a person and little across mechanisms. If one eta serves all words, a level
is defined by the share of protected words replaced. If every class has its own eta, a level is
defined by the share of words that an attacker recovers, equal for each class. Either way eta is
found on a smooth function, and the figures of a level are measured at this eta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.levels import (
    NAMES,
    ClassLevel,
    Level,
    sampling_error,
    single_word,
)
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.attacker import Candidates, SphereMap, draw, perturb, released_in
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.search import ExactIndex
from sottovoce.models.calibration_attack import best_slope

_SCORES: Final = 1 << 19
"""Scores in memory at once: 2 MiB, which fit into a processor's cache."""


class Survival:
    """Share of words kept at an eta: mean of P(||z|| < cell length), ||z|| ~ Gamma(r, 1/eta).

    Args:
        r: dimensions of the privacy space.
    """

    def __init__(self, r: int) -> None:
        # A table of the regularised incomplete gamma function. Linear interpolation errs by 1e-7.
        self._at = np.linspace(0, r + 20 * np.sqrt(r), 20_001)
        # For a whole r, P(||z|| > x) = sum over k < r of exp(-x) x^k / k!.
        with np.errstate(divide="ignore"):
            log_x = np.log(self._at)
        above = np.exp(-self._at)
        for k in range(1, r):
            above += np.exp(k * log_x - self._at - math.lgamma(k + 1))
        self._below = 1 - above

    def __call__(self, cells: NDArray[np.float64], eta: float) -> float:
        return float(np.interp(cells * eta, self._at, self._below).mean())


def cell_lengths(
    space: Floats2d, members: NDArray[np.int32], ids: NDArray[np.int32], directions: Floats2d
) -> NDArray[np.float64]:
    """Return the distance at which another word of the class becomes nearer.

    The bisector of x and y is crossed at (1 - x.y) / u.(y - x), rows having length 1.

    Args:
        space: Floats2d (words, r), rows of length 1.
        members: Ints1d, the class, ascending.
        ids: Ints1d (n,), the moving words.
        directions: Floats2d (n, r), of length 1.

    Returns:
        Floats1d (n,): 0 for a word outside the class, infinite if no other word is ever nearer.
    """
    places = np.searchsorted(members, ids).clip(max=len(members) - 1)
    inside = members[places] == ids
    lengths = np.zeros(len(ids))
    # Constants go into the products as one more dimension, which gives 1 - x.y and u.y - u.x.
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


ABOVE_BLIND: Final = 0.01
"""The share that vectors may add to a blind guess that exceeds the level already."""

_CLASS_DRAWS: Final = 5_000
"""Words attacked in a class. The mean of the attacker's confidence errs by half a point."""

_GRID: Final = tuple(np.geomspace(0.5, 250.0, 22).tolist())
"""Etas at which success is measured. Its log odds are nearly linear in log eta between them."""


@dataclass(frozen=True)
class Hiding:
    """The protection of the words of one class, as a function of eta.

    Attributes:
        attacker: knows the class and the frequency of each of its words.
        rows: Floats2d (n, r), words of running text.
        steps: Floats2d (n, r), their noise at eta 1. Divided by eta it is the noise at eta.
        cells: Floats1d (n,), the distance along its step at which a word stops being nearest.
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
        draws: int = _CLASS_DRAWS,
        seed: int = 0,
    ) -> Self:
        """Draw words of running text, with one noise each that serves every eta.

        Args:
            space: Floats2d (words, r).
            weights: Floats1d (words,), occurrences of each word in the class.
            members: Ints1d ids of the words that may be released in the class.
            draws: approximate number of words.
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
        """Return the share of words that the attacker recovers from their vectors.

        This is the mean of the attacker's confidence. The confidence is right on text that follows
        the attacker's prior, and a mean varies far less than a count of hits.
        """
        noisy = self.rows + self.steps / np.float32(eta)
        return float(self.attacker.confidence(noisy, eta).mean())

    def levels(self, targets: Sequence[float], survival: Survival) -> list[ClassLevel]:
        """Return the level for each of ``targets``, the shares of words that may be recovered."""
        rising = np.maximum.accumulate([self.success(eta) for eta in _GRID])
        goals = [t if self.blind < t else self.blind + ABOVE_BLIND for t in targets]
        # Just above blind guessing the curve is nearly flat. There the least eta counts.
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


LEVELS: Final = {"strong": 0.85, "balanced": 0.45, "light": 0.14}
"""Share of protected in-vocabulary words replaced on running text."""

REPLACED_ON_CURVE: Final = tuple(np.linspace(0.97, 0.03, 12).tolist())
"""Shares replaced at the points of a manifest's curve."""

ATTACK_ON_CURVE: Final = (
    0.03,
    0.045,
    0.07,
    0.1,
    0.15,
    0.2,
    0.27,
    0.35,
    0.45,
    0.55,
    0.65,
    0.75,
    0.85,
    0.92,
    0.97,
)
"""Shares recovered from single vectors at the points of a manifest's curve."""

_DRAWS: Final = 40_000
"""Words drawn to set eta.

Systematic draws, with survival in closed form, give the share replaced a standard error below 0.1
point."""
_TAIL_DRAWS: Final = 5_000
_ATTACKS: Final = {True: (10_000, 5_000), False: (3_000, 1_000)}
"""Words attacked (all, and of each tail) at a level and at a point of the curve."""
_FITTED: Final = 1_000
"""Words drawn to fit the attacker on released words."""
_WIDEST: Final = (1.0, 3_000.0)
"""Range of eta that is searched."""

_Cells = Mapping[str, NDArray[np.float64]]
"""Cell lengths by class, see `cell_lengths`."""

_A = TypeVar("_A")
_B = TypeVar("_B")


class Run(Protocol):
    """`map`, or the `map` of a pool of threads."""

    def __call__(self, function: Callable[[_A], _B], items: Iterable[_A], /) -> Iterable[_B]: ...


@dataclass(frozen=True)
class Text:
    """Running text as one mechanism sees it.

    Attributes:
        space: Floats2d (words, r).
        classes: Ints1d ids by class name, the possible replacements.
        weights: Floats1d (words,) by class name, occurrences of each word in the class.
        rare: Bools1d (words,).
        names: as ``weights``, but proper nouns only.
    """

    space: Floats2d
    classes: Mapping[str, NDArray[np.int32]]
    weights: Mapping[str, NDArray[np.float64]]
    rare: NDArray[np.bool_]
    names: Mapping[str, NDArray[np.float64]]

    @property
    def tails(self) -> dict[str, dict[str, NDArray[np.float64]]]:
        """``weights`` of rare words and of names, or of all words if the text has none."""
        rare = {name: each * self.rare for name, each in self.weights.items()}
        return {
            kind: {name: each for name, each in only.items() if each.any()} or dict(self.weights)
            for kind, only in (("rare", rare), ("names", self.names))
        }

    def members(self, name: str) -> NDArray[np.int32]:
        """Return the words that may replace a word of class ``name``."""
        return self.classes[released_in(name, self.classes)]

    @cached_property
    def attackers(self) -> dict[str, SphereMap]:
        """The attackers, by class name."""
        return {
            name: SphereMap.of(self.space, Candidates.of(each, self.members(name)))
            for name, each in self.weights.items()
        }

    def privatize(self, name: str, noisy: Floats2d) -> NDArray[np.int32]:
        """Return the ids of the nearest words, by exact search."""
        members = self.members(name)
        return members[ExactIndex(self.space[members]).nearest(noisy)]


def calibrate(
    text: Text, run: Run, *, basis: Text | None = None, seed: int = 0
) -> tuple[dict[str, Level], tuple[Level, ...]]:
    """Return a mechanism's levels, and points between and beyond them in order of eta.

    Every draw comes from ``seed``, and the same words and directions serve every eta. So the curve
    is smooth, and a second build gives the same numbers.

    Args:
        text: the words of the text, their replacements, and the space.
        run: applies a function to items. Results do not depend on the number of threads.
        basis: sets the etas in place of ``text``. The more words a list has, the less noise
            replaces a given share. An attacker who knows the frequencies of words gains from less
            noise all the same, so a longer list keeps the noise of its basis.

    Raises:
        InvalidInput: too many words are outside the classes to reach a level.
    """
    survival = Survival(text.space.shape[1])
    cells = _cells(basis or text, (basis or text).weights, _DRAWS, seed, run)
    strangers = 1 - survival(_joined(cells, dict.fromkeys(cells, _WIDEST[1])), 1.0)
    if strangers >= min(LEVELS.values()):  # replaced even by the shortest noise
        raise InvalidInput(
            f"{strangers:.0%} of the words people write are in none of the backbone's classes",
            fix="use a backbone with a larger vocabulary, or of the language of the frequencies",
            subject="backbone",
        )
    shares = (*LEVELS.values(), *(share for share in REPLACED_ON_CURVE if share > strangers))
    lengths = _joined(cells, dict.fromkeys(cells, 1.0))
    etas = [_eta_for(1 - share, lengths, survival) for share in shares]
    if basis:
        cells = _cells(text, text.weights, _DRAWS, seed, run)
    return _measured(text, [Level(eta) for eta in etas], cells, survival, run, seed)


def calibrate_by_class(
    text: Text, every: Text, run: Run, *, seed: int = 0
) -> tuple[dict[str, Level], tuple[Level, ...]]:
    """Return the same for a mechanism with an eta for each class, by `levels.NAMES`.

    Args:
        text: the words that get noise by default. The shares of a level are about them.
        every: the words of all classes.
        run: see `calibrate`.
    """
    survival = Survival(text.space.shape[1])
    named = [single_word(share) for share in NAMES.values()]
    named = [share - float(sampling_error(share, _ATTACKS[True][0])) for share in named]
    targets = (*named, *ATTACK_ON_CURVE)

    def hiding(name: str) -> list[ClassLevel]:
        weights, members = every.weights[name], every.members(name)
        return Hiding.of(text.space, weights, members, _CLASS_DRAWS, seed).levels(targets, survival)

    found = dict(zip(every.weights, run(hiding, every.weights), strict=True))
    by_class = [
        {name: levels[place] for name, levels in found.items()} for place in range(len(targets))
    ]
    asked = [Level(max(each.eta for each in one.values()), classes=one) for one in by_class]
    cells = _cells(text, text.weights, _DRAWS, seed, run)
    return _measured(text, asked, cells, survival, run, seed)


def _measured(
    text: Text, asked: Sequence[Level], cells: _Cells, survival: Survival, run: Run, seed: int
) -> tuple[dict[str, Level], tuple[Level, ...]]:
    """Measure ``asked``: first the named levels, then the points of a curve."""
    tail_cells = {
        kind: _cells(text, weights, _TAIL_DRAWS, seed + 1, run)
        for kind, weights in text.tails.items()
    }

    def measure(task: tuple[Level, bool]) -> Level:
        level, named = task
        etas = {name: level.etas.get(name, level.eta) for name in text.weights}
        words, tail_words = _ATTACKS[named]
        slope = _fit_slope(text, etas, seed + 2)

        def from_vector(sample: _Sample) -> NDArray[np.int32]:
            return text.attackers[sample.name].behind_vectors(sample.noisy, etas[sample.name])

        def from_word(sample: _Sample) -> NDArray[np.int32]:
            rows = text.space[sample.released]
            guesses: NDArray[np.int32] = text.attackers[sample.name].behind_words(rows, slope)[0]
            return guesses

        def shares(
            weights: Mapping[str, NDArray[np.float64]], cells: _Cells, n: int
        ) -> tuple[float, float, float]:
            """Return the shares replaced, recovered from vectors, and recovered from words."""
            kept = survival(_joined(cells, etas), 1.0)
            samples = _simulate(text, weights, n, etas, seed + 3)
            return (
                1 - kept,
                _success(samples, from_vector, kept),
                _success(samples, from_word, kept),
            )

        overall = shares(text.weights, cells, words)
        rare, names = (
            shares(weights, tail_cells[kind], tail_words) for kind, weights in text.tails.items()
        )
        return replace(
            level,
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

    measured = [*run(measure, [(level, n < len(LEVELS)) for n, level in enumerate(asked)])]
    levels, curve = measured[: len(LEVELS)], measured[len(LEVELS) :]
    return dict(zip(LEVELS, levels, strict=True)), tuple(curve)


def _cells(
    text: Text, weights: Mapping[str, NDArray[np.float64]], n: int, seed: int, run: Run
) -> _Cells:
    """Return cell lengths of about ``n`` words of running text in random directions, by class."""
    random = np.random.default_rng(seed)
    names, tasks = [], []
    for name, ids in draw(weights, n, random).items():
        steps = noise.draw(random, len(ids), text.space.shape[1], 1.0)
        steps /= np.linalg.norm(steps, axis=1, keepdims=True)
        for start in range(0, len(ids), 2_048):
            some = slice(start, start + 2_048)
            names.append(name)
            tasks.append((text.members(name), ids[some], steps[some]))
    found = [*run(lambda task: cell_lengths(text.space, *task), tasks)]
    parts: dict[str, list[NDArray[np.float64]]] = {name: [] for name in names}
    for name, lengths in zip(names, found, strict=True):
        parts[name].append(lengths)
    return {name: np.concatenate(each) for name, each in parts.items()}


def _joined(cells: _Cells, etas: Mapping[str, float]) -> NDArray[np.float64]:
    """Return all cell lengths, in units of the mean noise of their class over r."""
    return np.concatenate([lengths * etas[name] for name, lengths in cells.items()])


def _eta_for(kept: float, cells: NDArray[np.float64], survival: Survival) -> float:
    """Return the eta of a share, by bisection in log eta."""
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
    """Words of one class in the mechanism: true ids, noisy vectors, released ids."""

    name: str
    ids: NDArray[np.int32]
    noisy: Floats2d
    released: NDArray[np.int32]


def _simulate(
    text: Text,
    weights: Mapping[str, NDArray[np.float64]],
    n: int,
    etas: Mapping[str, float],
    seed: int,
) -> list[_Sample]:
    random = np.random.default_rng(seed)
    samples = []
    for name, ids in draw(weights, n, random).items():
        noisy = perturb(text.space[ids], etas[name], random)
        samples.append(_Sample(name, ids, noisy, text.privatize(name, noisy)))
    return samples


def _fit_slope(text: Text, etas: Mapping[str, float], seed: int) -> float:
    samples = _simulate(text, text.weights, _FITTED, etas, seed)
    true = {sample.name: sample.ids for sample in samples}
    released = {sample.name: sample.released for sample in samples}
    return best_slope(text.attackers, text.space, true, released)


def _success(
    samples: list[_Sample], guess: Callable[[_Sample], NDArray[np.int32]], kept: float
) -> float:
    """Return the share of ``samples`` that ``guess`` recovers.

    A simple attacker takes each released word for the original, and succeeds with the share
    ``kept``, which is known far more exactly than a count. Only the gain over this simple attacker
    is counted, because both attackers' counts vary together.
    """
    gain = sum(
        int((guess(sample) == sample.ids).sum()) - int((sample.released == sample.ids).sum())
        for sample in samples
    )
    return min(1.0, kept + gain / sum(len(sample.ids) for sample in samples))
