"""The strongest attacker on single released words that we can build.

The attacker on noisy vectors (`sottovoce.core.privacy.sphere_map`) sees numbers that never leave
the device. It is the upper bound for attacks on one word. This attacker sees the released word,
which does leave. Levels are calibrated against both, and the demo uses this one. It ignores the
words around a word, so a language model may guess better.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import policies
from sottovoce.core.privacy.mechanisms import registry
from sottovoce.core.privacy.mechanisms.interface import Mechanism
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.running_text import (
    counts_by_tag,
    draw,
    released_in,
    weights_by_class,
    weights_by_reading,
)
from sottovoce.core.privacy.search import Search
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.privacy.sphere_map import Candidates, SphereMap
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.models.corpus.frequencies import FrequencyTable

SLOPES: Final = (3.0, 4.5, 6.0, 7.5, 9.0, 12.0, 30.0)
"""Slopes that `best_slope` tries. The last one nearly always guesses the released word."""


def best_slope(
    attackers: Mapping[str, SphereMap],
    space: Floats2d,
    true: Mapping[str, NDArray[np.int32]],
    released: Mapping[str, NDArray[np.int32]],
) -> float:
    """Return the slope that guesses most of ``true`` from ``released``, ids by class."""
    hits = np.zeros(len(SLOPES), np.int64)
    for name, ids in true.items():
        guesses = attackers[name].behind_words(space[released[name]], *SLOPES)
        hits += (guesses == ids).sum(axis=1)
    return SLOPES[int(hits.argmax())]


class WordMapAttack:
    """Guesses original words from released words, with public knowledge only."""

    def __init__(
        self,
        bundle: Bundle,
        attackers: Mapping[str, SphereMap],
        slope: float,
        mechanism: Mechanism,
    ) -> None:
        self._bundle = bundle
        self._attackers = attackers
        self._slope = slope
        self._mechanism = mechanism
        self._vectors = Vectors(bundle)
        self._clitics = frozenset(bundle.manifest.clitics)

    @classmethod
    def fit(
        cls,
        bundle: Bundle,
        frequencies: FrequencyTable,
        setting: Setting,
        draws: int = 2_000,
        seed: int = 0,
    ) -> Self:
        """Prepare an attack on releases under ``setting``.

        Args:
            bundle: public, so the attacker has it.
            frequencies: the attacker's knowledge of the language.
            setting: level, mechanism and policy of the releases.
            draws: words of running text to privatise for fitting the slope.
            seed: of the draws.

        Raises:
            NotFound: the bundle does not know the level, mechanism or policy.
        """
        manifest = bundle.manifest
        level = manifest.level(setting.mechanism, setting.level)
        mechanism = registry.make(
            setting.mechanism, level, policies.find(setting.policy).with_noise()
        )
        clitic = np.isin(np.array(bundle.words), np.array(manifest.clitics))
        counts = counts_by_tag(bundle.words, clitic, frequencies)
        weights = (
            weights_by_class(counts, clitic, mechanism.tags)
            if mechanism.contextual
            else weights_by_reading(counts, bundle.readings, mechanism)
        )
        classes = {name: bundle.class_members(name) for name in manifest.classes}
        search = Search(bundle)
        random = np.random.default_rng(seed)
        attackers = {
            name: SphereMap.of(
                bundle.space, Candidates.of(each, classes[released_in(name, classes)])
            )
            for name, each in weights.items()
        }
        true = draw(weights, draws, random)
        released = {
            name: search.nearest(
                search.known_class(name),
                mechanism.perturb(bundle.space[ids], random, [name] * len(ids)),
                mechanism.eta_of(name),
            )
            for name, ids in true.items()
        }
        slope = best_slope(attackers, bundle.space, true, released)
        return cls(bundle, attackers, slope, mechanism)

    def guess(self, released_word: str, tag: str) -> str:
        """Return the likeliest original, in its listed form.

        The device releases an unlisted word unchanged, and so a word with a part of speech that the
        setting leaves alone. The guess is then the word itself.

        Args:
            released_word: as it stands in the released text.
            tag: its part of speech in the release's report. Some mechanisms ignore it.
        """
        form = self._vectors.normal_form(released_word)
        name = self._mechanism.word_class(tag, form in self._clitics)
        number = self._bundle.word_ids.get(form)
        if number is None or name not in self._attackers:
            return form
        row = self._bundle.space[number : number + 1]
        guess = self._attackers[name].behind_words(row, self._slope)
        return self._bundle.words[int(guess[0, 0])]
