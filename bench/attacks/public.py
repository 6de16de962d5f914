"""Public knowledge: the bundle, word frequencies and the device's code.

All attackers, and all checks of a bundle, start from this knowledge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.attacks.interface import Floats
from bench.attacks.text import Ints, Lexicon
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import Level
from sottovoce.core.privacy import mechanisms, policies
from sottovoce.core.privacy.attacker import common, counts_by_tag, weights_by_class
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text.tagger import OnnxTagger, Tagger, Tags
from sottovoce.models import frequencies

__all__ = ["Public", "Remembering"]


class Remembering:
    """A tagger that keeps its answers, because texts are released at many levels."""

    def __init__(self, tagger: Tagger) -> None:
        self.tagset, self.reach = tagger.tagset, tagger.reach
        self._tag = lru_cache(maxsize=100_000)(tagger.tag)

    def tag(self, words: Sequence[str]) -> Tags:
        """See `Tagger`."""
        return self._tag(tuple(words))


@dataclass(frozen=True)
class Public:
    """An opened bundle, and the folder with the shipped frequencies."""

    bundle: Bundle
    models: Path

    @cached_property
    def lexicon(self) -> Lexicon:
        """Numbers of the listed words, and of further words as they appear."""
        return Lexicon(self.bundle)

    @cached_property
    def privatizer(self) -> Privatizer:
        """The device's own privatizer."""
        return Privatizer.of(self.bundle, tagger=lambda: self.tagger)

    @cached_property
    def tagger(self) -> Remembering:
        """The bundle's tagger of words in context."""
        return Remembering(OnnxTagger.load(self.bundle.tagger_folder))

    @cached_property
    def clitic(self) -> NDArray[np.bool_]:
        """Words that are clitics: Bools1d (words,)."""
        return np.isin(np.array(list(self.bundle.words)), np.array(self.bundle.manifest.clitics))

    @cached_property
    def counts(self) -> NDArray[np.float64]:
        """Counts of each word by tag: Floats2d (words, tags)."""
        table = frequencies.load(self.models / "frequencies")
        return counts_by_tag(list(self.bundle.words), self.clitic, table)

    @cached_property
    def common(self) -> NDArray[np.bool_]:
        """The 5,000 commonest words and the clitics: Bools1d (words,)."""
        return common(self.counts, self.clitic)

    @cached_property
    def classes(self) -> dict[str, Ints]:
        """Word ids by class."""
        return {name: self.bundle.class_members(name) for name in self.bundle.manifest.classes}

    def tags(self, mechanism: str, policy: str = policies.DEFAULT) -> tuple[str, ...] | None:
        """Return the tags that ``mechanism`` never mixes under ``policy``; None for all mixed."""
        return mechanisms.make(mechanism, Level(1.0), policies.find(policy).with_noise()).tags

    def weights(self, tags: Sequence[str] | None) -> dict[str, NDArray[np.float64]]:
        """Return the frequency of each word in each class: see `weights_by_class`."""
        return weights_by_class(self.counts, self.clitic, tags)

    @cached_property
    def backbone(self) -> LoadedBackbone:
        """The bundle's backbone."""
        return backbones.load()

    @cached_property
    def meaning(self) -> Floats:
        """Mean token embeddings of the listed words: Floats2d (words, width)."""
        tokens = backbones.input_embeddings(self.backbone)
        pieces = self.backbone.tokenizer(list(self.bundle.words), add_special_tokens=False)
        return np.stack([tokens[ids].mean(axis=0) for ids in pieces["input_ids"]])
