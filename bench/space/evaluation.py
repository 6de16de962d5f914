"""Words privatised in a given space and attacked, on text no count has seen.

`bench.space` compares spaces with it, and the tests judge the default bundle by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.space.held_out import NAMES, RARE, HeldOut, Kinds, count
from bench.space.spaces import Words
from sottovoce.cloud.building import space
from sottovoce.cloud.building.attack import Candidates, best_slope, perturb
from sottovoce.cloud.corpus import frequencies
from sottovoce.cloud.corpus.running_text import (
    UNSEEN,
    common,
    counts_by_tag,
    draw,
    released_in,
    weights_by_class,
)
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.mechanisms import registry
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.vectors import unit_rows

__all__ = ["TARGETS", "Language", "Trial", "at_targets", "tails"]

TARGETS: Final = (0.3, 0.6, 0.85)
"""Success of the attacker at which spaces are compared."""
SCORES: Final = 1 << 19

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Language:
    """The words of a bundle, how often they are written, and text to try them on."""

    bundle: Bundle
    model: LoadedBackbone
    counts: NDArray[np.float64]
    clitic: NDArray[np.bool_]
    held_out: NDArray[np.float64]

    @classmethod
    def load(cls, bundle: Bundle, models: Path, treebank: Path) -> Language:
        """Reads the bundle's backbone, the shipped counts and a treebank (gzip CoNLL-U)."""
        model = backbones.load()
        clitics = set(bundle.manifest.clitics)
        listed = list(bundle.words)
        clitic = np.isin(listed, list(clitics))
        counts = counts_by_tag(listed, clitic, frequencies.load(models / "frequencies"))
        held_out = count(treebank, listed, clitics, model.tokenizer)
        return cls(bundle, model, counts, clitic, held_out)

    @cached_property
    def words(self) -> Words:
        """What spaces are made from."""
        tokens = backbones.input_embeddings(self.model)
        pieces = self.model.tokenizer(list(self.bundle.words), add_special_tokens=False)
        rows = np.stack([tokens[ids].mean(axis=0) for ids in pieces["input_ids"]])
        counts = self.counts.sum(axis=1)
        moved = np.where(self.clitic, np.inf, counts)
        return Words(rows, counts, moved, space.neighbours(rows, map))

    @cached_property
    def rare(self) -> NDArray[np.bool_]:
        """Words outside the 5,000 commonest."""
        return ~common(self.counts, self.clitic)

    @cached_property
    def classes(self) -> dict[str, Ints]:
        """Word ids by class."""
        return {name: self.bundle.class_members(name) for name in self.bundle.manifest.classes}

    def tags(self, mechanism: str) -> tuple[str, ...] | None:
        """Parts of speech the mechanism tells apart, under the default policy."""
        return registry.make(mechanism, 1.0, self.bundle.manifest.policy("default")).tags

    def weights(self, mechanism: str) -> dict[str, NDArray[np.float64]]:
        """What the attacker knows of the language, by class."""
        return weights_by_class(self.counts, self.clitic, self.tags(mechanism))

    def text(self, mechanism: str, draws: tuple[int, int], seed: int = 1) -> HeldOut:
        """Held-out words."""
        return HeldOut.of(self.held_out, self.rare, self.clitic, self.tags(mechanism), draws, seed)

    @cached_property
    def meaning(self) -> Floats2d:
        """Full embeddings at length 1, to judge replacements by their cosine."""
        return unit_rows(self.words.embeddings)

    def hundredth(self, ids: Ints) -> NDArray[np.float32]:
        """The cosine of each word's 100th nearest word."""
        found = np.empty(len(ids), np.float32)
        for start in range(0, len(ids), 128):
            cosines = self.meaning[ids[start : start + 128]] @ self.meaning.T
            found[start : start + 128] = np.partition(cosines, -101, axis=1)[:, -101]
        return found


class Trial:
    """One mechanism in one space on the same words and directions of noise for every eta."""

    def __init__(
        self,
        language: Language,
        rows: Floats2d,
        mechanism: str,
        held_out: HeldOut,
        hundredth: Mapping[Kinds, Mapping[str, NDArray[np.float32]]],
    ) -> None:
        self._language, self._rows, self._held_out = language, rows, held_out
        self._hundredth = hundredth
        self._weights = language.weights(mechanism)
        random = np.random.default_rng(2)
        r = rows.shape[1]
        self._steps = {
            (kind, name): noise.draw(random, len(ids), r, 1.0)
            for kind, by_class in held_out.ids.items()
            for name, ids in by_class.items()
        }

    def curve(self, points: int) -> list[dict[str, float]]:
        """Measures at etas that take the attacker from hardly any to nearly full success."""
        some = np.random.default_rng(3).integers(0, len(self._rows), (2, 2_000))
        apart = float(np.median(np.linalg.norm(self._rows[some[0]] - self._rows[some[1]], axis=1)))
        rough = np.geomspace(0.05, 12, 16) * self._rows.shape[1] / apart
        success = np.array([self.at(float(eta), every=8)["map"] for eta in rough])
        low, high = np.exp(np.interp((0.18, 0.93), np.maximum.accumulate(success), np.log(rough)))
        return [self.at(float(eta)) for eta in np.geomspace(low, high, points)]

    def at(self, eta: float, every: int = 1) -> dict[str, float]:
        """What comes of ``every``-th word at ``eta``, as means over running text."""
        language, held = self._language, self._held_out
        found: dict[str, dict[Kinds, float]] = {}
        taken = np.zeros((2, len(self._rows)))  # share of text before and after
        for kind, by_class in held.ids.items():
            columns: dict[str, list[NDArray[Any]]] = {}
            for name, ids in by_class.items():
                ids, steps = ids[::every], self._steps[kind, name][::every]
                released, guessed = self._attack(name, ids, steps / np.float32(eta), eta)
                cosine = (language.meaning[ids] * language.meaning[released]).sum(axis=1)
                kept = released == ids
                for column, values in (
                    ("map", guessed == ids),
                    ("kept", kept),
                    ("replaced", ~kept),
                    ("cosine", cosine * ~kept),
                    ("near", (cosine >= self._hundredth[kind][name][::every]) & ~kept),
                    ("ids", ids),
                    ("released", released),
                ):
                    columns.setdefault(column, []).append(values)
            joined = {column: np.concatenate(parts) for column, parts in columns.items()}
            for place, column in enumerate(("ids", "released")):
                ids = joined.pop(column)
                times = np.bincount(ids, minlength=len(self._rows))
                taken[place] += held.shares[kind] * times / len(ids)
            for column, values in joined.items():
                found.setdefault(column, {})[kind] = float(values.mean())
        hubs = np.argsort(-taken[1])[:100]
        replaced = held.mean(found["replaced"])
        rest = tuple(kind for kind in held.shares if kind not in RARE)
        nameless = tuple(kind for kind in held.shares if kind not in NAMES)
        return {
            "eta": eta,
            "map": held.mean(found["map"]),
            "kept": held.mean(found["kept"]),
            "kept_rare": held.mean(found["kept"], RARE),
            "kept_names": held.mean(found["kept"], NAMES),
            "cosine": held.mean(found["cosine"]) / max(replaced, 1e-9),
            "near": held.mean(found["near"]) / max(replaced, 1e-9),
            # Releases that the 100 commonest outputs take, beyond those words' share of the text.
            "hubs": float((taken[1] - taken[0])[hubs].sum()),
            "rare_less_rest": held.mean(found["map"], RARE) - held.mean(found["map"], rest),
            "names_less_rest": held.mean(found["map"], NAMES) - held.mean(found["map"], nameless),
        }

    def _attack(self, name: str, ids: Ints, steps: Floats2d, eta: float) -> tuple[Ints, Ints]:
        """Released words and the attacker's guesses; rows may have any length."""
        members = self._language.classes[released_in(name, self._language.classes)]
        weights = self._weights.get(name, np.zeros(len(self._rows)))
        possible = weights > 0
        possible[members] = True
        candidates = np.flatnonzero(possible).astype(np.int32)
        outside = ~np.isin(candidates, members)
        log_prior = np.log(weights[candidates] + UNSEEN).astype(np.float32)
        columns = np.ascontiguousarray(self._rows[candidates].T)
        squares = (columns * columns).sum(axis=0)
        released, guessed = np.empty_like(ids), np.empty_like(ids)
        step = max(1, SCORES // len(candidates))
        for start in range(0, len(ids), step):
            chunk = slice(start, start + step)
            noisy = self._rows[ids[chunk]] + steps[chunk]
            distances = noisy @ columns
            distances *= -2
            distances += squares
            distances += (noisy * noisy).sum(axis=1, keepdims=True)
            np.sqrt(np.maximum(distances, 0, out=distances), out=distances)
            guessed[chunk] = candidates[(log_prior - eta * distances).argmax(axis=1)]
            distances[:, outside] = np.inf
            released[chunk] = candidates[distances.argmin(axis=1)]
        return released, guessed


def at_targets(curve: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """A curve's measures at each of `TARGETS`, interpolated over the attacker's success."""
    curve = sorted(curve, key=lambda point: point["map"])
    reached = [point["map"] for point in curve]
    return {
        str(target): {
            measure: float(np.interp(target, reached, [point[measure] for point in curve]))
            for measure in curve[0]
        }
        for target in TARGETS
    }


def tails(
    language: Language, mechanism: str, draws: tuple[int, int]
) -> dict[str, dict[str, dict[str, float]]]:
    """Success of both attackers at the bundle's levels, apart for the tails of held-out text.

    Returns:
        By level and attacker ("vector", "word"): success overall, on rare words, on names, and on
        the rest of each.
    """
    rows, held = language.bundle.space, language.text(mechanism, draws)
    weights = language.weights(mechanism)
    members = {name: language.classes[released_in(name, language.classes)] for name in weights}
    candidates = {name: Candidates.of(rows, weights[name], members[name]) for name in weights}

    def release(name: str, noisy: Floats2d) -> Ints:
        nearest: Ints = members[name][(noisy @ rows[members[name]].T).argmax(axis=1)]
        return nearest

    found = {}
    for level, stated in language.bundle.manifest.calibration[mechanism].items():
        random = np.random.default_rng(4)
        known = draw(weights, 1_000, random)
        seen = {
            name: release(name, perturb(rows[ids], stated.eta, random))
            for name, ids in known.items()
        }
        slope = best_slope(candidates, rows, known, seen)
        hits: dict[str, dict[Kinds, float]] = {"vector": {}, "word": {}}
        for kind, by_class in held.ids.items():
            right = {"vector": 0, "word": 0}
            for name, ids in by_class.items():
                if name not in weights:
                    continue  # never guessed
                noisy = perturb(rows[ids], stated.eta, random)
                guesses = candidates[name].behind_vectors(noisy, stated.eta)
                right["vector"] += int((guesses == ids).sum())
                guesses = candidates[name].behind_words(rows[release(name, noisy)], slope)[0]
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
