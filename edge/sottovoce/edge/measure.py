"""Measure on the device: time, memory, and how well privatised texts can still be learnt.

The cost of a level depends on the task. Asking the cloud would release the same texts at every
level tried. So a stand-in learns on the device: the owner's labelled texts are privatised,
classified and discarded. Nothing leaves and nothing is charged. The cloud's adapter usually
classifies better, but the fall in accuracy from level to level carries over.

Owners can measure their own device instead of trusting figures from another board. `sotto bench`
shows time and memory, and needs nothing installed beside the agent. The repository's fuller
benchmarks use the same parts.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle import levels
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import Level
from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.privacy import mechanisms
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Policy, Setting, Treatment
from sottovoce.core.privacy.privatizer import STAGES, Privatizer
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.words import Kind, split

_SENTENCE = 12


class Stopwatch:
    """Adds up seconds by name; `Privatizer` takes `stage`.

    Args:
        clock: in seconds: `time.perf_counter`, or `time.thread_time`, which does not count the time
            that other processes take on a busy machine.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time within the block to ``name``."""
        begin = self.clock()
        try:
            yield
        finally:
            self.seconds[name] += self.clock() - begin


def document(bundle: Bundle, words: int) -> str:
    """Return a text of ``words`` words from the bundle's own list.

    It has full stops and capitals. The owner need not supply real text. Rare words are more
    frequent here than in real text, and they cost no less.
    """
    places = np.random.default_rng(0).integers(len(bundle.words), size=words)
    listed = [bundle.words[place] for place in places.tolist()]
    sentences = (listed[start : start + _SENTENCE] for start in range(0, words, _SENTENCE))
    return " ".join(" ".join(sentence).capitalize() + "." for sentence in sentences)


def latency(
    privatizer: Privatizer,
    watch: Stopwatch,
    text: str,
    setting: Setting,
    repeats: int,
    between: Callable[[], object] = lambda: None,
) -> tuple[float, dict[str, float]]:
    """Measure median times over ``repeats`` releases of ``text`` under a key.

    One release before them is not counted.

    Args:
        privatizer: made with ``watch.stage``.
        watch: is reset.
        between: called before each release, to interleave something else.

    Returns:
        Milliseconds from text to text, and those of each stage.
    """
    key = Key(os.urandom(32))
    totals: list[float] = []
    stages: dict[str, list[float]] = {name: [] for name in STAGES}
    for repeat in range(repeats + 1):
        between()
        watch.seconds = dict.fromkeys(STAGES, 0.0)
        begin = watch.clock()
        privatizer.release(text, setting, key=key)
        total = watch.clock() - begin
        if repeat:
            totals.append(total * 1e3)
            for name, seconds in watch.seconds.items():
                stages[name].append(seconds * 1e3)
    return statistics.median(totals), {n: statistics.median(each) for n, each in stages.items()}


def resident(process: int | str = "self") -> dict[str, float]:
    """Return a process's memory in MB; empty without ``/proc``.

    Args:
        process: its number, or "self".

    Returns:
        "peak" and "now" (RSS); the parts "private" and "files" of "now"; and "pss", which counts
            each shared page by the process's share.
    """
    kinds = {"VmHWM": "peak", "VmRSS": "now", "RssAnon": "private", "RssFile": "files"}
    kinds |= {"Pss": "pss"}
    found: dict[str, float] = {}
    for file in ("status", "smaps_rollup"):
        with suppress(OSError), open(f"/proc/{process}/{file}", encoding="ascii") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name in kinds:
                    found[kinds[name]] = round(int(value.split()[0]) * 1024 / 1e6, 1)
    return found


def wait_until_settled(process: int) -> None:
    """Wait until a process's private memory is constant for a second, a minute at most."""
    since = time.monotonic()
    deadline = since + 60
    before = -1.0
    while time.monotonic() < min(since + 1, deadline):
        now = resident(process).get("private", 0.0)
        if abs(now - before) > 0.1:
            before, since = now, time.monotonic()
        time.sleep(0.05)


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
        """Return the strongest level with an interpolated accuracy of at least ``target``.

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
        texts: beyond `MOST_TEXTS`, a sample is used.
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
        mechanism: the name of a mechanism that uses readings.
        policy: which readings pass, and which get noise.

    Raises:
        NotFound: there is no such mechanism.
    """
    made = mechanisms.make(mechanism, level, policy.with_noise())
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
