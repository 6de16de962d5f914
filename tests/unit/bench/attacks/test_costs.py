"""Clear text costs nothing, and hidden text costs utility."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bench.attacks import tokens
from bench.attacks.channels import CLEAR, Words
from bench.attacks.costs import Meaning, Sentiment, apart
from bench.attacks.interface import Floats
from bench.attacks.public import Public
from bench.attacks.text import Text
from sottovoce.cloud.models import backbone as backbones
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import Setting
from tests.support.paths import MODELS

SENTENCES = (
    "The doctor wrote a letter to her sister in Zanzibar and asked for money .",
    "We were at the market when the train from London came in at noon .",
    "A small dog ran across the garden while it rained .",
)


@pytest.fixture(scope="module")
def public(bundle_folder: Path) -> Public:
    return Public(Bundle.open(bundle_folder), MODELS)


@pytest.fixture(scope="module")
def text(public: Public) -> Text:
    return Text.of(SENTENCES, public.lexicon, public.bundle.manifest.clitics)


def test_forms_are_written_as_they_were_numbered(public: Public, text: Text) -> None:
    first = text.ids[text.sentence == 0]
    assert public.lexicon.written(first) == SENTENCES[0].lower()
    assert first.max() >= public.lexicon.listed  # Zanzibar is met, not listed


def test_meaning_is_kept_whole_in_the_clear_and_in_part_when_hidden(
    public: Public, text: Text
) -> None:
    meaning = Meaning(public, text)
    clear = Words(public, CLEAR).release(text, np.random.default_rng(0))
    assert meaning.of_words(clear.seen.symbols) == pytest.approx(1, abs=1e-5)
    released = Words(public, Setting("strong")).release(text, np.random.default_rng(0))
    assert meaning.of_words(released.seen.symbols).mean() < 0.9


def test_meaning_of_tokens_follows_their_noise(public: Public, text: Text) -> None:
    meaning, embeddings = Meaning(public, text), backbones.input_embeddings(public.backbone)
    ids, origin = tokens.to_tokens(text, public.bundle)
    sentence = text.sentence[origin]
    exact = meaning.of_tokens(ids, torch.from_numpy(embeddings[ids]), sentence)
    assert exact == pytest.approx(1, abs=1e-5)
    found = []
    for channel in tokens.levels_of(public.bundle):
        sent = channel.send(ids, np.zeros(len(ids), np.int32), np.random.default_rng(1))
        means = tokens.posterior(channel, embeddings)(sent, channel.eta)
        found.append((channel.eta, float(meaning.of_tokens(ids, means, sentence).mean())))
    cosines = [cosine for _, cosine in sorted(found)]
    assert cosines[0] < cosines[-1] < 1


def test_a_classifier_learns_from_what_is_left() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 120), random.integers(0, 2, 200)
    empty = Text.of([], _NoLexicon(), ())  # type: ignore[arg-type]
    sides = iter([labels[0], *[labels[1]] * 8])
    sentiment = Sentiment(empty, empty, empty, labels, np.zeros((1, 8), np.float32))

    def embed(_: Text, noise: np.random.Generator) -> Floats:
        side = next(sides)
        vectors: Floats = noise.standard_normal((len(side), 8)).astype(np.float32)
        vectors[:, 0] += 3 * side - 1.5
        return vectors

    right = sentiment.right(embed, trials=3)
    assert right.shape == (3, 200)
    assert right.mean() > 0.8
    assert not np.array_equal(right[0], right[1])  # another training, another release

    sides = iter([labels[0], labels[1][::3]])
    few = sentiment.right(embed, trials=2, few=True)
    assert few.shape == (2, 67)
    assert few.mean() > 0.8


class _NoLexicon:
    """Of no words."""


def test_phrases_that_hold_one_another_are_not_both_judged() -> None:
    review = "one of the finest films that was ever made about the sea and its people"
    taken = "never less than one of the finest"
    phrases = [
        review,  # shares four words with what was learnt from
        "the sea and its people are filmed as if from a dream",
        "a film about the sea and its people who live by it",  # shares four with the last
        "too short to judge by",
        "A dull and lifeless exercise in style over substance ,",
    ]
    assert [*apart(phrases, [taken])] == [1, 4]
    assert [*apart(phrases, [])] == [0, 4]
