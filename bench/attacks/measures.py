"""What is made of guesses and releases: success with its interval, and what the mechanism itself
gives away.

Why it is here: an attack's success is one number about one text. Beside it stand measures that need
no attacker (RAPT v2 section VI-A, SnD section 4.3.1, and the plausible deniability of Feyisetan et
al. that RAPT's T2T comes from).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.attacks.interface import OPEN, Channel, Releases
from bench.attacks.inversion import Map
from bench.attacks.text import Ints, Text
from bench.resampling import drawn, interval

__all__ = ["Judged", "Tally", "deniability", "hub_share", "information", "scores"]

_HUBS: Final = 100

Bools = NDArray[np.bool_]
Counts = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Tally:
    """How many symbols of each sentence are judged, and of them guessed.

    Attributes:
        right, judged: Ints1d (sentences,).
    """

    right: Counts
    judged: Counts

    @property
    def share(self) -> float:
        """Guessed of all that are judged."""
        return float(self.right.sum() / self.judged.sum())

    def interval(self, seed: int = 0) -> list[float]:
        """95 % bootstrap interval of `share`, [low, high]. Sentences are drawn and not words: the
        words of one sentence are guessed together, and stand or fall together."""
        times = drawn(len(self.judged), seed)
        return interval((times @ self.right) / np.maximum(times @ self.judged, 1))


@dataclass(frozen=True)
class Judged:
    """Which of n symbols count, whatever mechanism released them.

    Attributes:
        all: Bools1d (n,), of a part of speech that the default policy protects, or an identifier.
        rare: of them, outside the 5,000 commonest; not listed, too.
        names: of them, proper nouns.
        numbers: of them, numerals, and whatever holds a digit.
        sentence: Ints1d (n,).
    """

    all: Bools
    rare: Bools
    names: Bools
    numbers: Bools
    sentence: Ints

    @classmethod
    def of(cls, text: Text, tags: Sequence[str], common: Bools) -> Judged:
        """By the tags people gave."""
        judged = text.tagged(tags) | text.identifier
        listed = np.minimum(text.ids, len(common) - 1)
        frequent = common[listed] & (text.ids < len(common))
        return cls(
            judged,
            judged & ~frequent & ~text.identifier,
            judged & text.tagged(["PROPN"]) & ~text.identifier,
            judged & (text.tagged(["NUM"]) | text.identifier),
            text.sentence,
        )

    def tallies(self, right: Bools) -> dict[str, Tally]:
        """What was guessed of each kind: "all", "rare", "names" and "numbers"."""
        _, place = np.unique(self.sentence, return_inverse=True)
        n = int(place.max()) + 1
        kinds = {"all": self.all, "rare": self.rare, "names": self.names, "numbers": self.numbers}
        return {
            name: Tally(_per(place, right & each, n), _per(place, each, n))
            for name, each in kinds.items()
        }


def scores(tallies: dict[str, Tally]) -> dict[str, Any]:
    """Success over what is judged, and on the tails, with 95 % intervals; None where nothing is."""
    found: dict[str, Any] = {}
    for name, tally in tallies.items():
        key, ci = ("success", "ci") if name == "all" else (name, f"{name}_ci")
        some = bool(tally.judged.any())
        found |= {key: tally.share if some else None, ci: tally.interval() if some else None}
    return found


def _per(place: NDArray[np.integer[Any]], which: Bools, n: int) -> Counts:
    """How many of ``which`` are at each of ``n`` places."""
    return np.bincount(place[which], minlength=n)


def information(attack: Map, releases: Releases) -> float:
    """Nats that a release tells about its word, at least: the mean of log q(x | y) - log p(x).

    Barber and Agakov's lower bound of the mutual information I(X; Y), q being the attacker's
    posterior; for noisy vectors q is exact, and so is the estimate where words come as often as the
    prior says. Unlike the nearest-neighbour estimate of SnD (eq. 22) it needs no densities, holds
    for released words as well, and does not saturate.
    """
    hidden = releases.seen.group != OPEN
    if not hidden.any():
        return 0.0
    return float(attack.log_posterior(releases.seen, releases.true)[hidden].mean())


def deniability(
    channel: Channel, ids: Ints, group: Ints, draws: int, seed: int = 0
) -> dict[str, float]:
    """N_w, how often a word comes back as itself, and S_w, how many different words it becomes.

    Over ``draws`` releases of each of ``ids``: means, and the least deniable twentieth of words
    (95th percentile of N_w, 5th of S_w). Shares of the draws, so that they can be compared.
    """
    random = np.random.default_rng(seed)
    sent = channel.send(np.repeat(ids, draws), np.repeat(group, draws), random).reshape(-1, draws)
    stays = (sent == ids[:, None]).mean(axis=1)
    kinds = np.array([len(np.unique(row)) for row in sent]) / draws
    return {
        "stays": float(stays.mean()),
        "stays_worst": float(np.quantile(stays, 0.95)),
        "outputs": float(kinds.mean()),
        "outputs_worst": float(np.quantile(kinds, 0.05)),
    }


def hub_share(releases: Releases) -> float:
    """Releases that the 100 commonest outputs take, beyond those words' own share of the text."""
    hidden = releases.seen.group != OPEN
    seen, true = releases.seen.symbols[hidden], releases.true[hidden]
    if not len(seen):
        return 0.0
    size = int(max(seen.max(), true.max())) + 1
    after, before = np.bincount(seen, minlength=size), np.bincount(true, minlength=size)
    hubs = np.argsort(-after, kind="stable")[:_HUBS]
    return float((after - before)[hubs].sum() / len(seen))
