"""Attacks that invert the mechanism: nearest neighbour, maximum a posteriori, and with context.

The papers judge by the first (RAPT v1 A.3.2, RAPT v2 IV-A1, SnD eq. 14). It knows neither the
level nor the language. The other two know both, and the last also reads the sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from bench.attacks.bigram import Bigrams
from bench.attacks.interface import OPEN, Channel, Floats, Releases, Seen
from bench.attacks.text import Ints

__all__ = ["ContextMap", "Map", "Nearest", "Rescaled", "chunks"]

_SCORES: Final = 1 << 22
"""Scores held at once."""
_CANDIDATES: Final = 48
"""Candidates of a position that may be part of the best sentence."""
_TRIED: Final = 2_500
"""Public words on which a rate or a weight is fitted."""
_LENT: Final = 100
"""Words that a group borrows from all others when its rate is fitted."""
_WEIGHTS: Final = (0.0, 0.4, 0.6, 0.8, 1.0)


def chunks(
    channel: Channel, seen: Seen, only: int | None = None
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the hidden positions by group, or of one group, few enough for a matrix of scores."""
    groups = np.unique(seen.group[seen.group != OPEN]).tolist()
    for group in groups if only is None else [only]:
        which = np.flatnonzero(seen.group == group)
        step = max(1, _SCORES // len(channel.candidates[group].ids))
        for start in range(0, len(which), step):
            yield group, which[start : start + step]


class Nearest:
    """The nearest symbol to the visible one; for a released word, this is the word itself."""

    name: ClassVar[str] = "nearest"

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def fit(self, public: Releases) -> None:
        """Learn nothing."""

    def guess(self, seen: Seen) -> Ints:
        found = seen.symbols.copy()
        if seen.vectors is None:
            return found
        for group, which in chunks(self.channel, seen):
            candidates = self.channel.candidates[group]
            rows = self.channel.rows[candidates.ids]
            scores = self._look(seen.vectors[which]) @ rows.T - np.square(rows).sum(axis=1) / 2
            found[which] = candidates.ids[scores.argmax(axis=1)]
        return found

    def _look(self, vectors: Floats) -> Floats:
        return vectors


class Rescaled(Nearest):
    """The nearest symbol after scaling every vector to the usual length of a symbol's vector.

    Noise in many dimensions is long, and the nearest row to a long vector is a long row. Where all
    rows have length 1 this changes nothing.
    """

    name: ClassVar[str] = "nearest, rescaled"

    def fit(self, public: Releases) -> None:
        """Learn the usual length."""
        listed = public.true[public.true < len(self.channel.rows)]
        self._usual = float(np.linalg.norm(self.channel.rows[listed], axis=1).mean())

    def _look(self, vectors: Floats) -> Floats:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        scaled: Floats = vectors * (self._usual / np.maximum(lengths, 1e-12)).astype(np.float32)
        return scaled


class Map:
    """argmax over x of log p(x) + rate * evidence(seen, x), each symbol by itself."""

    name: ClassVar[str] = "MAP"

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._places: dict[int, int] = {}
        self._usual = len(channel.rates(0)) - 1
        self._shift = 0

    def rate(self, group: int) -> float:
        """Return the channel's best rate for ``group``; classes differ in their noise."""
        rates = self.channel.rates(group)
        place = self._places.get(group, self._usual) + self._shift
        return rates[min(max(place, 0), len(rates) - 1)]

    def fit(self, public: Releases) -> None:
        """Fit the rate of each group, where the channel leaves a choice."""
        tried = len(self.channel.rates(0))
        if tried == 1:
            return
        some = public.seen.part(np.arange(min(_TRIED, len(public.true))))
        true, hits = public.true[: len(some.group)], dict[int, NDArray[np.float64]]()
        for group, which in chunks(self.channel, some):
            candidates = self.channel.candidates[group]
            evidence = self.channel.evidence(some.evidence(which), candidates)
            counted = hits.setdefault(group, np.zeros(tried))
            for place, rate in enumerate(self.channel.rates(group)):
                guesses = (evidence * np.float32(rate) + candidates.log_prior).argmax(axis=1)
                counted[place] += (candidates.ids[guesses] == true[which]).sum()
        every = np.sum([*hits.values()], axis=0) if hits else np.zeros(tried)
        self._usual = int(every.argmax())
        among = every / max(1.0, every.sum())  # a small group leans on what suits the others
        self._places = {
            group: int((counted + _LENT * among).argmax()) for group, counted in hits.items()
        }

    def guess(self, seen: Seen) -> Ints:
        found = seen.symbols.copy()
        for group, which in chunks(self.channel, seen):
            scores = self._scores(seen, group, which)
            found[which] = self.channel.candidates[group].ids[scores.argmax(axis=1)]
        return found

    def log_posterior(self, seen: Seen, true: Ints) -> Floats:
        """Return log p(true | seen) - log p(true): Floats1d (n,).

        The value is 0 where nothing is hidden, and for a symbol outside the candidates.
        """
        found = np.zeros(len(true), np.float32)
        for group, which in chunks(self.channel, seen):
            candidates = self.channel.candidates[group]
            scores = self._scores(seen, group, which)
            total = np.logaddexp.reduce(scores, axis=1)
            last = len(candidates.ids) - 1
            place = np.minimum(np.searchsorted(candidates.ids, true[which]), last)
            gained = scores[np.arange(len(which)), place] - total - candidates.log_prior[place]
            found[which] = np.where(candidates.ids[place] == true[which], gained, 0)
        return found

    def _scores(self, seen: Seen, group: int, which: NDArray[np.int64]) -> Floats:
        candidates = self.channel.candidates[group]
        scores = self.channel.evidence(seen.evidence(which), candidates)
        scores *= np.float32(self.rate(group))
        scores += candidates.log_prior
        return scores


@dataclass(frozen=True)
class _Lattice:
    """Candidates (k,) of each position, their scores, and the neighbours' scores.

    The last exist for every position but the first of a sentence: Floats2d (previous k, k).
    """

    ids: list[Ints]
    scores: list[Floats]
    steps: list[Floats]

    def best(self, weight: float) -> list[int]:
        """Return the candidate of each position on the best path (Viterbi)."""
        reached, back = self.scores[0] + np.float32(weight) * self.steps[0][0], []
        for step, scores in zip(self.steps[1:], self.scores[1:], strict=True):
            paths = reached[:, None] + np.float32(weight) * step
            back.append(paths.argmax(axis=0))
            reached = paths.max(axis=0) + scores
        path = [int(reached.argmax())]
        for origin in reversed(back):
            path.append(int(origin[path[-1]]))
        return path[::-1]


class ContextMap(Map):
    """Maximum a posteriori over whole sentences, with a bigram model of public text as the prior.

    It maximises the sum over positions t of

        log p(x_t) + rate * evidence(seen_t, x_t) + weight * log(p(x_t | x_t-1) / p(x_t))

    where p(x_t) is the prior within the visible part of speech. Weight 1 gives the posterior under
    the bigram model, and weight 0 gives `Map`. The weight is fitted on public releases, so this
    attack falls behind `Map` by chance only.
    """

    name: ClassVar[str] = "MAP in context"

    def __init__(self, channel: Channel, bigrams: Bigrams, boundary: int) -> None:
        super().__init__(channel)
        self.bigrams, self.boundary = bigrams, boundary
        self.weight = 1.0

    def fit(self, public: Releases) -> None:
        """Fit rate and weight."""
        super().fit(public)
        best = -1
        for shift in (-1, 0, 1) if len(self.channel.rates(0)) > 1 else (0,):
            self._shift = shift
            hits, weight = self.best_weight(public)
            if hits > best:
                best, chosen = hits, (shift, weight)
        self._shift, self.weight = chosen

    def best_weight(self, public: Releases, tried: int = _TRIED) -> tuple[int, float]:
        """Return the best weight on the first ``tried`` words, and its number of right guesses."""
        n = min(tried, len(public.true))
        some = public.seen if n == len(public.true) else public.seen.part(np.arange(n))
        true = public.true[:n]
        lattices = [*self._lattices(some)]
        best = -1
        for weight in _WEIGHTS:
            guesses = np.concatenate([_decode(each, weight) for each in lattices])
            hits = int(((guesses == true) & (some.group != OPEN)).sum())
            if hits > best:
                best, chosen = hits, weight
        return best, chosen

    def guess(self, seen: Seen) -> Ints:
        return np.concatenate([_decode(each, self.weight) for each in self._lattices(seen)])

    def _lattices(self, seen: Seen) -> Iterator[_Lattice]:
        ids = [seen.symbols[place : place + 1] for place in range(len(seen.symbols))]
        scores = [np.zeros(1, np.float32)] * len(ids)
        for group, which in chunks(self.channel, seen):
            candidates = self.channel.candidates[group]
            all_scores = self._scores(seen, group, which)
            k = min(_CANDIDATES, len(candidates.ids))
            top = np.argpartition(all_scores, -k, axis=1)[:, -k:]
            for row, (place, chosen) in enumerate(zip(which.tolist(), top, strict=True)):
                ids[place], scores[place] = candidates.ids[chosen], all_scores[row, chosen]
        starts = np.flatnonzero(np.diff(seen.sentence, prepend=-1)).tolist()
        for start, end in pairwise([*starts, len(ids)]):
            before = [np.array([self.boundary], np.int32), *ids[start : end - 1]]
            steps = [
                self.bigrams.information(a, b) for a, b in zip(before, ids[start:end], strict=True)
            ]
            yield _Lattice(ids[start:end], scores[start:end], steps)


def _decode(lattice: _Lattice, weight: float) -> Ints:
    path = lattice.best(weight)
    return np.array([ids[place] for ids, place in zip(lattice.ids, path, strict=True)], np.int32)
