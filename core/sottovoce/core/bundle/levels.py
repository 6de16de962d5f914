"""Levels, named and in between: at ``attack:0.3`` an attacker guesses at most three words in ten.

An owner can say how many words may be guessed, but not which eta that takes. "Guessed" means by the
strongest attacker, not by one that looks at a single word at a time. A target level like
``attack:0.3`` is a name that the bundle's own curve turns into the largest eta that meets it. So
nothing has to be stored, and every interface that takes a level takes a target. On another bundle
the same promise has another eta. The curve was measured on a sample, so its sampling error is taken
off the target.
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
from sottovoce.core.platform.schema import Range

Eta = Annotated[float, Range(1e-9, 1e9)]
Share = Annotated[float, Range(-1, 2)]
"""A share; an estimate with a control variate may be a little below 0, or above 1."""


@dataclass(frozen=True, slots=True)
class ClassLevel:
    """The measured effect of a level on the words of one class.

    ``replaced`` and ``map_attack`` are as in `Level`. ``blind`` is the share of the class's
    commonest word in its running text. That is the success of an attacker that sees nothing.
    """

    eta: Eta
    replaced: Share
    map_attack: Share
    blind: Share


@dataclass(frozen=True, slots=True)
class Level:
    """One calibrated protection level of a mechanism.

    Shares are of protected in-vocabulary words on running text. ``replaced`` is the share overall,
    ``replaced_rare`` outside the 5,000 commonest words, and ``replaced_names`` of proper nouns.
    ``map_attack`` is the success of the maximum-a-posteriori attacker that sees the noisy vector.
    It is an upper bound for ``map_attack_word``, the success of an attacker that sees the released
    word. Shares that were not measured have the worst value.

    If a mechanism's classes hide different things, ``classes`` holds an eta for each, by name.
    ``eta`` is then the largest.
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
        """The eta of each class; empty where one eta serves all."""
        return {name: each.eta for name, each in self.classes.items()}


@dataclass(frozen=True, slots=True)
class EmbedLevel:
    """One calibrated level of `token-embedding.v1`.

    ``map_attack`` is the share of tokens of running text that the maximum-a-posteriori attacker
    recovers from a noisy vector.
    """

    eta: Eta
    map_attack: Share


MEASURES: Final = ("attack", "replaced")

ATTACKED: Final = 3_000
"""Words that the builder attacks at a point of a curve."""

_DEVIATIONS: Final = 1.65
"""Standard errors taken off a target: one bundle in twenty is beyond it."""

NAMES: Final = {"strong": 0.30, "balanced": 0.62, "light": 0.89}
"""The promise of the named levels: the share that the `strongest` attacker recovers at most."""

_STRONGEST: Final = (
    (0.020, 0.239),
    (0.060, 0.303),
    (0.081, 0.323),
    (0.171, 0.379),
    (0.500, 0.630),
    (0.572, 0.672),
    (0.824, 0.872),
    (0.868, 0.906),
)
"""Success of the attacker on single noisy vectors, and the most that the strongest recovers there.

The second number is no less than the upper end of the 95 % interval of the strongest attacker, on
the worst of six kinds of text. He has only the released words, but of the whole text, and other
text of the same kind. He multiplies the probabilities of a trained network with those of counts.
Measured for `pct2t.v2` under the policy `content` by ``python -m bench.attacks.trained``, whose
last lines compare levels with their names.

Most pairs are of single texts, when question words still had noise. Texts under one key were
attacked at the named levels alone (``--one-key``). The pair at .5 is .01 above the worst of three
runs, for a network that learns more. The first pair continues the next two.
"""

_REPLACED_ERROR: Final = 0.002
"""Two standard errors of the share replaced.

The builder computes the share in closed form for some 40,000 words.
"""

_NAME: Final = re.compile(rf"({'|'.join(MEASURES)}):(0\.\d?[1-9])")


def strongest(attack: ArrayLike) -> NDArray[np.float64]:
    """Return the largest share of the released words that the strongest attacker recovers.

    It is the largest over all kinds of text. ``attack`` is the share of everyday words that the
    attacker on single noisy vectors recovers. The log odds are interpolated between measurements.
    Beyond the outermost measurements, their gain stays constant.

    >>> strongest([0.171, 0.572]).round(3).tolist()
    [0.379, 0.672]
    """
    single, most = _log_odds(_STRONGEST).T
    found: NDArray[np.float64] = 1 / (1 + np.exp(-_mapped(_log_odds(attack), single, most)))
    return found


def single_word(share: float) -> float:
    """Return the inverse of `strongest`: the success left to the attacker on single vectors.

    >>> round(float(strongest(single_word(0.3))), 9)
    0.3
    """
    single, most = _log_odds(_STRONGEST).T
    return _share(float(_mapped(_log_odds(share), most, single)))


def sampling_error(attack: ArrayLike, words: int) -> NDArray[np.float64]:
    """Return how far the recovered share of ``words`` words may exceed ``attack`` by chance.

    >>> round(float(sampling_error(0.5, 3_000)), 3)
    0.015
    """
    share = np.asarray(attack, np.float64)
    error: NDArray[np.float64] = _DEVIATIONS * np.sqrt(share * (1 - share) / words)
    return error


def _mapped(
    odds: NDArray[np.float64], source: NDArray[np.float64], target: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Interpolate, and keep the difference of the last pair beyond it."""
    inside = np.clip(odds, source[0], source[-1])
    found: NDArray[np.float64] = np.interp(inside, source, target) + (odds - inside)
    return found


def is_target(name: str) -> bool:
    """Return whether ``name`` is a target level.

    Shares are in hundredths and have one spelling only. A document released at two levels is two
    releases, so the number of levels must be bounded.

    >>> is_target("attack:0.3"), is_target("attack:0.30"), is_target("strong")
    (True, False, False)
    """
    return _NAME.fullmatch(name) is not None


def name_of(measure: str, share: float) -> str:
    """Return the level that keeps to ``share``, rounded to hundredths towards more noise.

    >>> name_of("attack", 0.308), name_of("replaced", 0.701)
    ('attack:0.3', 'replaced:0.71')

    Raises:
        InvalidInput: not a share.
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
    """Return the largest eta that keeps to the level ``name``, with the shares expected there.

    "attack" is an upper bound on the share that the `strongest` attacker recovers. "replaced" is a
    lower bound on ``replaced``. Between points of the curve, the odds of all shares are taken to
    follow a power of eta, as they nearly do.

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
    """Return the least and the greatest share, in hundredths, that a target may have.

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
    """Return at each point, in order of eta, an upper bound of the share guessed or kept."""
    if measure == "attack":
        attack = np.clip([point.map_attack for point in points], 0, 1)
        shares = attack + sampling_error(attack, ATTACKED)
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
