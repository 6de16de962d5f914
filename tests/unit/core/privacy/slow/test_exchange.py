"""The promise: exchanging a word for another of its class and shape decides nothing about others.

Each policy has a thousand of our sentences to itself. In each, one word is exchanged for a word
with the same reading and case. Treatment, class, strength of the noise and starting point of all
other words must stay. Choices are seeded, so a failure is a breach.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import policies
from sottovoce.core.privacy.decisions import Decider, Decision
from sottovoce.core.privacy.mechanisms.spherical import Mechanism
from sottovoce.core.privacy.policies import POLICIES, Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text import word_classes
from sottovoce.core.text.names import NameFinder
from sottovoce.core.text.tagger import OnnxTagger
from sottovoce.core.text.word_classes import READINGS
from sottovoce.core.text.words import Kind, iter_words, split
from tests.support.paths import HELPDESK, SENTENCES

TRIALS = 1_000
STRANGERS = ("qzxvbk", "Zorblax", "BRZG", "grelm", "Fnarrow", "xoiu")
"""Words of no list, for those of no list."""


def sentences() -> list[str]:
    found = [
        re.sub(r"_[A-Z]+(?= |$)", "", line)
        for line in SENTENCES.read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    for name in ("train.tsv", "test.tsv"):
        with (HELPDESK / name).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                found += re.split(r"(?<=[.?!])\s+", row["text"])
    return found


class Exchanges:
    """Sentences and the same with one word exchanged."""

    def __init__(self, bundle: Bundle, seed: int = 13) -> None:
        self._bundle, self._seed = bundle, seed
        readings = np.asarray(bundle.readings)
        self._pools = [np.flatnonzero(readings == n).tolist() for n in range(len(READINGS))]
        self._clitics = bundle.manifest.clitics

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        """The sentence, the other one, and which word of both it is."""
        random = np.random.default_rng(self._seed)
        every = sentences()
        while True:
            text = every[random.integers(len(every))]
            words = split(text, self._clitics)
            place = int(random.integers(len(words)))
            word = words[place]
            if word.kind is not Kind.WORD or (other := self._other(word.text, random)) is None:
                continue
            yield text, text[: word.start] + other + text[word.end :], place

    def _other(self, text: str, random: np.random.Generator) -> str | None:
        number = self._bundle.word_ids.get(text.lower().replace("’", "'"))
        if number is None:
            other = STRANGERS[random.integers(len(STRANGERS))]
        else:
            pool = self._pools[int(self._bundle.readings[number])]
            other = self._bundle.words[pool[random.integers(len(pool))]]
        kinds = {word.kind for word in split(other, self._clitics)}
        cased = word_classes.apply(word_classes.shape(text), other)
        # The list also holds marks, and digits: cut from a text these are no words.
        alike = kinds == {Kind.WORD} and word_classes.shape(cased) is word_classes.shape(text)
        return cased if alike else None


def decided(
    decider: Decider, bundle: Bundle, document: str, mechanism: Mechanism, policy: str
) -> Decision:
    found = policies.find(policy)
    words = iter_words(document, bundle.manifest.clitics)
    (decision,) = decider.decide(words, mechanism, found, decider.context(mechanism, found))
    return decision


def fates(decision: Decision, but: int, mechanism: Mechanism) -> list[tuple[object, ...]]:
    """All that the releases of the other words follow from."""
    return [
        (
            word.text,
            int(decision.treatments[place]),
            int(decision.tags[place]),
            int(decision.ids[place]),
            name := decision.classes.get(place, ""),
            mechanism.eta_of(name) if name else 0.0,
            bool(decision.like_names[place]),
            bool(decision.like_names[place + 2]),
        )
        for place, word in enumerate(decision.words)
        if place != but
    ]


def others_changed(
    decider: Decider, bundle: Bundle, mechanism: Mechanism, policy: str, trials: int, seed: int = 13
) -> list[tuple[str, str]]:
    """Exchanges after which something else is decided about another word."""
    changed = []
    for text, exchanged, place in islice(Exchanges(bundle, seed), trials):
        before = decided(decider, bundle, text, mechanism, policy)
        after = decided(decider, bundle, exchanged, mechanism, policy)
        if fates(before, place, mechanism) != fates(after, place, mechanism):
            changed.append((text, exchanged))
    return changed


@pytest.fixture(scope="module")
def decider(bundle: Bundle) -> Decider:
    tagger = OnnxTagger.load(bundle.tagger_folder)
    finder = NameFinder.load(bundle.names_folder)
    return Decider(bundle, bundle.readings, finder, lambda: tagger, 0.7, lambda _: nullcontext())


@pytest.mark.parametrize(
    ("seed", "policy"), [*enumerate(name for name in POLICIES if not POLICIES[name].context)]
)
def test_nothing_else_is_decided_about_any_other_word(
    decider: Decider, bundle: Bundle, privatizer: Privatizer, seed: int, policy: str
) -> None:
    mechanism = privatizer.mechanism(Setting("strong", "pct2t.v2", policy))
    assert others_changed(decider, bundle, mechanism, policy, TRIALS, seed) == []


def test_a_tagger_that_reads_context_breaks_it(
    decider: Decider, bundle: Bundle, privatizer: Privatizer
) -> None:
    mechanism = privatizer.mechanism(Setting("strong", "pct2t.v1", "content"))
    changed = others_changed(decider, bundle, mechanism, "content", 200)
    assert len(changed) > 5  # about one in ten
