"""Our mechanisms as channels: text in, releases out, by the code that runs on the device.

The texts under attack go through `Privatizer` itself, so the bench measures the shipped code.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.random import Generator

from bench.attacks.interface import OPEN, Candidates, Floats, Releases, Seen, Sees
from bench.attacks.public import Public
from bench.attacks.text import Ints, Text
from sottovoce.core.bundle.levels import Level
from sottovoce.core.bundle.manifest import ANY, class_name
from sottovoce.core.privacy import mechanisms, noise
from sottovoce.core.privacy.attacker import released_in, weights_by_reading
from sottovoce.core.privacy.mechanisms.spherical import PCT2T, T2T, Mechanism
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting, Treatment
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.word_classes import READINGS
from sottovoce.models.calibration_attack import SLOPES

__all__ = ["CLEAR", "Noised", "Words", "distances"]

CLEAR: Final = Setting(level="clear", mechanism=T2T.name)
"""Unchanged words. Attacks must recover these before their failures mean anything."""


def _covering(mechanism: str) -> Mechanism:
    """Return the mechanism, set to cover all classes that it distinguishes."""
    if mechanism == PCT2T.name:  # a word tagged as punctuation is one more contradiction to hide
        return PCT2T(1.0, UPOS)
    return mechanisms.make(mechanism, Level(1.0), READINGS)


def _groups_of(mechanism: str) -> tuple[str, ...]:
    """Return the classes that words may be taken for, by group number."""
    covering = _covering(mechanism)
    if not covering.contextual:
        named = (covering.word_class(each, each == "CLITIC") for each in READINGS)
        return tuple(dict.fromkeys(named))
    tags = covering.tags or (ANY,)
    return tuple(class_name(tag, clitic) for clitic in (False, True) for tag in tags)


def _candidates_of(public: Public, mechanism: str) -> tuple[Candidates, ...]:
    """Return the words that may hide behind each group within which ``mechanism`` moves words."""
    covering = _covering(mechanism)
    weights = (
        public.weights(covering.tags)
        if covering.contextual
        else weights_by_reading(public.counts, public.bundle.readings, covering)
    )
    none = np.zeros(len(public.counts))
    return tuple(
        Candidates.of(weights.get(name, none), public.classes[released_in(name, public.classes)])
        for name in _groups_of(mechanism)
    )


@dataclass(frozen=True)
class Noised:
    """The noisy vectors of any mechanism that adds noise of density exp(-eta ||z||).

    For words, these vectors never leave the device. The released words are computed from them. So
    an attack on the vectors bounds every attack on the released words.
    """

    mechanism: str
    level: str
    rows: Floats
    candidates: tuple[Candidates, ...]
    eta: float
    etas: tuple[float, ...] = ()
    """The eta of each group, if they differ."""
    sees: Sees = field(default="vector", init=False)

    def rates(self, group: int) -> tuple[float, ...]:
        """Return the density's own rate, so that there is nothing to fit."""
        return (self.etas[group] if self.etas else self.eta,)

    def send(self, ids: Ints, group: Ints, random: Generator) -> Floats:
        """Add fresh noise to each row: Floats2d (n, d)."""
        etas = np.array(self.etas or (self.eta,))
        each = etas[group if self.etas else np.zeros(len(ids), np.int32)]
        rows = self.rows[ids]
        noisy: Floats = rows + noise.draw(random, len(rows), rows.shape[1], each)
        return noisy

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """Return minus the distances."""
        return -distances(seen, self.rows[candidates.ids])

    def release(self, releases: Releases, random: Generator) -> Releases:
        """Return the words of ``releases`` as vectors, with the same words hidden."""
        hidden = releases.seen.group != OPEN
        known = hidden & (releases.true < len(self.rows))
        vectors = np.zeros((len(hidden), self.rows.shape[1]), np.float32)
        vectors[known] = self.send(releases.true[known], releases.seen.group[known], random)
        # An unlisted word has a vector too, but can never be guessed. Any place will do.
        unknown = hidden & ~known
        group = releases.seen.group[unknown]
        vectors[unknown] = self.send(np.zeros(unknown.sum(), np.int32), group, random)
        symbols = np.where(hidden, -1, releases.seen.symbols).astype(np.int32)
        return Releases(replace(releases.seen, symbols=symbols, vectors=vectors), releases.true)


@dataclass(frozen=True)
class Words:
    """Words released by `Privatizer` under a setting; ``CLEAR`` releases them unchanged.

    Noise is drawn afresh for each word, or under ``key`` if there is one, as a device does.
    """

    public: Public
    setting: Setting
    key: Key | None = field(default=None, kw_only=True)
    sees: Sees = field(default="word", init=False)

    @property
    def mechanism(self) -> str:
        """Return the mechanism's name for the table."""
        return "none" if self.setting is CLEAR else self.setting.mechanism

    @property
    def level(self) -> str:
        """Return the level's name for the table."""
        return self.setting.level

    @property
    def eta(self) -> float:
        """Return the eta of the level."""
        return self.public.bundle.manifest.level(self.setting.mechanism, self.setting.level).eta

    @cached_property
    def etas(self) -> tuple[float, ...]:
        """Return the eta of each group."""
        level = self.public.bundle.manifest.level(self.setting.mechanism, self.setting.level)
        return tuple(level.etas.get(name, level.eta) for name in self.groups)

    def rates(self, group: int) -> tuple[float, ...]:
        """Return the rates that may suit the group."""
        return SLOPES

    @property
    def rows(self) -> Floats:
        """Return the privacy space."""
        return self.public.bundle.space

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Return names of the classes, by group."""
        return _groups_of(self.setting.mechanism)

    @cached_property
    def candidates(self) -> tuple[Candidates, ...]:
        """Return the candidates; see `Channel`."""
        return _candidates_of(self.public, self.setting.mechanism)

    @property
    def vectors(self) -> Noised:
        """Return the channel that shows vectors before the search."""
        return Noised(self.mechanism, self.level, self.rows, self.candidates, self.eta, self.etas)

    def release(self, text: Text, random: Generator) -> Releases:
        """Release every sentence of ``text`` on its own.

        Under ``CLEAR``, every listed word counts as released by the mechanism without noise, so
        that attacks have something to guess.
        """
        if self.setting is CLEAR:
            free = (text.ids < self.public.lexicon.listed) & ~text.punctuation & ~text.identifier
            group = np.where(free, text.clitic, OPEN).astype(np.int32)
            return Releases(Seen(text.ids, None, group, text.sentence), text.ids)
        privatizer, number = self.public.privatizer, self.public.lexicon.number
        mechanism = privatizer.mechanism(self.setting)
        symbols, group = np.empty(len(text), np.int32), np.empty(len(text), np.int32)
        drawn = np.zeros(len(text), bool)
        clitics = text.clitic.tolist()
        position = 0
        for document in text.documents:
            release = privatizer.release(
                document, self.setting, None if self.key else random, key=self.key
            )
            for word in release.each_word():
                symbols[position] = number(release.text[word.released_start : word.released_end])
                hidden = word.treatment is Treatment.NOISE
                name = mechanism.word_class(word.tag, clitics[position])
                group[position] = self.groups.index(name) if hidden else OPEN
                drawn[position] = not hidden and word.treatment is not Treatment.PASS
                position += 1
        # An unlisted protected word never comes back, so the attacker suspects only listed words.
        return Releases(Seen(symbols, None, group, text.sentence, drawn), text.ids)

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """Return minus the distances, because p(y | x) falls about exponentially with them.

        See `sottovoce.core.privacy.attacker.SphereMap.behind_words`.
        """
        return -distances(self.rows[seen], self.rows[candidates.ids])


def distances(seen: Floats | Ints, rows: Floats) -> Floats:
    """Return Euclidean distances of ``seen`` (n, d) to ``rows`` (m, d): Floats2d (n, m)."""
    found: Floats = np.asarray(seen, np.float32) @ (-2 * rows.T)
    found += np.square(rows).sum(axis=1)
    found += np.square(seen).sum(axis=1, keepdims=True)
    np.maximum(found, 0, out=found)
    return np.sqrt(found, out=found)
