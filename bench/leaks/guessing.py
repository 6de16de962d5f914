"""Guessing games with a list of candidates: which digit was spelled, which rare name was meant?

A surrogate must reveal nothing about the original word, for any number of releases. The attacker
runs the same version and releases each candidate many times under a key chosen by him. He learns
from these releases, then guesses from the victim's. He knows the candidates and the word's place,
and must not beat a blind guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import binomtest

from bench import data
from bench.leaks.corpora import Document
from bench.leaks.released import Fate

__all__ = ["DIGITS", "Budget", "Releases", "digits", "names", "rare"]

Releases = Callable[[Sequence[str]], list[tuple[Fate, ...]]]
"""A function that releases texts, under a new key for each call."""

DIGITS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SPELLED: Final = 10
"""Digits of a number."""
_BEFORE: Final = "You can reach me at"
_NAMED: Final = "This is {} again ."
_CONTEXT: Final = 12
"""Words of another message after it."""


@dataclass(frozen=True)
class Budget:
    """Sizes of the games.

    Attributes:
        numbers: spelled numbers that the attacker learns from; half as many are guessed.
        candidates: rare names on his list.
        learnt: releases of each candidate that he learns from.
        guessed: releases of each candidate that he guesses from, one by one or all together.
    """

    numbers: int = 600
    candidates: int = 50
    learnt: int = 40
    guessed: int = 20


def digits(release: Releases, budget: Budget, seed: int = 0) -> dict[str, Any]:
    """Guess the digits of spelled numbers, each from its released word.

    Returns:
        ``success`` with its Wilson interval ``ci``, and ``blind``, the best guess without a look.
    """
    random = np.random.default_rng(seed)
    met = Counter[tuple[str, int]]()
    for number, words in _numbers(release, budget.numbers, random):
        met.update(zip(words, number, strict=True))
    right, n = 0, 0
    said = Counter[int]()
    for number, words in _numbers(release, budget.numbers // 2, random):
        for digit, word in zip(number, words, strict=True):
            right += _likeliest(met, word) == digit
            said[digit] += 1
            n += 1
    return _scored(right, n, max(said.values()))


def _numbers(release: Releases, n: int, random: Generator) -> Iterator[tuple[list[int], list[str]]]:
    """Return spelled numbers, and the released word of each digit."""
    numbers = random.integers(0, len(DIGITS), (n, _SPELLED)).tolist()
    texts = [f"{_BEFORE} {' '.join(DIGITS[digit] for digit in number)} ." for number in numbers]
    for number, text, fates in zip(numbers, texts, release(texts), strict=True):
        spelled = [fate for fate in fates if text[fate.start : fate.end] in DIGITS]
        yield number, [fate.after.lower() for fate in spelled]


def _likeliest(met: Mapping[tuple[str, int], int], word: str) -> int:
    return max(range(len(DIGITS)), key=lambda digit: met.get((word, digit), 0))


def rare(documents: Sequence[Document], listed: Container[str]) -> list[str]:
    """Return unlisted first and last names marked in ``documents``, in an uninformative order."""
    words = {
        document.text[span.start : span.end]
        for document in documents
        for span in document.spans
        if span.group == "persons"
    }
    found = sorted(word for word in words if word.isalpha() and word.isascii() and word.istitle())
    shuffled = np.random.default_rng(0).permutation(len(found)).tolist()
    return [found[place] for place in shuffled if found[place].lower() not in listed]


def names(
    release: Releases, candidates: Sequence[str], space: Mapping[str, NDArray[Any]], budget: Budget
) -> list[dict[str, Any]]:
    """Pick a rare name from a list, given one release or many.

    Args:
        release: see `Releases`.
        candidates: names that no word list has.
        space: public vectors of listed words, by lower-case word.
        budget: sizes of the game.

    Returns:
        For each attacker and number of releases ``success``, ``ci`` and ``blind``. Attackers:
        "vectors" knows the mean vector of each candidate's releases. "looks" knows how often a
        candidate became a word of each kind, length and case. "kind" knows the frequencies of
        kinds alone, which releases reveal on purpose: a person's name becomes a person's name.
    """
    list_of = list(candidates)[: budget.candidates]
    learnt = [*_named(release, list_of, budget.learnt, 0)]
    guessed = [*_named(release, list_of, budget.guessed, budget.learnt)]
    attackers: dict[str, _Looks | _Centres] = {
        "vectors": _Centres(learnt, space),
        "looks": _Looks(learnt, lambda fate: (fate.tag, len(fate.after), fate.after.istitle())),
        "kind": _Looks(learnt, lambda fate: fate.tag),
    }
    return [
        {"attacker": name, "releases": together, **_picked(attacker, guessed, together)}
        for name, attacker in attackers.items()
        for together in (1, budget.guessed)
    ]


def _named(
    release: Releases, candidates: Sequence[str], each: int, first: int
) -> Iterator[list[Fate]]:
    """Return the released words of each candidate, in ``each`` different texts."""
    messages = data.messages()
    chosen = [messages[(first + place) % len(messages)] for place in range(each)]
    contexts = [" ".join(message.split()[:_CONTEXT]) for message in chosen]
    texts = [f"{_NAMED.format(name)} {context}" for name in candidates for context in contexts]
    start = _NAMED.index("{")
    found = [
        next(fate for fate in fates if fate.start <= start < fate.end) for fates in release(texts)
    ]
    for place in range(len(candidates)):
        yield found[place * each : (place + 1) * each]


class _Looks:
    """Naive Bayes on one feature of a candidate's released words."""

    def __init__(self, learnt: Sequence[Sequence[Fate]], look: Callable[[Fate], Hashable]) -> None:
        self._look = look
        self._counts = [Counter(map(look, fates)) for fates in learnt]
        self._kinds = len(set().union(*self._counts))

    def scores(self, fate: Fate) -> NDArray[np.float64]:
        """Return log P(looks | candidate), by candidate."""
        met = np.array([counts[self._look(fate)] for counts in self._counts], float)
        total = np.array([counts.total() for counts in self._counts])
        found: NDArray[np.float64] = np.log((met + 1) / (total + self._kinds))
        return found


class _Centres:
    """The mean vector of each candidate's released words; the nearest is likeliest."""

    def __init__(self, learnt: Sequence[Sequence[Fate]], space: Mapping[str, NDArray[Any]]) -> None:
        self._space, self._width = space, len(next(iter(space.values())))
        self._centres = np.stack([self._mean(fates) for fates in learnt])

    def _row(self, fate: Fate) -> NDArray[np.float64]:
        none = np.zeros(self._width)
        return np.asarray(self._space.get(fate.after.lower(), none), float)

    def _mean(self, fates: Sequence[Fate]) -> NDArray[np.float64]:
        mean: NDArray[np.float64] = np.mean([self._row(fate) for fate in fates], axis=0)
        mean /= max(float(np.linalg.norm(mean)), 1e-9)
        return mean

    def scores(self, fate: Fate) -> NDArray[np.float64]:
        """Return cosines with the centres; the von Mises-Fisher likelihood orders alike."""
        found: NDArray[np.float64] = self._centres @ self._row(fate)
        return found


def _picked(
    attacker: _Looks | _Centres, guessed: Sequence[Sequence[Fate]], together: int
) -> dict[str, Any]:
    right, n = 0, 0
    for truth, fates in enumerate(guessed):
        scores = [attacker.scores(fate) for fate in fates]
        for start in range(0, len(scores), together):
            summed = np.sum(scores[start : start + together], axis=0)
            best = np.flatnonzero(summed >= summed.max() - 1e-12)
            right += int(np.random.default_rng([truth, start]).choice(best)) == truth
            n += 1
    return _scored(right, n, n / len(guessed))


def _scored(right: int, n: int, blind: float) -> dict[str, Any]:
    likely = binomtest(right, n).proportion_ci(method="wilson")
    ci = [float(likely.low), float(likely.high)]
    return {"success": right / n, "ci": ci, "blind": blind / n}
