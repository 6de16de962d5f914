"""Our mechanisms as channels: text in, releases out, by the code that runs on the device.

Why it is here: the texts under attack go through `Privatizer` itself, so what is measured is what
ships. `Words.send` repeats only its last two steps, noise and search, for the many thousand single
words that attackers train on.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bench.attacks.interface import OPEN, Candidates, Floats, Releases, Seen, Sees
from bench.attacks.text import Ints, Lexicon, Text
from sottovoce.cloud.building.attack import SLOPES, perturb
from sottovoce.cloud.corpus import frequencies
from sottovoce.cloud.corpus.running_text import common, counts_by_tag, released_in, weights_by_class
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ANY, class_name
from sottovoce.core.privacy.mechanisms import registry
from sottovoce.core.privacy.mechanisms.t2t import T2T
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import IDENTIFIER
from sottovoce.core.privacy.search import Search
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.text.tagger import UPOS, OnnxTagger, Tagger, Tags

__all__ = ["CLEAR", "Noised", "Public", "Words", "distances", "groups_of"]

CLEAR: Final = Setting(level="clear", mechanism=T2T.name)
"""Words as they are: what attacks must recover before their failures mean anything."""


@dataclass(frozen=True)
class Public:
    """What everybody knows: the bundle and how often words are written."""

    bundle: Bundle
    models: Path
    lexicon: Lexicon

    @classmethod
    def of(cls, bundle: Bundle, models: Path) -> Public:
        """From an opened bundle, and the folder with the shipped frequencies."""
        return cls(bundle, models, Lexicon(bundle))

    @cached_property
    def privatizer(self) -> Privatizer:
        """The device's own."""
        return Privatizer(self.bundle, self.tagger)

    @cached_property
    def tagger(self) -> Tagger:
        """The device's own, and what it said before: texts are released at many levels."""
        return _Remembering(OnnxTagger.load(self.bundle.tagger_folder))

    @cached_property
    def search(self) -> Search:
        """The device's own."""
        return Search(self.bundle)

    @cached_property
    def clitic(self) -> NDArray[np.bool_]:
        """Bools1d (words,)."""
        listed = np.array(list(self.bundle.words))
        return np.isin(listed, np.array(self.bundle.manifest.clitics))

    @cached_property
    def counts(self) -> NDArray[np.float64]:
        """Floats2d (words, tags)."""
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

    def groups(self, mechanism: str) -> tuple[tuple[str, ...], tuple[Candidates, ...]]:
        """Names of the classes within which ``mechanism`` moves words, and who may hide there."""
        names = groups_of(mechanism)
        weights = weights_by_class(self.counts, self.clitic, _told_apart(mechanism))
        none = np.zeros(len(self.counts))
        return names, tuple(
            Candidates.of(
                weights.get(name, none).copy(), self.classes[released_in(name, self.classes)]
            )
            for name in names
        )

    @cached_property
    def backbone(self) -> LoadedBackbone:
        """The bundle's."""
        return backbones.load()

    @cached_property
    def meaning(self) -> Floats:
        """Embeddings of the listed words, means of their tokens': Floats2d (words, width)."""
        tokens = backbones.input_embeddings(self.backbone)
        pieces = self.backbone.tokenizer(list(self.bundle.words), add_special_tokens=False)
        return np.stack([tokens[ids].mean(axis=0) for ids in pieces["input_ids"]])

    def with_policies(self, policies: dict[str, tuple[str, ...]]) -> Public:
        """The same with other policies beside the bundle's."""
        bundle = copy(self.bundle)
        all_policies = {**bundle.manifest.policies, **policies}
        bundle.manifest = replace(bundle.manifest, policies=all_policies)
        return replace(self, bundle=bundle)


class _Remembering:
    """A tagger that is asked about a window of words only once."""

    def __init__(self, tagger: Tagger) -> None:
        self._tagger, self._said = tagger, dict[tuple[str, ...], Tags]()
        self.tagset, self.reach = tagger.tagset, tagger.reach

    def tag(self, words: Sequence[str]) -> Tags:
        """See `Tagger`."""
        key = tuple(words)
        if key not in self._said:
            self._said[key] = self._tagger.tag(words)
        return self._said[key]


def _told_apart(mechanism: str) -> tuple[str, ...] | None:
    """The parts of speech that a mechanism never mixes; None where it mixes all."""
    return registry.make(mechanism, 1.0, UPOS).tags


def groups_of(mechanism: str) -> tuple[str, ...]:
    """The classes words may be taken for, by group number."""
    tags = _told_apart(mechanism) or (ANY,)
    return tuple(class_name(tag, clitic) for clitic in (False, True) for tag in tags)


@dataclass(frozen=True)
class Noised:
    """The noisy vectors of any mechanism that adds noise of density exp(-eta ||z||).

    For words these never leave the device: what an attacker reads from them bounds what he reads
    from the released words, as those are computed from them.
    """

    mechanism: str
    level: str
    rows: Floats
    candidates: tuple[Candidates, ...]
    eta: float
    sees: Sees = field(default="vector", init=False)

    @property
    def rates(self) -> tuple[float, ...]:
        """The density's own, nothing to fit."""
        return (self.eta,)

    def send(self, ids: Ints, group: Ints, random: Generator) -> Floats:
        """Fresh noise on each row: Floats2d (n, d)."""
        return perturb(self.rows[ids], self.eta, random)

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """Minus the distances."""
        return -distances(seen, self.rows[candidates.ids])

    def release(self, releases: Releases, random: Generator) -> Releases:
        """The same words as ``releases``, hidden where those are, seen as vectors."""
        hidden = releases.seen.group != OPEN
        known = hidden & (releases.true < len(self.rows))
        vectors = np.zeros((len(hidden), self.rows.shape[1]), np.float32)
        vectors[known] = self.send(releases.true[known], releases.seen.group[known], random)
        # What is not listed has a vector too, but can never be guessed: any place will do.
        unknown = hidden & ~known
        vectors[unknown] = self.send(np.zeros(unknown.sum(), np.int32), hidden[unknown], random)
        symbols = np.where(hidden, -1, releases.seen.symbols).astype(np.int32)
        return Releases(replace(releases.seen, symbols=symbols, vectors=vectors), releases.true)


@dataclass(frozen=True)
class Words:
    """Words released by `Privatizer` under a setting; ``CLEAR`` releases them as they are."""

    public: Public
    setting: Setting
    sees: Sees = field(default="word", init=False)
    rates: tuple[float, ...] = field(default=SLOPES, init=False)

    @property
    def mechanism(self) -> str:
        """For the table."""
        return "none" if self.setting is CLEAR else self.setting.mechanism

    @property
    def level(self) -> str:
        """For the table."""
        return self.setting.level

    @property
    def eta(self) -> float:
        """Of the level."""
        return self.public.bundle.manifest.level(self.setting.mechanism, self.setting.level).eta

    @property
    def rows(self) -> Floats:
        """The privacy space."""
        return self.public.bundle.space

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Names of the classes, by group."""
        return groups_of(self.setting.mechanism)

    @cached_property
    def candidates(self) -> tuple[Candidates, ...]:
        """See `Channel`."""
        return self.public.groups(self.setting.mechanism)[1]

    @property
    def vectors(self) -> Noised:
        """The same, seen before the search."""
        return Noised(self.mechanism, self.level, self.rows, self.candidates, self.eta)

    def release(self, text: Text, random: Generator) -> Releases:
        """Releases every sentence of ``text`` on its own.

        Under ``CLEAR`` every listed word is taken as seen through the mechanism without noise, so
        that attacks have something to guess.
        """
        if self.setting is CLEAR:
            free = (text.ids < self.public.lexicon.listed) & ~text.punctuation & ~text.identifier
            group = np.where(free, text.clitic, OPEN).astype(np.int32)
            return Releases(Seen(text.ids, None, group, text.sentence), text.ids)
        privatizer, number = self.public.privatizer, self.public.lexicon.number
        mechanism = privatizer.mechanism(self.setting)
        symbols, group = np.empty(len(text), np.int32), np.empty(len(text), np.int32)
        clitics = text.clitic.tolist()
        position = 0
        for document in text.documents:
            release = privatizer.release(document, self.setting, random)
            for word in release.each_word():
                symbols[position] = number(release.text[word.released_start : word.released_end])
                hidden = word.protected and word.tag != IDENTIFIER
                name = mechanism.word_class(word.tag, clitics[position])
                group[position] = self.groups.index(name) if hidden else OPEN
                position += 1
        # A protected word that is not listed never comes back: the attacker may suspect listed ones
        return Releases(Seen(symbols, None, group, text.sentence), text.ids)

    def send(self, ids: Ints, group: Ints, random: Generator) -> Ints:
        """Noise, then the nearest word of each group: Ints1d (n,)."""
        if self.setting is CLEAR:
            return ids
        found = np.empty(len(ids), np.int32)
        for each in np.unique(group).tolist():
            which = np.flatnonzero(group == each)
            name = self.public.search.known_class(self.groups[each])
            noisy = perturb(self.rows[ids[which]], self.eta, random)
            found[which] = self.public.search.nearest(name, noisy)
        return found

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """Minus the distances: p(y | x) falls about exponentially with them, see
        `sottovoce.cloud.building.attack.Candidates.behind_words`."""
        return -distances(self.rows[seen], self.rows[candidates.ids])


def distances(seen: Floats | Ints, rows: Floats) -> Floats:
    """Euclidean distances of ``seen`` Floats2d (n, d) to ``rows`` (m, d): Floats2d (n, m)."""
    found: Floats = np.asarray(seen, np.float32) @ (-2 * rows.T)
    found += np.square(rows).sum(axis=1)
    found += np.square(seen).sum(axis=1, keepdims=True)
    np.maximum(found, 0, out=found)
    return np.sqrt(found, out=found)
