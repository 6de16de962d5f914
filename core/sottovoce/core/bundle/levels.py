"""Levels, named and between: ``attack:0.3`` is the lightest at which three in ten are guessed.

Why it is here: an owner knows how many of their words may be guessed, not which eta that takes, and
means guessed by whoever guesses best: not by one who looks at a single word at a time.
Such a level is a name that the bundle's own curve turns into an eta. So nothing has to be stored,
whatever takes a level takes it, and on another bundle it is another eta for the same promise. The
curve was measured on a sample; a target is met with that sample's error taken off it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Annotated, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.core.errors import InvalidInput
from sottovoce.core.system.schema import Range

__all__ = [
    "ATTACKED",
    "MEASURES",
    "ClassLevel",
    "EmbedLevel",
    "Level",
    "between",
    "is_target",
    "name_of",
    "single_word",
    "span",
    "strongest",
]

Eta = Annotated[float, Range(1e-9, 1e9)]
Share = Annotated[float, Range(-1, 2)]
"""An estimate with a control variate may be a little below 0, or above 1."""


@dataclass(frozen=True, slots=True)
class ClassLevel:
    """What a level means for the words of one class.

    ``replaced`` and ``map_attack`` as in `Level`; ``blind`` is the share of running text of this
    class that its commonest word makes up, which is how often one guesses who sees nothing.
    """

    eta: Eta
    replaced: Share
    map_attack: Share
    blind: Share


@dataclass(frozen=True, slots=True)
class Level:
    """One calibrated protection level of a mechanism.

    Shares are of protected in-vocabulary words on running text: ``replaced``
    overall, ``replaced_rare`` outside the 5,000 commonest, ``replaced_names`` of
    proper nouns. ``map_attack`` is the success of the maximum-a-posteriori
    attacker who sees the noisy vector (an upper bound for one who sees the
    released word, ``map_attack_word``). What was not measured has the worst value.

    A mechanism whose classes differ in what they hide has an eta for each of ``classes``, by name;
    ``eta`` is then the largest of them.
    """

    eta: Eta
    replaced: Share = 0.0
    replaced_rare: Share = 0.0
    map_attack: Share = 1.0
    map_attack_rare: Share = 1.0
    map_attack_word: Share = 1.0
    map_attack_word_rare: Share = 1.0
    replaced_names: Share = 0.0
    map_attack_names: Share = 1.0
    map_attack_word_names: Share = 1.0
    classes: Mapping[str, ClassLevel] = field(default_factory=dict, hash=False)

    @property
    def etas(self) -> dict[str, float]:
        """The eta of each class; none where one serves all."""
        return {name: each.eta for name, each in self.classes.items()}


@dataclass(frozen=True, slots=True)
class EmbedLevel:
    """One calibrated level of `token-embedding.v1`.

    ``map_attack`` is the share of the tokens of running text that the maximum-a-posteriori attacker
    on a noisy vector recovers.
    """

    eta: Eta
    map_attack: Share


MEASURES: Final = ("attack", "replaced")

ATTACKED: Final = 3_000
"""Words the builder attacks at a point of a curve."""

_DEVIATIONS: Final = 1.65
"""Standard errors taken off a target: the share is beyond it in one of twenty curves."""

_CONTEXT: Final = (0.17, 0.21)
"""What the strongest attacker gains on who sees one noisy vector: log odds of the first, less the
second times the log odds of the other's success, where that is above 0. He has the released words
only, but all of them, and other text of the very kind; on questions (TREC), the worst kind of text
that was tried. There .25, .285, .62 and .89 became .33, .36, .64 and .86 (`pct2t.v2`, policy
`content`; on news .29, .32, .63 and .87; see ``bench.attacks.kinds``)."""

_REPLACED_ERROR: Final = 0.002
"""The builder knows the share replaced in closed form for some 40,000 words; two of its errors."""

_NAME: Final = re.compile(rf"({'|'.join(MEASURES)}):(0\.\d?[1-9])")


def strongest(attack: ArrayLike) -> NDArray[np.float64]:
    """The share of released words that the strongest attacker recovers on the worst kind of text,
    where the one on single noisy vectors recovers ``attack`` of everyday words.

    >>> strongest([0.22, 0.6, 0.89]).round(2).tolist()
    [0.3, 0.62, 0.89]
    """
    first, less = _CONTEXT
    odds = _log_odds(attack)
    found: NDArray[np.float64] = 1 / (1 + np.exp(-(odds + np.maximum(0, first - less * odds))))
    return found


def single_word(share: float) -> float:
    """The other way round: what must remain to the attacker on vectors for that ``share``.

    >>> round(float(strongest(single_word(0.3))), 9)
    0.3
    """
    first, less = _CONTEXT
    odds = float(_log_odds(share))
    return _share(min(odds, (odds - first) / (1 - less)))


def is_target(name: str) -> bool:
    """Whether ``name`` is a level of this kind.

    Shares are in hundredths and written in one way only: a document released at two levels is two
    releases, so there must not be any number of levels.

    >>> is_target("attack:0.3"), is_target("attack:0.30"), is_target("strong")
    (True, False, False)
    """
    return _NAME.fullmatch(name) is not None


def name_of(measure: str, share: float) -> str:
    """The level that keeps to ``share``, in hundredths towards more noise.

    Raises:
        InvalidInput: not a share.

    >>> name_of("attack", 0.308), name_of("replaced", 0.701)
    ('attack:0.3', 'replaced:0.71')
    """
    if 0 < share < 1:
        fine = share * 100
        hundredths = math.floor(fine + 1e-9) if measure == "attack" else math.ceil(fine - 1e-9)
        if 0 < hundredths < 100:
            return f"{measure}:{hundredths / 100:g}"
    raise InvalidInput(
        "a target is a share of words", fix="give a number from 0.01 to 0.99", subject="target"
    )


@lru_cache(maxsize=128)
def between(curve: tuple[Level, ...], name: str) -> Level:
    """The largest eta that keeps to the level ``name``, and what is to be expected there.

    "attack" bounds what is recovered by the `strongest` attacker from above, "replaced" bounds
    ``replaced`` from below. Between
    points of the curve the odds of these shares, and of all the others, are taken to follow a power
    of eta, as they nearly do.

    Args:
        curve: of one mechanism, see `Manifest.curve`.
        name: see `is_target`.

    Raises:
        InvalidInput: not such a name, or the curve does not reach it; the fix gives its range.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise InvalidInput(
            "not a target", fix="write it like attack:0.3 or replaced:0.7", subject="level"
        )
    measure, share = found[1], float(found[2])
    low, high = span(curve, measure)
    if not low <= share <= high:
        raise InvalidInput(
            "the target is outside what was measured",
            fix=f"give a share from {low:.2f} to {high:.2f}",
            subject="target",
        )
    points = _in_order(curve)
    worst = _worst(points, measure)
    wanted = single_word(share) if measure == "attack" else 1 - share
    steps = np.arange(len(points))
    place = float(np.interp(_log_odds(wanted), _log_odds(worst), steps))

    def eta(etas: Sequence[float]) -> float:
        return math.exp(np.interp(place, steps, np.log(etas)))

    def there(shares: Sequence[float]) -> float:
        return _share(np.interp(place, steps, _log_odds(shares)))

    measured = [each.name for each in fields(Level) if each.name not in ("eta", "classes")]
    others = {name: there([getattr(point, name) for point in points]) for name in measured}
    classes = {}
    for name in points[0].classes:
        each = [point.classes[name] for point in points]
        classes[name] = ClassLevel(
            eta([one.eta for one in each]),
            there([one.replaced for one in each]),
            there([one.map_attack for one in each]),
            each[0].blind,
        )
    largest = eta([point.eta for point in points])
    largest = max((one.eta for one in classes.values()), default=largest)
    return Level(eta=largest, classes=classes, **others)


def span(curve: Sequence[Level], measure: str) -> tuple[float, float]:
    """The least and the greatest share, in hundredths, that a target may be.

    Raises:
        InvalidInput: the curve has no two points that differ.
    """
    low, high = 1, 0
    if curve:
        worst = _worst(_in_order(curve), measure)
        outer = worst[[0, -1]]
        ends = sorted(strongest(outer) if measure == "attack" else 1 - outer)
        low, high = max(1, math.ceil(ends[0] * 100)), min(99, math.floor(ends[1] * 100))
    if low > high:
        raise InvalidInput(
            "the bundle has no curve to find a target on",
            fix="take a named level, or pull another bundle",
            subject="target",
        )
    return low / 100, high / 100


def _in_order(curve: Sequence[Level]) -> list[Level]:
    # The largest of many etas may stand still while others grow.
    return sorted(curve, key=lambda point: (point.eta, point.map_attack))


def _worst(points: Sequence[Level], measure: str) -> NDArray[np.float64]:
    """At each point, in order of eta, the share guessed or kept that is hardly exceeded."""
    if measure == "attack":
        attack = np.clip([point.map_attack for point in points], 0, 1)
        shares = attack + _DEVIATIONS * np.sqrt(attack * (1 - attack) / ATTACKED)
    else:
        shares = 1 + _REPLACED_ERROR - np.array([point.replaced for point in points])
    # Where a lighter point did better than a stronger one, it was luck.
    grown: NDArray[np.float64] = np.maximum.accumulate(shares)
    return grown


def _log_odds(shares: ArrayLike) -> NDArray[np.float64]:
    inside = np.clip(shares, 1e-3, 1 - 1e-3)
    odds: NDArray[np.float64] = np.log(inside / (1 - inside))
    return odds


def _share(log_odds: float) -> float:
    return 1 / (1 + math.exp(-float(log_odds)))
