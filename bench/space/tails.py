"""Do rare words and names pay for a bundle's privacy space, on text that no count has seen?

`bench.space` prints these results, and the tests check the default bundle against them.
"""

from __future__ import annotations

import numpy as np

from bench.attacks.public import Public
from bench.attacks.text import Ints
from bench.space.held_out import NAMES, RARE, Counts, HeldOut, Kinds
from sottovoce.core.privacy.attacker import Candidates, SphereMap, draw, perturb, released_in
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.models.calibration_attack import best_slope

__all__ = ["tails"]


def tails(
    public: Public, met: Counts, mechanism: str, draws: tuple[int, int]
) -> dict[str, dict[str, dict[str, float]]]:
    """Measure both attackers at the bundle's levels, apart for the tails of held-out text.

    Args:
        public: the bundle under judgement, and the attackers' knowledge of the language.
        met: in held-out text, see `bench.space.held_out.count`.
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
