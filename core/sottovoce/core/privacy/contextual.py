"""Adds the tags of a context-reading tagger to the treatment of a word.

`pct2t.v1`, the published mechanism, moves a word within its part of speech in the sentence. It is
kept for comparison. A word can then change the treatment of another, and the bound holds only for
given tags. The tagger can ask for more protection than a word's own reading, but never for less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.privacy.mechanisms.interface import Mechanism
from sottovoce.core.privacy.policies import KINDS, Policy, Treatment
from sottovoce.core.text.tagger import Tagger
from sottovoce.core.text.word_classes import BY_TAG
from sottovoce.core.text.words import Kind, Word

__all__ = ["Contextual"]

_CONTRADICTION: Final = "PUNCT"
"""A form that is no punctuation but is tagged as such is a contradiction, hence covered."""


class Contextual:
    """Weighs tags beside kinds, for one mechanism under one policy.

    Args:
        tagger: names parts of speech.
        mechanism: what it protects, it protects by part of speech.
        policy: treats a part of speech as the reading that its words mostly have.
        unsure_below: a word whose tag is less probable than this never passes.
    """

    def __init__(
        self, tagger: Tagger, mechanism: Mechanism, policy: Policy, unsure_below: float
    ) -> None:
        self.tagset = tagger.tagset
        self.reach = tagger.reach
        self._tagger = tagger
        self._unsure_below = unsure_below
        self._kinds = np.array([KINDS.index(BY_TAG[tag]) for tag in tagger.tagset], np.uint8)
        self._table = np.array(
            [
                max(
                    policy.table[BY_TAG[tag]],
                    Treatment.NOISE
                    if mechanism.protects(tag) or tag == _CONTRADICTION
                    else Treatment.PASS,
                )
                for tag in tagger.tagset
            ],
            np.uint8,
        )

    def weigh(
        self, words: Sequence[Word], kinds: NDArray[np.uint8], treatments: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Names and treatments of consecutive words.

        Args:
            words: the words.
            kinds: Ints1d (n,), what each is without a tagger, places in `KINDS`.
            treatments: Ints1d (n,), what that asks for.

        Returns:
            Ints1d (n,), the kinds of words to be drawn, marks and identifiers, and else the tags,
            counted on from `KINDS`; and Ints1d (n,), the heavier of both treatments.
        """
        tags = self._tagger.tag([word.text for word in words])
        asked = self._table[tags.ids]
        unsure = ~(tags.confidence >= self._unsure_below)
        asked[unsure] = np.maximum(asked[unsure], Treatment.NOISE)
        own = np.array([word.kind is not Kind.WORD for word in words]) | (
            treatments == Treatment.DRAW
        )
        asked[own] = treatments[own]
        named = np.where(asked == Treatment.DRAW, self._kinds[tags.ids], len(KINDS) + tags.ids)
        return np.where(own, kinds, named), np.maximum(asked, treatments)
