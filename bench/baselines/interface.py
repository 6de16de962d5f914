"""Shared parts of the baselines on words, which hide the same words as one of our mechanisms.

Each baseline is set to keep the same share of running text as our level, because equal etas are
not comparable. All baselines are implemented from the papers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.random import Generator

from bench.attacks.channels import Noised, Words, distances
from bench.attacks.interface import OPEN, Candidates, Floats, Releases, Sees
from bench.attacks.public import Public
from bench.attacks.text import Ints, Text
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.attacker import draw, released_in

__all__ = ["ROWS", "Baseline", "before", "eta_of_success", "outputs_of", "solve"]

ROWS: Final = 256
"""Rows of distances held at once."""
_TRIED: Final = 400


def outputs_of(public: Public, names: tuple[str, ...]) -> tuple[Ints, ...]:
    """Return the words that may be released in each group: Ints1d each."""
    return tuple(public.classes[released_in(name, public.classes)] for name in names)


@dataclass(eq=False)
class Baseline(ABC):
    """A mechanism that hides the same words as ``ours``, and replaces them with `send`."""

    ours: Words
    sees: Sees = field(default="word", init=False)

    @property
    def level(self) -> str:
        """Return our level with the same share of kept words as the baseline."""
        return self.ours.level

    @property
    def candidates(self) -> tuple[Candidates, ...]:
        """Return the candidates; see `Channel`."""
        return self.ours.candidates

    @property
    def kept(self) -> float:
        """Return the share of running text to keep."""
        stated = self.ours.public.bundle.manifest.level(self.ours.setting.mechanism, self.level)
        return 1.0 - stated.replaced

    @property
    def rows(self) -> Floats:
        """Return the embeddings."""
        return self.ours.public.meaning

    def rates(self, group: int) -> tuple[float, ...]:
        """Return the rates: `evidence` is exact, see `Channel`."""
        return (1.0,)

    @abstractmethod
    def send(self, ids: Ints, group: Ints, random: Generator) -> Ints:
        """Replace the words; see `Channel`."""

    def release(self, text: Text, random: Generator) -> Releases:
        """Hide the same words as ours; an unlisted word is replaced as a random listed word.

        If our mechanism has a key, a word is drawn once for each word to its left, as under ours.
        """
        releases = self.ours.release(text, random)
        seen, listed = releases.seen, self.ours.public.lexicon.listed
        hidden = np.flatnonzero(seen.group != OPEN)
        anything = random.integers(0, listed, len(hidden), dtype=np.int32)
        ids = np.where(releases.true[hidden] < listed, releases.true[hidden], anything)
        group, symbols = seen.group[hidden], seen.symbols.copy()
        if self.ours.key:
            pairs = np.stack([before(text)[hidden], releases.true[hidden], group], axis=1)
            _, first, place = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
            symbols[hidden] = self.send(ids[first], group[first], random)[place.ravel()]
        else:
            symbols[hidden] = self.send(ids, group, random)
        return Releases(replace(seen, symbols=symbols), releases.true)

    def sample(self) -> tuple[Ints, Ints]:
        """Return words of running text that our mechanism hides, and the group of each word."""
        public, setting = self.ours.public, self.ours.setting
        weights = public.weights(public.tags(setting.mechanism, setting.policy))
        drawn = draw(weights, _TRIED, np.random.default_rng(0))
        group = [
            np.full(len(ids), self.ours.groups.index(name), np.int32) for name, ids in drawn.items()
        ]
        return np.concatenate([*drawn.values()]), np.concatenate(group)


def before(text: Text) -> Ints:
    """Return the word before each word of its text, punctuation left out, or -1: Ints1d (n,)."""
    found, last, owner = np.full(len(text), -1, np.int32), -1, -1
    words = zip(text.ids.tolist(), text.sentence.tolist(), text.punctuation.tolist(), strict=True)
    for place, (word, sentence, sign) in enumerate(words):
        last, owner = last if sentence == owner else -1, sentence
        found[place] = last
        last = last if sign else word
    return found


def eta_of_success(channel: Noised, wanted: float, draws: int = _TRIED) -> float:
    """Return the eta where a maximum-a-posteriori attacker guesses ``wanted`` of running text."""
    candidates = channel.candidates[0]
    ids = candidates.draw(draws, np.random.default_rng(0))

    def success(eta: float) -> float:
        sent = channel.rows[ids] + noise.draw(
            np.random.default_rng(1), len(ids), channel.rows.shape[1], eta
        )
        scores = distances(sent, channel.rows[candidates.ids])
        scores *= np.float32(-eta)
        scores += candidates.log_prior
        return float((candidates.ids[scores.argmax(axis=1)] == ids).mean())

    return solve(success, wanted, 1.0, 2_000.0)


def solve(rising: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Return the point where ``rising`` reaches ``wanted``, to one part in a hundred."""
    while high / low > 1.01:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return float(np.sqrt(low * high))
