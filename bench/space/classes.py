"""Is every class of words hidden equally well, on text that no count has seen?

With one eta for all classes, 95 of 100 particles stayed readable, and the level's name stated
only the mean. So the exact Bayes attacker on the noisy vector is judged class by class. Beside it
stands a blind guess. In a class with few likely words, a blind guess alone may exceed the level.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from bench.attacks.public import Public
from bench.space.held_out import Counts
from sottovoce.core.bundle.levels import Level
from sottovoce.core.bundle.manifest import CLITIC
from sottovoce.core.privacy.attacker import Candidates, SphereMap, perturb
from sottovoce.core.privacy.mechanisms.spherical import OWN, PCT2T2
from sottovoce.core.text.tagger import UPOS

__all__ = ["by_class"]

_LEAST: Final = 30
"""Least occurrences in held-out text for a class to be judged."""


def by_class(
    public: Public, met: Counts, mechanism: str, draws: int = 2_000
) -> Iterator[dict[str, Any]]:
    """Yield the attacker's success for each level and class of free words.

    Each row has ``eta``, ``success`` with its Wilson interval ``ci``, and ``blind``. The last is
    the success of always guessing the class's commonest word.

    Args:
        public: the bundle under judgement, and the attackers' knowledge of the language.
        met: in held-out text, see `bench.space.held_out.count`.
        mechanism: "pct2t.v1", with parts of speech as classes, or "pct2t.v2".
        draws: words of each class that are guessed.
    """
    for level, stated in public.bundle.manifest.calibration[mechanism].items():
        for name, prior, truth in _classes(public, met, mechanism, stated):
            random = np.random.default_rng(5)
            ids = public.classes[name]
            shares = truth[ids] / truth[ids].sum()
            drawn = random.choice(ids, draws, p=shares)
            weights = np.zeros(len(prior))
            weights[ids] = prior[ids]
            candidates = Candidates.of(weights, ids)
            eta = stated.etas.get(name, stated.eta)
            attacker = SphereMap.of(public.bundle.space, candidates)
            noisy = perturb(public.bundle.space[drawn], eta, random)
            right = int((attacker.behind_vectors(noisy, eta) == drawn).sum())
            likely = binomtest(right, draws).proportion_ci(method="wilson")
            commonest = candidates.ids[int(candidates.log_prior.argmax())]
            yield {
                "mechanism": mechanism,
                "level": level,
                "class": name,
                "words": len(ids),
                "eta": eta,
                "success": right / draws,
                "ci": [float(likely.low), float(likely.high)],
                "blind": float(shares[ids == commonest].sum()),
            }


def _classes(
    public: Public, met: Counts, mechanism: str, stated: Level
) -> Iterator[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
    """Yield classes with the public frequency and the true frequency of each word."""
    if mechanism == PCT2T2.name:
        named = [(name, slice(None)) for name in public.classes if name.startswith(OWN)]
        named = [(name, tags) for name, tags in named if name in stated.etas]
    else:
        named = [
            (tag, slice(place, place + 1))
            for place, tag in enumerate(UPOS)
            if tag in public.classes and not tag.endswith(CLITIC)
        ]
    for name, tags in named:
        prior, truth = (counts[:, tags].sum(axis=1) for counts in (public.counts, met))
        if truth[public.classes[name]].sum() >= _LEAST:
            yield name, prior, truth
