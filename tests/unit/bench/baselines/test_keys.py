"""Under one key, a baseline draws a word once for each word to its left, as a device does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.random import Generator

from bench.attacks.channels import Words
from bench.attacks.interface import Candidates, Floats
from bench.attacks.public import Public
from bench.attacks.text import Ints, Text
from bench.baselines.interface import Baseline, before
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.mechanisms.spherical import T2T
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting

TEXTS = ("we eat cold bread, we eat cold rice", "he has cold bread", "we eat cold bread")
COLD = ((0, 2), (0, 7), (1, 2), (2, 2))
"""Text and place of each "cold"; the third follows another word."""


@dataclass(eq=False)
class Chance(Baseline):
    """Any word, so that equal draws are no accident."""

    mechanism: str = "chance"

    def send(self, ids: Ints, group: Ints, random: Generator) -> Ints:
        return random.integers(0, self.ours.public.lexicon.listed, len(ids), dtype=np.int32)

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        raise NotImplementedError


@pytest.fixture(scope="module")
def public(bundle: Bundle) -> Public:
    return Public(bundle, Path("models"))


@pytest.fixture(scope="module")
def text(public: Public) -> Text:
    return Text.of(TEXTS, public.lexicon, public.bundle.manifest.clitics)


@pytest.fixture(scope="module")
def ours(public: Public) -> Words:
    return Words(public, Setting("strong", T2T.name))


def colds(channel: Words | Baseline, text: Text, seed: int) -> list[int]:
    symbols = channel.release(text, np.random.default_rng(seed)).seen.symbols
    starts = np.searchsorted(text.sentence, np.arange(len(TEXTS)))
    return [int(symbols[starts[document] + place]) for document, place in COLD]


def test_the_word_before_is_of_the_same_text_and_no_sign(text: Text) -> None:
    found, ids = before(text), text.ids
    assert found[:3].tolist() == [-1, ids[0], ids[1]]
    assert found[5] == ids[3]  # behind the comma
    assert found[9] == -1  # the second text begins


def test_without_a_key_every_word_is_drawn_anew(ours: Words, text: Text) -> None:
    assert len({*colds(Chance(ours), text, 1)}) == len(COLD)


def test_under_a_key_equal_words_after_equal_words_are_equal(ours: Words, text: Text) -> None:
    keyed = replace(ours, key=Key(bytes(32)))
    first, again, other, last = colds(Chance(keyed), text, 1)
    assert first == again == last != other
    # Ours draws by the key alone: another generator changes nothing.
    assert colds(keyed, text, 1) == colds(keyed, text, 2) != colds(ours, text, 1)
