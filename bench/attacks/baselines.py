"""Other people's mechanisms, attacked by the same harness.

Why it is here: a success of .6 is good or bad beside what else one could run. Each baseline hides
the words that our mechanism hides (the same tagger, the same policy), and differs only in what
takes their place; all but the scrubber are set to keep as many words as our level does. Written
from the papers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bench.attacks.channels import Noised, Words, candidates_of, distances, groups_of
from bench.attacks.entities import EntityTagger
from bench.attacks.interface import OPEN, Candidates, Floats, Releases, Seen, Sees
from bench.attacks.public import Public
from bench.attacks.text import Ints, Lexicon, Text
from sottovoce.core.privacy.mechanisms.pct2t import PCT2T
from sottovoce.core.privacy.running_text import draw, released_in
from sottovoce.core.privacy.sphere_map import perturb
from sottovoce.core.text.words import Word, split

__all__ = ["CusText", "FullWidth", "SanText", "Scrubbed", "eta_of_success", "outputs_of"]

_ROWS: Final = 256
_TRIED: Final = 400
_IMPOSSIBLE: Final = -60.0
_SHARES: Final = (0.08, 0.12, 0.18, 0.25, 0.35, 0.5, 1.0)
"""Of eta, tried as the rate at which the likelihood of a released word falls with distance."""


def outputs_of(public: Public, names: tuple[str, ...]) -> tuple[Ints, ...]:
    """The words that may be released in each group: Ints1d each."""
    return tuple(public.classes[released_in(name, public.classes)] for name in names)


@dataclass(eq=False)
class _Baseline(ABC):
    """Takes the words that ``ours`` hides, and lets `send` replace them."""

    ours: Words
    sees: Sees = field(default="word", init=False)

    @property
    def level(self) -> str:
        """That of ours, whose share of words is kept."""
        return self.ours.level

    @property
    def candidates(self) -> tuple[Candidates, ...]:
        """See `Channel`."""
        return self.ours.candidates

    @property
    def kept(self) -> float:
        """The share of running text to keep."""
        stated = self.ours.public.bundle.manifest.level(self.ours.setting.mechanism, self.level)
        return 1.0 - stated.replaced

    @abstractmethod
    def send(self, ids: Ints, group: Ints, random: Generator) -> Ints:
        """See `Channel`."""

    def release(self, text: Text, random: Generator) -> Releases:
        """Hides what ours hides; a word that is not listed is replaced as a random one."""
        releases = self.ours.release(text, random)
        seen, listed = releases.seen, self.ours.public.lexicon.listed
        hidden = np.flatnonzero(seen.group != OPEN)
        anything = random.integers(0, listed, len(hidden), dtype=np.int32)
        ids = np.where(releases.true[hidden] < listed, releases.true[hidden], anything)
        symbols = seen.symbols.copy()
        symbols[hidden] = self.send(ids, seen.group[hidden], random)
        return Releases(replace(seen, symbols=symbols), releases.true)

    def _sample(self) -> tuple[Ints, Ints]:
        """Words of running text that ours hides, and the group of each."""
        public, setting = self.ours.public, self.ours.setting
        weights = public.weights(public.tags(setting.mechanism, setting.policy))
        drawn = draw(weights, _TRIED, np.random.default_rng(0))
        group = [
            np.full(len(ids), self.ours.groups.index(name), np.int32) for name, ids in drawn.items()
        ]
        return np.concatenate([*drawn.values()]), np.concatenate(group)


@dataclass(eq=False)
class FullWidth(_Baseline):
    """T2T and PCT2T as published: noise over the backbone's full width (RAPT v1 3.1, v2 III-A)."""

    @property
    def mechanism(self) -> str:
        """For the table."""
        return f"{self.ours.mechanism}, full width"

    def __post_init__(self) -> None:
        names = self.ours.groups
        self._outputs = outputs_of(self.ours.public, names)
        ids, group = self._sample()

        def kept(eta: float) -> float:
            self.eta = eta
            sent = self.send(ids, group, np.random.default_rng(1))
            return float((sent == ids).mean())

        self.eta = _solve(kept, self.kept, 5.0, 2_000.0)

    eta: float = field(default=0.0, init=False)
    _outputs: tuple[Ints, ...] = field(default=(), init=False)

    @property
    def rows(self) -> Floats:
        """The embeddings."""
        return self.ours.public.meaning

    def rates(self, group: int) -> tuple[float, ...]:
        """See `Channel`."""
        return tuple(self.eta * share for share in _SHARES)

    def send(self, ids: Ints, group: Ints, random: Generator) -> Ints:
        """Noise, then the nearest word of each group."""
        found = np.empty(len(ids), np.int32)
        for each in np.unique(group).tolist():
            which, members = np.flatnonzero(group == each), self._outputs[each]
            rows = self.rows[members]
            halves = np.square(rows).sum(axis=1) / 2
            noisy = perturb(self.rows[ids[which]], self.eta, random)
            for start in range(0, len(which), _ROWS):
                scores = noisy[start : start + _ROWS] @ rows.T - halves
                found[which[start : start + _ROWS]] = members[scores.argmax(axis=1)]
        return found

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """Minus the distances."""
        return -distances(self.rows[seen], self.rows[candidates.ids])


@dataclass(eq=False)
class SanText(_Baseline):
    """In the manner of SanText (Yue et al., 2021): P(y | x) ~ exp(-epsilon / 2 * ||x - y||) over
    the whole list. The attacker knows the very probabilities."""

    mechanism: str = field(default="SanText", init=False)
    epsilon: float = field(default=0.0, init=False)
    _log_total: tuple[Floats, ...] = field(default=(), init=False, repr=False)
    _outputs: tuple[Ints, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        self._outputs = outputs_of(self.ours.public, self.ours.groups)
        ids, group = self._sample()
        apart = {
            each: distances(self.rows[ids[group == each]], self.rows[self._outputs[each]])
            for each in np.unique(group).tolist()
        }

        def kept(epsilon: float) -> float:
            stay = [1 / np.exp(-epsilon / 2 * each).sum(axis=1) for each in apart.values()]
            return float(np.concatenate(stay).mean())

        self.epsilon = epsilon = _solve(kept, self.kept, 1.0, 1_000.0)
        totals = []
        for members, each in zip(self._outputs, self.candidates, strict=True):
            total = np.zeros(len(self.rows), np.float32)
            for start in range(0, len(each.ids), _ROWS):
                some = each.ids[start : start + _ROWS]
                scores = distances(self.rows[some], self.rows[members])
                scores *= np.float32(-epsilon / 2)
                total[some] = np.log(np.exp(scores, out=scores).sum(axis=1))
            totals.append(total)
        self._log_total = tuple(totals)

    @property
    def rows(self) -> Floats:
        """The embeddings."""
        return self.ours.public.meaning

    def rates(self, group: int) -> tuple[float, ...]:
        """What is sent says all: see `Channel`."""
        return (1.0,)

    def send(self, ids: Ints, group: Ints, random: Generator) -> Ints:
        """Draws from the exponential mechanism, each word's shares reckoned once."""
        found = np.empty(len(ids), np.int32)
        for each in np.unique(group).tolist():
            which, members = np.flatnonzero(group == each), self._outputs[each]
            words, place = np.unique(ids[which], return_inverse=True)
            drawn = random.random(len(which))
            for start in range(0, len(words), _ROWS):
                scores = distances(self.rows[words[start : start + _ROWS]], self.rows[members])
                scores *= np.float32(-self.epsilon / 2)
                ends = np.cumsum(np.exp(scores, out=scores), axis=1, dtype=np.float64)
                ends /= ends[:, -1:]
                for row, shares in enumerate(ends, start):
                    here = np.flatnonzero(place == row)
                    chosen = np.searchsorted(shares, drawn[here], side="right")
                    found[which[here]] = members[np.minimum(chosen, len(members) - 1)]
        return found

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """log P(y | x)."""
        scores = distances(self.rows[seen], self.rows[candidates.ids])
        scores *= np.float32(-self.epsilon / 2)
        group = next(i for i, each in enumerate(self.candidates) if each is candidates)
        return scores - self._log_total[group][candidates.ids]


@dataclass(eq=False)
class CusText(_Baseline):
    """In the manner of CusText (Chen et al., 2023): the list falls apart into sets of 20 similar
    words, and a word becomes one of its set, P(y | x) ~ exp(epsilon * u(x, y) / 2), u from 1 for
    the most similar to 0 for the least. The set is public, so nobody hides outside of it."""

    size: int = 20
    mechanism: str = field(default="CusText", init=False)
    epsilon: float = field(default=0.0, init=False)
    _sets: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int32), init=False, repr=False)
    _place: Ints = field(default_factory=lambda: np.zeros(0, np.int32), init=False, repr=False)
    _log_table: Floats = field(
        default_factory=lambda: np.zeros((0, 0), np.float32), init=False, repr=False
    )

    def __post_init__(self) -> None:
        rows = self.rows
        halves = np.square(rows).sum(axis=1) / 2
        taken, sets = np.zeros(len(rows), np.bool_), []
        for first in np.random.default_rng(0).permutation(len(rows)).tolist():
            if taken[first] or len(rows) - taken.sum() < self.size:
                continue
            scores = np.where(taken, -np.inf, rows @ rows[first] - halves)
            scores[first] = np.inf
            sets.append(np.argpartition(-scores, self.size - 1)[: self.size].astype(np.int32))
            taken[sets[-1]] = True
        place = np.empty(len(rows), np.int32)
        for number, members in enumerate(sets):
            place[members] = number
        # The few that are left over join the last set as inputs.
        place[~taken] = len(sets) - 1
        self._sets = np.stack(sets)
        self._place = place
        ids, _ = self._sample()

        def kept(epsilon: float) -> float:
            self.epsilon = epsilon
            shares = np.exp(self._log_shares(ids))
            return float(shares[self._sets[place[ids]] == ids[:, None]].sum() / len(ids))

        self.epsilon = _solve(kept, self.kept, 0.01, 200.0)
        every = np.array_split(np.arange(len(rows), dtype=np.int32), 1 + len(rows) // _ROWS)
        self._log_table = np.concatenate([self._log_shares(some) for some in every])

    @property
    def rows(self) -> Floats:
        """The embeddings."""
        return self.ours.public.meaning

    def rates(self, group: int) -> tuple[float, ...]:
        """What is sent says all: see `Channel`."""
        return (1.0,)

    def send(self, ids: Ints, group: Ints, random: Generator) -> Ints:
        """Draws from each word's set."""
        ends = np.cumsum(np.exp(self._log_table[ids]), axis=1)
        drawn = random.random((len(ids), 1))
        chosen = np.minimum((ends < drawn).sum(axis=1), self.size - 1)
        found: Ints = self._sets[self._place[ids], chosen]
        return found

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """log P(y | x)."""
        scores = np.full((len(seen), len(candidates.ids)), _IMPOSSIBLE, np.float32)
        sets = self._place[candidates.ids]
        order = np.argsort(sets, kind="stable")
        wanted = self._place[np.asarray(seen)]
        starts, ends = (np.searchsorted(sets[order], wanted, side) for side in ("left", "right"))
        for row, word in enumerate(np.asarray(seen).tolist()):
            same = order[starts[row] : ends[row]]
            where = self._sets[sets[same]] == word
            scores[row, same] = np.where(
                where.any(axis=1),
                (self._log_table[candidates.ids[same]] * where).sum(axis=1),
                _IMPOSSIBLE,
            )
        return scores

    def _log_shares(self, ids: Ints) -> Floats:
        """log P(y | x) over the set of each x: Floats2d (n, size)."""
        members = self._sets[self._place[ids]]
        apart = np.linalg.norm(self.rows[members] - self.rows[ids][:, None], axis=2)
        apart -= apart.min(axis=1, keepdims=True)
        utility = 1 - apart / np.maximum(apart.max(axis=1, keepdims=True), 1e-9)
        scores = np.exp(self.epsilon / 2 * utility)
        found: Floats = np.log(scores / scores.sum(axis=1, keepdims=True)).astype(np.float32)
        return found


@dataclass(eq=False)
class Scrubbed:
    """Personal data out, all else as it is: what an entity recogniser finds, and identifiers, give
    way to a placeholder. The attacker guesses from the words around it."""

    public: Public
    recogniser: EntityTagger
    mechanism: str = field(default="PII scrubbing", init=False)
    level: str = field(default="-", init=False)
    sees: Sees = field(default="word", init=False)

    @property
    def rows(self) -> Floats:
        """The privacy space; not used."""
        return self.public.bundle.space

    @property
    def candidates(self) -> tuple[Candidates, ...]:
        """One group: all listed words, as often as they are written as names."""
        return (self._names,)

    def __post_init__(self) -> None:
        place = groups_of(PCT2T.name).index("PROPN")
        self._names = candidates_of(self.public, PCT2T.name)[place]

    _names: Candidates = field(init=False, repr=False)

    def rates(self, group: int) -> tuple[float, ...]:
        """What is sent says all: see `Channel`."""
        return (1.0,)

    def send(self, ids: Ints, group: Ints, random: Generator) -> Ints:
        """The placeholder."""
        return np.full(len(ids), self._placeholder(self.public.lexicon), np.int32)

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """Every word looks the same."""
        return np.zeros((len(seen), len(candidates.ids)), np.float32)

    def release(self, text: Text, random: Generator) -> Releases:
        """Recognises entities sentence by sentence."""
        surfaces = [each.text for each in _words(text, self.public)]
        ends = np.searchsorted(text.sentence, np.arange(len(text.documents)), side="right")
        starts = np.concatenate([[0], ends[:-1]])
        parts = [surfaces[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        labels = [label for each in self.recogniser.tag(parts) for label in each]
        entity: NDArray[np.bool_] = np.array([label != "O" for label in labels])
        gone = (entity & ~text.punctuation) | text.identifier
        symbols = np.where(gone, self._placeholder(self.public.lexicon), text.ids)
        group = np.where(gone & ~text.identifier, 0, OPEN).astype(np.int32)
        return Releases(Seen(symbols.astype(np.int32), None, group, text.sentence), text.ids)

    @staticmethod
    def _placeholder(lexicon: Lexicon) -> int:
        return lexicon.number("[…]")


def _words(text: Text, public: Public) -> list[Word]:
    return [
        word
        for document in text.documents
        for word in split(document, public.bundle.manifest.clitics)
    ]


def eta_of_success(channel: Noised, wanted: float, draws: int = _TRIED) -> float:
    """The eta at which a maximum-a-posteriori attacker guesses ``wanted`` of running text."""
    candidates = channel.candidates[0]
    ids = candidates.draw(draws, np.random.default_rng(0))

    def success(eta: float) -> float:
        sent = perturb(channel.rows[ids], eta, np.random.default_rng(1))
        scores = distances(sent, channel.rows[candidates.ids])
        scores *= np.float32(-eta)
        scores += candidates.log_prior
        return float((candidates.ids[scores.argmax(axis=1)] == ids).mean())

    return _solve(success, wanted, 1.0, 2_000.0)


def _solve(rising: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where ``rising`` reaches ``wanted``, to one part in a hundred."""
    while high / low > 1.01:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return float(np.sqrt(low * high))
