"""Estimate on the device how well privatised texts can still be learnt, by level.

The cost of a level depends on the task. Asking the cloud would release the same texts at every
level tried. So a stand-in learns on the device: the owner's labelled texts are privatised,
classified and discarded. Nothing leaves and nothing is charged. The cloud's adapter usually
classifies better, but the fall in accuracy from level to level carries over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle import levels
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import Level
from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.privacy.mechanisms import registry
from sottovoce.core.privacy.policies import Policy, Treatment
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.words import Kind, split

__all__ = [
    "FOLDS",
    "LEVELS",
    "MOST_TEXTS",
    "Point",
    "Utility",
    "accuracy",
    "drawn",
    "estimate",
    "kernel",
    "verbatim",
]

LEVELS: Final = 7
"""Number of levels tried, evenly spaced.

They cover what the attacker can reach and the owner allows."""
MOST_TEXTS: Final = 1_500
"""Largest number of texts used from a file.

With it, the standard error of an accuracy is 1.3 points at most. The time for the equations grows
with the cube.
"""
FOLDS: Final = 5
_RIDGE: Final = 1.0

Texts = Sequence[str]
Gram = NDArray[np.float64]
"""Inner products of n texts: Floats2d (n, n)."""


@dataclass(frozen=True, slots=True)
class Point:
    """Accuracy at one level; ``attack`` is the share that its name states."""

    attack: float
    eta: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Utility:
    """Accuracy of a stand-in classifier on the owner's texts.

    Attributes:
        texts: number of texts used.
        guess: accuracy of always answering the commonest label.
        clear: accuracy on the original texts; no level can be expected to exceed it.
        points: accuracy on privatised texts, in order of eta.
    """

    texts: int
    guess: float
    clear: float
    points: tuple[Point, ...]

    @property
    def error(self) -> float:
        """Return the largest standard error of an accuracy."""
        return float(0.5 / np.sqrt(self.texts))

    def reaching(self, target: float) -> str:
        """Return the strongest level whose interpolated accuracy reaches ``target``.

        A level's accuracy counts no more than any lighter level's.

        Raises:
            InvalidInput: the clear texts, or the lightest level tried, do not reach it.
        """
        if self.clear < target:
            raise InvalidInput(
                f"even unprotected, the texts are classified with accuracy {self.clear:.2f} only",
                fix="give a lower target, or more texts",
                subject="target",
            )
        reached = np.array([point.accuracy for point in self.points])
        reached = np.minimum.accumulate(reached[::-1])[::-1]
        shares = np.array([point.attack for point in self.points])
        if reached[-1] < target:
            raise InvalidInput(
                f"at the lightest level tried the accuracy is {reached[-1]:.2f}",
                fix="give a lower target, or more texts",
                subject="target",
            )
        first = int(np.argmax(reached >= target))
        if first == 0:
            return levels.name_of("attack", float(shares[0]))
        ends = slice(first - 1, first + 1)  # reached[first - 1] < target <= reached[first]
        share = float(np.interp(target, reached[ends], shares[ends]))
        return levels.name_of("attack", np.ceil(share * 100 - 1e-9) / 100)


def estimate(
    bundle: Bundle,
    privatizer: Privatizer,
    texts: Texts,
    labels: Sequence[str],
    mechanism: str,
    policy: str,
    *,
    step: Callable[[], None] = lambda: None,
) -> Utility:
    """Try `LEVELS` levels on labelled texts, on the device alone.

    Args:
        bundle: its curve defines the possible levels.
        privatizer: over the same bundle.
        texts: beyond `MOST_TEXTS`, a sample is used.
        labels: one for each text.
        mechanism: versioned name.
        policy: parts of speech that are replaced.
        step: called after each text at each level, `LEVELS` times the number of texts used.

    Raises:
        InvalidInput: no two labels have `FOLDS` texts each, or an input is not a text; the message
            gives its number.
        NotFound: unknown mechanism or policy.
        NotReady: the owner does not allow the policy, or not even the strongest level.
    """
    chosen = np.random.default_rng(0).permutation(len(texts))[:MOST_TEXTS].tolist()
    used = [texts[place] for place in chosen]
    answers = [labels[place] for place in chosen]
    times = Counter(answers)
    if sum(number >= FOLDS for number in times.values()) < 2:
        raise InvalidInput(
            "too few labelled texts to learn from",
            fix=f"give at least {FOLDS} texts of each of at least two labels",
            subject="labelled",
        )
    low, high = levels.span(bundle.manifest.curve.get(mechanism, ()), "attack")
    high = _allowed(privatizer, mechanism, policy, low, high)
    vectors = Vectors(bundle)
    points = []
    for share in sorted({round(float(share), 2) for share in np.linspace(low, high, LEVELS)}):
        name = levels.name_of("attack", share)
        setting, released = Setting(name, mechanism, policy), []
        for place, text in zip(chosen, used, strict=True):
            try:
                released.append(privatizer.release(text, setting).text)
            except InvalidInput as error:
                raise InvalidInput(
                    f"text {place + 1}: {error.problem}", fix=error.fix, subject=error.subject
                ) from error
            step()
        found = accuracy(kernel(released, vectors, bundle.manifest.clitics), answers)
        points.append(Point(share, bundle.manifest.level(mechanism, name).eta, found))
    return Utility(
        texts=len(used),
        guess=max(times.values()) / len(answers),
        clear=accuracy(kernel(used, vectors, bundle.manifest.clitics), answers),
        points=tuple(points),
    )


def _allowed(privatizer: Privatizer, mechanism: str, policy: str, low: float, high: float) -> float:
    """Return the largest share from ``low`` to ``high`` with a permitted level."""
    for hundredths in range(round(100 * high), round(100 * low), -1):
        with suppress(NotReady):
            name = levels.name_of("attack", hundredths / 100)
            privatizer.mechanism(Setting(name, mechanism, policy))
            return hundredths / 100
    return low


def kernel(texts: Texts, vectors: Vectors, clitics: Sequence[str]) -> Gram:
    """Return the similarity of texts: Floats2d (n, n).

    It adds two kernels: the mean of the words' vectors in the privacy space, and shared words. Each
    is centred and scaled to a mean square of 1.
    """
    places: dict[str, int] = {}
    held: list[list[int]] = []
    rows = []
    for text in texts:
        words = [word.text for word in split(text, clitics) if word.kind is Kind.WORD]
        found = vectors.lookup(words)[0]  # (words, r)
        rows.append(found.sum(axis=0, dtype=np.float64) / max(1, len(words)))
        forms = sorted({vectors.normal_form(word) for word in words})
        held.append([places.setdefault(form, len(places)) for form in forms])
    shared = np.zeros((len(texts), len(places)), np.float32)
    for row, own in zip(shared, held, strict=True):
        row[own] = 1
    return _centred(np.stack(rows)) + _centred(shared)


def _centred(features: NDArray[np.floating]) -> Gram:
    products = (features @ features.T).astype(np.float64)
    products -= products.mean(axis=0)  # the same as moving the features, without a second copy
    products -= products.mean(axis=1, keepdims=True)
    return products / max(float(np.trace(products)) / len(products), 1e-12)


def accuracy(alike: Gram, labels: Sequence[str]) -> float:
    """Return the share of texts with a label that the other texts predict.

    Uses ridge regression with `FOLDS`-fold cross-validation, and the same folds for every kernel.

    Args:
        alike: Floats2d (n, n), see `kernel`.
        labels: n labels.
    """
    classes, answers = np.unique(labels, return_inverse=True)
    coded = np.eye(len(classes))[answers]  # (n, classes)
    # In turns within each label, so that every fold has each label.
    order = np.lexsort((np.random.default_rng(0).random(len(answers)), answers))
    fold = np.empty(len(answers), np.int64)
    fold[order] = np.arange(len(answers)) % FOLDS
    right = 0
    for own in range(FOLDS):
        learn, judge = np.flatnonzero(fold != own), np.flatnonzero(fold == own)
        mean = coded[learn].mean(axis=0)
        ridge = alike[np.ix_(learn, learn)] + _RIDGE * np.eye(len(learn))
        weights = np.linalg.solve(ridge, coded[learn] - mean)
        scores = alike[np.ix_(judge, learn)] @ weights + mean
        right += int((scores.argmax(axis=1) == answers[judge]).sum())
    return right / len(answers)


def verbatim(shares: Mapping[str, float], level: Level, mechanism: str, policy: Policy) -> float:
    """Return the share of all words of everyday text that leave as they were typed.

    A word that is drawn anew counts as hidden, because only chance can return the original.

    Args:
        shares: of running text by reading, see `Manifest.shares`.
        level: of the mechanism.
        mechanism: the name of a mechanism that goes by readings.
        policy: which readings pass, and which get noise.

    Raises:
        NotFound: there is no such mechanism.
    """
    made = registry.make(mechanism, level, policy.with_noise())
    found = 0.0
    for reading, share in shares.items():
        if policy.table[reading] is Treatment.PASS:
            found += share
        elif policy.table[reading] is Treatment.NOISE:
            within = level.classes.get(made.word_class(reading, reading == "CLITIC"))
            found += share * (1 - (within.replaced if within else level.replaced))
    return found


def drawn(shares: Mapping[str, float], policy: Policy) -> float:
    """Return the share of words that are replaced at random for their reading alone.

    Names with another reading, which the finder finds, come on top.
    """
    return sum(
        share for reading, share in shares.items() if policy.table[reading] is Treatment.DRAW
    )
