"""Plain tokens are public words, drawn as asked for, whatever the user writes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ANY
from sottovoce.core.errors import NotFound, NotReady
from sottovoce.core.privacy import token_embedding
from sottovoce.core.privacy.noise import SecureRandom
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer

ALPHA = 1e-3


def test_every_listed_word_of_the_policy_is_equally_likely(small_bundle: Bundle) -> None:
    pool = token_embedding.candidates(small_bundle, "content")
    drawn = token_embedding.draw(small_bundle, 100_000, "content", np.random.default_rng(5))
    words, counts = np.unique(drawn, return_counts=True)
    assert np.array_equal(words, pool)
    assert stats.chisquare(counts).pvalue > ALPHA


def test_only_free_words_of_the_policy_are_drawn(small_bundle: Bundle) -> None:
    def listed(policy: str) -> set[str]:
        return {small_bundle.words[i] for i in token_embedding.candidates(small_bundle, policy)}

    assert {"pond", "warm", "maybe", "$", "cough"} <= listed("content")
    assert not {"the", "not", "anna", "one", "french", "n't", "'ll"} & listed("content")
    assert {"clinic", "cough", "doctor", "fever"} == listed("names")
    assert {"the", "warm", "not"} <= listed("all")
    assert not {"n't", "'ll"} & listed("all")


def test_draws_differ_from_one_another(small_bundle: Bundle) -> None:
    draws = [token_embedding.draw(small_bundle, 40, "content", SecureRandom()) for _ in range(2)]
    assert draws[0] != draws[1]
    assert token_embedding.draw(small_bundle, 0, "content", SecureRandom()) == []


def test_an_unknown_policy_names_those_there_are(small_bundle: Bundle) -> None:
    with pytest.raises(NotFound) as caught:
        token_embedding.draw(small_bundle, 1, "some", SecureRandom())
    assert "content" in caught.value.fix
    assert caught.value.subject == "policy"


def test_the_vocabulary_is_the_commonest_words_and_as_published_by_default(bundle: Bundle) -> None:
    assert len(token_embedding.vocabulary(bundle, "content").ids) == 7_630
    pool = token_embedding.candidates(bundle, "content")
    everything = token_embedding.vocabulary(bundle, "content", 10**9, by_frequency=True)
    assert np.array_equal(everything.ids, pool)
    share = np.diff(everything.cumulative, prepend=0.0)
    few = token_embedding.vocabulary(bundle, "content", 500)
    assert len(few.ids) == 500
    chosen = np.isin(pool, few.ids)
    assert share[chosen].min() >= share[~chosen].max() * (1 - 1e-9)  # words may be equally common
    words = {bundle.words[i] for i in few.ids.tolist()}
    assert {"people", "made", "new", "also"} <= words
    # Common, but the policy lets them pass, or has them drawn.
    assert not {"of", "was", "london", "two"} & words


def test_a_smaller_vocabulary_is_drawn_uniformly(bundle: Bundle) -> None:
    few = token_embedding.vocabulary(bundle, "content", 50)
    words, counts = np.unique(few.draw(50_000, np.random.default_rng(3)), return_counts=True)
    assert np.array_equal(words, few.ids)
    assert stats.chisquare(counts).pvalue > ALPHA


def test_frequency_sampling_follows_the_public_frequencies(bundle: Bundle) -> None:
    words = token_embedding.vocabulary(bundle, "content", 50, by_frequency=True)
    counts = np.load(bundle.folder / token_embedding.COUNTS).astype(float)
    about = bundle.manifest.classes[ANY]
    times = counts[about.offset : about.offset + about.words].tolist()
    met = dict(zip(bundle.class_members(ANY).tolist(), times, strict=True))
    weights = np.array([met[word] + 0.5 for word in words.ids.tolist()])
    expected = weights / weights.sum()
    draws = words.draw(50_000, np.random.default_rng(4))
    counts = np.bincount(np.searchsorted(words.ids, draws), minlength=50)
    assert stats.chisquare(counts, 50_000 * expected).pvalue > ALPHA
    assert expected.max() > 3 * expected.min(), "too even a list to tell the two apart"


def test_a_bundle_without_frequencies_says_so(small_bundle: Bundle) -> None:
    pool = token_embedding.candidates(small_bundle, "content")
    assert np.array_equal(token_embedding.vocabulary(small_bundle, "content", 9).ids, pool[:9])
    with pytest.raises(NotReady) as caught:
        token_embedding.vocabulary(small_bundle, "content", by_frequency=True)
    assert "uniformly" in caught.value.fix


def test_sequences_are_new_for_each_example_or_a_few_shared_ones(small_bundle: Bundle) -> None:
    words = token_embedding.vocabulary(small_bundle, "content")
    own = itertools.islice(token_embedding.sequences(words, 12, 0, SecureRandom()), 200)
    assert len({tuple(sequence) for sequence in own}) == 200
    shared = itertools.islice(
        token_embedding.sequences(words, 12, 3, np.random.default_rng(6)), 3_000
    )
    _, counts = np.unique(list(shared), axis=0, return_counts=True)
    assert len(counts) == 3
    assert stats.chisquare(counts).pvalue > ALPHA


def test_a_plain_token_of_no_covered_class_may_become_any_word(
    small_privatizer: Privatizer, small_bundle: Bundle
) -> None:
    ids = [small_bundle.words.index(word) for word in ("cold", "the", "and")] * 40
    kept = [small_bundle.words[i] for i in ids]
    assert small_privatizer.release_plain_tokens(ids, Setting(level="light")) == kept
    moved = set(
        small_privatizer.release_plain_tokens(
            ids, Setting(level="strong"), np.random.default_rng(0)
        )
    )
    members = {small_bundle.words[i] for i in small_bundle.class_members(ANY)}
    assert len(moved - {"cold", "the", "and"}) > 10
    assert moved <= members


def test_a_mechanism_that_reads_context_draws_from_the_first_class_that_lists_the_word(
    bundle: Bundle,
) -> None:
    """Plain tokens have no context, so the word's tag is not known."""
    privatizer, setting = Privatizer(bundle), Setting("strong", "pct2t.v1", "content")
    tags = [
        tag for tag in privatizer.mechanism(setting).tags or () if tag in bundle.manifest.classes
    ]
    members = np.array(
        [np.isin(range(len(bundle.words)), bundle.class_members(tag)) for tag in tags]
    )
    listed = members.sum(axis=0)
    several, none = np.flatnonzero(listed > 1)[:150], np.flatnonzero(listed == 0)[:150]

    def drawn(ids: np.ndarray, seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        texts = privatizer.release_plain_tokens(ids.tolist(), setting, random)
        return np.array([bundle.word_ids[text] for text in texts])

    first = members[:, several].argmax(axis=0)
    for seed in range(3):
        assert members[first, drawn(several, seed)].all()
    anywhere = members[:, drawn(none, 0)]
    assert anywhere.any(axis=1).sum() > 1
    assert not anywhere.any(axis=0).all()
