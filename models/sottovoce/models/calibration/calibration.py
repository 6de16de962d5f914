"""Finds the eta of each protection level, and measures what the level protects.

Why it is here: eta means nothing to a person and little across mechanisms. Where one eta serves all
words, a level is the share of protected words replaced; where every class has its own, it is the
share that whoever guesses recovers, of each class alike. Either way eta is found on a smooth
function, and what is stated of a level is measured at the eta found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.levels import ClassLevel, Level, single_word
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.running_text import draw, released_in
from sottovoce.core.privacy.search import ExactIndex
from sottovoce.core.privacy.sphere_map import Candidates, SphereMap, perturb
from sottovoce.models.calibration.attack import best_slope
from sottovoce.models.calibration.class_calibration import Hiding
from sottovoce.models.calibration.survival import Survival, cell_lengths

__all__ = [
    *("ATTACK_ON_CURVE", "LEVELS", "REPLACED_ON_CURVE", "TARGETS"),
    *("Run", "Text", "calibrate", "calibrate_by_class"),
]

LEVELS: Final = {"strong": 0.85, "balanced": 0.45, "light": 0.14}
"""Share of protected in-vocabulary words replaced on running text."""

REPLACED_ON_CURVE: Final = tuple(np.linspace(0.97, 0.03, 12).tolist())
"""Shares replaced at the points of a manifest's curve."""

TARGETS: Final = {"strong": 0.30, "balanced": 0.62, "light": 0.89}
"""Share of the words of each class that whoever guesses best recovers, see `levels.strongest`."""

ATTACK_ON_CURVE: Final = (
    0.06,
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
"""Share that is recovered from single vectors at the points of a manifest's curve."""

_DRAWS: Final = 40_000
"""Words drawn to set eta. Drawn systematically and with their survival in closed form, the share
replaced has a standard error below 0.1 point."""
_TAIL_DRAWS: Final = 5_000
_ATTACKS: Final = {True: (10_000, 5_000), False: (3_000, 1_000)}
"""Words attacked, all and of each tail, at a level and at a point of the curve."""
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
    strangers = 1 - survival(_joined(cells, dict.fromkeys(cells, _WIDEST[1])), 1.0)
    if strangers >= min(LEVELS.values()):  # replaced however short the noise
        raise InvalidInput(
            f"{strangers:.0%} of the words people write are in none of the backbone's classes",
            fix="use a backbone with a larger vocabulary, or of the language of the frequencies",
            subject="backbone",
        )
    shares = (*LEVELS.values(), *(share for share in REPLACED_ON_CURVE if share > strangers))
    lengths = _joined(cells, dict.fromkeys(cells, 1.0))
    etas = [_eta_for(1 - share, lengths, survival) for share in shares]
    return _measured(text, [Level(eta) for eta in etas], cells, survival, run, seed)


def calibrate_by_class(
    text: Text, every: Text, run: Run, *, seed: int = 0
) -> tuple[dict[str, Level], tuple[Level, ...]]:
    """The same, for a mechanism whose every class has the eta that `TARGETS` ask for.

    Args:
        text: the words that get noise by default, of which a level states its shares.
        every: the words of all classes.
        run: see `calibrate`.
        seed: of the simulation.
    """
    survival = Survival(text.space.shape[1])
    targets = (*map(single_word, TARGETS.values()), *ATTACK_ON_CURVE)

    def hiding(name: str) -> list[ClassLevel]:
        of_class = Hiding.of(text.space, every.weights[name], every.members(name), seed=seed)
        return of_class.levels(targets, survival)

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
    """What there is to be said of ``asked``: the named levels, then points of a curve."""
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
            """Replaced, recovered from the vector, recovered from the word."""
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
    """Cell lengths of about ``n`` words of running text, each in a random direction, by class."""
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
    """All cell lengths, in units of the mean noise of their class over r."""
    return np.concatenate([lengths * etas[name] for name, lengths in cells.items()])


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
    """Share of ``samples`` that ``guess`` finds out.

    Counted as the gain over taking each released word for the original: that one's success is the
    share ``kept``, known far more exactly than by counting, and both counts vary together.
    """
    gain = sum(
        int((guess(sample) == sample.ids).sum()) - int((sample.released == sample.ids).sum())
        for sample in samples
    )
    return min(1.0, kept + gain / sum(len(sample.ids) for sample in samples))
