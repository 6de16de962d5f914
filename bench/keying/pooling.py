"""An attacker that pools all places that he can link to one word.

Two draws of one word add up. Where draws are kept, the places that share a draw add up as well.
The attacker sees noisy vectors, which show exactly what shares a draw. His success therefore
bounds every attacker that sees released words only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bench.attacks.bigram import Bigrams
from bench.attacks.channels import distances
from bench.keying.corpus import Corpus, Places, label
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.attacker import Candidates
from sottovoce.core.text.word_classes import READINGS

__all__ = ["Attacker", "Drawn", "Suspects", "draw"]

Floats = NDArray[np.float32]
_OPEN: Final = [READINGS.index(name) for name in ("REFERENCE", "GRAMMAR", "OTHER")]
"""Readings whose words pass unchanged."""
_KEPT: Final = 16
"""Candidates for each word that context may choose among."""
_LEAST: Final = -30.0
_ROUNDS: Final = 2
_SCORES: Final = 1 << 22


@dataclass(frozen=True)
class Drawn:
    """A released corpus, with the draw at each noised place.

    Attributes:
        draw: Ints1d (n,), equal numbers for places that share a draw.
        vectors: Floats2d (draws, r), the noisy vector of each draw.
    """

    draw: Places
    vectors: Floats


def draw(
    text: Corpus, way: Places, space: Floats, etas: NDArray[np.float64], random: Generator
) -> Drawn:
    """Release ``text``, with one draw for all places that are equal in ``way``.

    Args:
        text: the documents.
        way: see `WAYS`.
        space: Floats2d (words, r).
        etas: Floats1d (words,), of each word's class.
        random: source of the noise.
    """
    _, first, drawn = np.unique(way, return_index=True, return_inverse=True)
    ids = np.minimum(text.ids[first], len(space) - 1)
    steps = noise.draw(random, len(first), space.shape[1], etas[ids])
    return Drawn(drawn.ravel(), space[ids] + steps)


@dataclass(frozen=True)
class Suspects:
    """Groups that an attacker takes for one word each, with candidates from the vectors alone.

    Attributes:
        places: Ints1d (m,), the noised places.
        group: Ints1d (m,), the group that each place belongs to.
        ids: Ints2d (groups, kept), likeliest first.
        scores: Floats2d (groups, kept), log priors plus evidence.
        prior: Floats2d (groups, kept), log priors alone.
    """

    places: Places
    group: Places
    ids: NDArray[np.int32]
    scores: Floats
    prior: Floats

    def named(self, scores: Floats, n: int) -> NDArray[np.int32]:
        """Return the likeliest word by ``scores`` at each place, -1 elsewhere: Ints1d (n,)."""
        found = np.full(n, -1, np.int32)
        found[self.places] = self.ids[np.arange(len(self.ids)), scores.argmax(axis=1)][self.group]
        return found


@dataclass(frozen=True)
class Attacker:
    """An attacker that knows the classes, the frequencies of words, the bigrams and eta.

    Attributes:
        space: Floats2d (words, r).
        classes: the `Candidates` of each noised reading.
        etas: eta of each noised reading.
        bigrams: counted in public text.
        boundary: the symbol between sentences.
    """

    space: Floats
    classes: dict[int, Candidates]
    etas: dict[int, float]
    bigrams: Bigrams
    boundary: int

    def alone(self, text: Corpus, seen: Drawn, link: Places) -> NDArray[np.int32]:
        """Return MAP guesses from vectors and priors, -1 where there is no noise: Ints1d (n,).

        Args:
            text: the attacker uses its readings, its places and the words that pass.
            seen: its release.
            link: Ints1d (n,), equal where the attacker takes the words for one.
        """
        suspects = self.suspects(text, seen, link)
        return suspects.named(suspects.scores, len(text))

    def suspects(self, text: Corpus, seen: Drawn, link: Places) -> Suspects:
        """Return the groups and their candidates; see `alone` for the arguments."""
        places = np.flatnonzero(text.noised)
        group = label(link[places], text.reading[places])
        return Suspects(places, group, *self._from_vectors(text, seen, places, group))

    def in_context(
        self, text: Corpus, suspects: Suspects, context: float, counts: float, keys: int = 1
    ) -> NDArray[np.int32]:
        """Return guesses that also use the neighbours and the count of each group.

        Args:
            text: see `alone`.
            suspects: see `suspects`.
            context: weight of the different neighbours of a group.
            counts: weight of how often the group occurs.
            keys: number of keys that share the text.
        """
        known = np.where(np.isin(text.reading, _OPEN), text.ids, -1)
        found = suspects.named(suspects.scores, len(text))
        for _ in range(_ROUNDS if context or counts else 0):
            around = np.where(text.noised, found, known)
            scores = suspects.scores + np.float32(context) * self._around(text, around, suspects)
            if counts:
                scores += np.float32(counts) * self._often(text, around, suspects, keys)
            found = suspects.named(scores, len(text))
        return found

    def with_cache(self, text: Corpus, suspects: Suspects, weight: float) -> NDArray[np.int32]:
        """Return guesses with a cache: a likely word of a document is likelier elsewhere in it.

        Every group must lie within one document.
        """
        document = np.empty(len(suspects.ids), np.int64)
        document[suspects.group] = text.document[suspects.places]
        met = np.bincount(suspects.group)[:, None]
        _, cell = np.unique(document[:, None] * len(self.space) + suspects.ids, return_inverse=True)
        cell = cell.reshape(suspects.ids.shape)
        scores = suspects.scores
        for _ in range(_ROUNDS if weight else 0):
            posterior = np.exp(scores - scores.max(axis=1, keepdims=True))
            posterior *= met / posterior.sum(axis=1, keepdims=True)
            mass = np.bincount(cell.ravel(), posterior.ravel())[cell] - posterior
            words = np.bincount(document, met[:, 0])[document][:, None] - met
            cached = np.maximum(mass, 0) / np.maximum(words, 1)
            prior = (1 - weight) * np.exp(suspects.prior) + weight * cached
            scores = (suspects.scores - suspects.prior + np.log(prior)).astype(np.float32)
        return suspects.named(scores, len(text))

    def _from_vectors(
        self, text: Corpus, seen: Drawn, places: Places, group: Places
    ) -> tuple[NDArray[np.int32], Floats, Floats]:
        """Return the best candidates of each group by its different draws, their scores and priors.

        Each array has shape (groups, `_KEPT`), best first.
        """
        pairs = np.unique(np.stack([group, seen.draw[places]], axis=1), axis=0)
        reading = np.empty(group.max() + 1, np.int32)
        reading[group] = text.reading[places]
        ids = np.zeros((len(reading), _KEPT), np.int32)
        scores = np.full((len(reading), _KEPT), -np.inf, np.float32)
        prior = np.full((len(reading), _KEPT), _LEAST, np.float32)
        for name, candidates in self.classes.items():
            rows = self.space[candidates.ids]
            mine = pairs[reading[pairs[:, 0]] == name]
            k = min(_KEPT, len(candidates.ids))
            ends = np.append(np.flatnonzero(np.diff(mine[:, 0])) + 1, len(mine))
            start, step = 0, max(1, _SCORES // len(rows))
            while start < len(mine):
                # Whole groups only: as many as fit, and at least one.
                first = np.searchsorted(ends, start, side="right")
                last = np.searchsorted(ends, start + step, side="right") - 1
                stop = int(ends[max(first, last)])
                part = mine[start:stop]
                near = distances(seen.vectors[part[:, 1]], rows)
                near *= np.float32(-self.etas[name])
                owners, begins = np.unique(part[:, 0], return_index=True)
                total = np.add.reduceat(near, begins, axis=0) + candidates.log_prior
                top = np.argpartition(total, -k, axis=1)[:, -k:]
                best = np.take_along_axis(total, top, axis=1)
                order = np.argsort(-best, axis=1)
                best_first = np.take_along_axis(top, order, axis=1)
                ids[owners, :k] = candidates.ids[best_first]
                prior[owners, :k] = candidates.log_prior[best_first]
                scores[owners, :k] = np.take_along_axis(best, order, axis=1)
                start = stop
        return ids, scores, prior

    def _around(self, text: Corpus, known: NDArray[np.int32], suspects: Suspects) -> Floats:
        """Return the scores that different neighbours give the candidates: (groups, kept)."""
        places, group, ids = suspects.places, suspects.group, suspects.ids
        total = np.zeros(ids.shape, np.float32)
        for side, beside in ((0, text.before), (1, text.after)):
            at = beside[places]
            word = np.where(at < 0, self.boundary, known[at])
            pairs = np.unique(np.stack([group, word], axis=1)[word >= 0], axis=0)
            own, other = ids[pairs[:, 0]], pairs[:, 1:]
            told = self._information(other, own) if side == 0 else self._information(own, other)
            np.add.at(total, pairs[:, 0], told)
        return total

    def _often(
        self, text: Corpus, known: NDArray[np.int32], suspects: Suspects, keys: int
    ) -> Floats:
        """Return the scores that the count of a group gives its candidates, beyond one occurrence.

        Counts follow a Poisson distribution. The expected count depends on the word before, if all
        places of the group share that word. Otherwise it depends on the candidate alone.
        """
        places, group, ids = suspects.places, suspects.group, suspects.ids
        met = np.bincount(group).astype(np.float32)[:, None]
        at = text.before[places]
        word = np.where(at < 0, self.boundary, known[at])
        low = np.full(len(ids), np.iinfo(np.int32).max, np.int64)
        high = np.full(len(ids), -1, np.int64)
        np.minimum.at(low, group, word)
        np.maximum.at(high, group, word)
        share = np.exp(self.bigrams.log_share[np.minimum(ids, self.bigrams.size)])
        expected = share * np.float32(len(text) / keys)
        one = np.flatnonzero((low == high) & (low >= 0) & (met[:, 0] > 1))
        if len(one):
            every = np.where(text.before < 0, self.boundary, known[text.before])
            times = np.bincount(every[every >= 0], minlength=int(low[one].max()) + 1)
            after = share[one] * np.exp(self._information(low[one][:, None], ids[one]))
            expected[one] = after * times[low[one]][:, None] / np.float32(keys)
        expected = np.maximum(expected, 1e-3)
        found: Floats = (met - 1) * np.log(expected) - expected
        return found

    def _information(self, first: NDArray[np.integer], second: NDArray[np.integer]) -> Floats:
        """Return log p(second | first) - log p(second) by element; see `Bigrams.information`."""
        model = self.bigrams
        a = np.minimum(first, model.size).astype(np.int64)
        b = np.minimum(second, model.size).astype(np.int64)
        wanted = a * (model.size + 1) + b
        at = np.minimum(np.searchsorted(model.keys, wanted), len(model.keys) - 1)
        met = np.where(model.keys[at] == wanted, model.discounted[at], np.float32(0))
        found: Floats = np.log(met + model.rest[a] * model.continuation[b]) - model.log_share[b]
        return found
