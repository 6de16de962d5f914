"""Running text that no count has seen, to measure protection on.

The attackers know `models/frequencies`. Judged on the same counts, they could not be wrong about
the language. So words are drawn from a treebank of other genres, with parts of speech by human
annotators. The tails, rare words and names, are drawn apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.attacks.public import Public
from bench.attacks.text import Ints
from sottovoce.core.bundle.manifest import ANY, class_name
from sottovoce.core.privacy.attacker import Candidates, SphereMap, draw, perturb, released_in
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.words import Kind, split
from sottovoce.models.calibration_attack import best_slope
from sottovoce.models.corpus import cut, read_conllu

__all__ = ["Counts", "count", "tails"]

Counts = NDArray[np.float64]
"""Floats2d (words, tags)."""

Kinds = tuple[bool, bool]
"""Whether a word is rare, and whether it is a name."""

RARE: Final[tuple[Kinds, ...]] = ((True, False), (True, True))
NAMES: Final[tuple[Kinds, ...]] = ((False, True), (True, True))


@dataclass(frozen=True)
class HeldOut:
    """Words of running text, drawn apart for every kind of word.

    Attributes:
        shares: share of each kind in running text; they sum to 1.
        ids: by kind and class name, Ints1d word ids.
    """

    shares: Mapping[Kinds, float]
    ids: Mapping[Kinds, Mapping[str, NDArray[np.int32]]]

    @classmethod
    def of(
        cls,
        counts: Counts,
        rare: NDArray[np.bool_],
        clitic: NDArray[np.bool_],
        tags: tuple[str, ...] | None,
        draws: tuple[int, int],
        seed: int = 0,
    ) -> HeldOut:
        """Draw words of each kind.

        Args:
            counts: Floats2d (words, tags), see `count`.
            rare: Bools1d (words,).
            clitic: Bools1d (words,).
            tags: protected parts of speech, each a class; None where all words are protected and
                form one class.
            draws: approximate number of words that are neither rare nor names, and of each other
                kind.
            seed: seed of the draws.
        """
        random = np.random.default_rng(seed)
        shares, ids = {}, {}
        protected = [tag in tags if tags else tag != "PUNCT" for tag in UPOS]
        for kind in ((False, False), (True, False), (False, True), (True, True)):
            of_kind = counts * (rare == kind[0])[:, None]
            of_kind = of_kind * (protected & ((np.array(UPOS) == "PROPN") == kind[1]))
            weights: dict[str, NDArray[np.float64]] = {}
            for column, tag in enumerate(UPOS):
                for attached in (False, True):
                    name = class_name(tag if tags else ANY, attached)
                    met = of_kind[:, column] * (clitic == attached)
                    if met.any():
                        weights[name] = weights.get(name, 0) + met
            if weights:
                shares[kind] = float(of_kind.sum())
                ids[kind] = draw(weights, draws[0] if kind == (False, False) else draws[1], random)
        total = sum(shares.values())
        return cls({kind: share / total for kind, share in shares.items()}, ids)

    def mean(self, values: Mapping[Kinds, float], kinds: tuple[Kinds, ...] | None = None) -> float:
        """Return the mean of ``values`` over running text, or over its words of ``kinds``.

        The result is NaN if the text has no words of these kinds.
        """
        chosen = [kind for kind in kinds or self.shares if kind in self.shares]
        total = sum(self.shares[kind] for kind in chosen)
        return (
            sum(self.shares[kind] * values[kind] for kind in chosen) / total if total else math.nan
        )


def count(treebank: Path, public: Public) -> Counts:
    """Count the listed words of a treebank by tag, split as on the device.

    Args:
        treebank: gzip CoNLL-U.
        public: the bundle that lists the words. Unlisted words are left out, because the device
            always replaces them.

    Returns:
        Floats2d (words, tags) in the order of `UPOS`.
    """
    form, listed = Vectors(public.bundle).normal_form, public.bundle.word_ids
    found = np.zeros((len(public.clitic), len(UPOS)))
    for sentence in read_conllu(treebank):
        for token, allowed in zip(sentence.words, sentence.allowed, strict=True):
            for part, tag in cut(token, allowed):
                for piece in split(part):
                    word = listed.get(form(piece.text))
                    known = word is not None and public.clitic[word] == piece.clitic
                    if piece.kind is Kind.WORD and known:
                        found[word, tag.bit_length() - 1] += 1
    return found


def tails(
    public: Public, met: Counts, mechanism: str, draws: tuple[int, int]
) -> dict[str, dict[str, dict[str, float]]]:
    """Measure both attackers at the bundle's levels, apart for the tails of held-out text.

    Args:
        public: the bundle under judgement, and the attackers' knowledge of the language.
        met: in held-out text, see `count`.
        mechanism: "t2t.v1" or "pct2t.v1".
        draws: approximate number of words that are neither rare nor names, and of each other kind.

    Returns:
        By level and attacker ("vector", "word"): success overall, on rare words, on names, and on
        the rest of each.
    """
    rows, tags = public.bundle.space, public.tags(mechanism)
    held = HeldOut.of(met, ~public.common, public.clitic, tags, draws, seed=1)
    weights = public.weights(tags)
    members = {name: public.classes[released_in(name, public.classes)] for name in weights}
    attackers = {
        name: SphereMap.of(rows, Candidates.of(weights[name], members[name])) for name in weights
    }

    def release(name: str, noisy: Floats2d) -> Ints:
        nearest: Ints = members[name][(noisy @ rows[members[name]].T).argmax(axis=1)]
        return nearest

    found = {}
    for level, stated in public.bundle.manifest.calibration[mechanism].items():
        random = np.random.default_rng(4)
        known = draw(weights, 1_000, random)
        seen = {
            name: release(name, perturb(rows[ids], stated.eta, random))
            for name, ids in known.items()
        }
        slope = best_slope(attackers, rows, known, seen)
        hits: dict[str, dict[Kinds, float]] = {"vector": {}, "word": {}}
        for kind, by_class in held.ids.items():
            right = {"vector": 0, "word": 0}
            for name, ids in by_class.items():
                if name not in weights:
                    continue  # never guessed
                noisy = perturb(rows[ids], stated.eta, random)
                guesses = attackers[name].behind_vectors(noisy, stated.eta)
                right["vector"] += int((guesses == ids).sum())
                guesses = attackers[name].behind_words(rows[release(name, noisy)], slope)[0]
                right["word"] += int((guesses == ids).sum())
            n = sum(map(len, by_class.values()))
            for attacker, times in right.items():
                hits[attacker][kind] = times / n
        kinds = tuple(held.shares)
        found[level] = {
            attacker: {
                "all": held.mean(by_kind),
                "rare": held.mean(by_kind, RARE),
                "common": held.mean(by_kind, tuple(k for k in kinds if k not in RARE)),
                "names": held.mean(by_kind, NAMES),
                "others": held.mean(by_kind, tuple(k for k in kinds if k not in NAMES)),
            }
            for attacker, by_kind in hits.items()
        }
    return found
