from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sottovoce.edge import plain_tokens
from sottovoce.edge.bundle import Bundle
from sottovoce.edge.errors import NotFound
from sottovoce.edge.noise import SecureRandom

ALPHA = 1e-3


def test_every_listed_word_of_the_policy_is_equally_likely(small_bundle: Bundle) -> None:
    pool = plain_tokens.candidates(small_bundle, "default")
    drawn = plain_tokens.draw(small_bundle, 100_000, "default", np.random.default_rng(5))
    words, counts = np.unique(drawn, return_counts=True)
    assert np.array_equal(words, pool)
    assert stats.chisquare(counts).pvalue > ALPHA


def test_only_free_words_of_the_policy_are_drawn(small_bundle: Bundle) -> None:
    def listed(policy: str) -> set[str]:
        return {small_bundle.words[i] for i in plain_tokens.candidates(small_bundle, policy)}

    assert {"lake", "anna", "is", "$"} <= listed("default")
    assert not {"the", "warm", "not", "n't", "'ll"} & listed("default")
    assert {"the", "warm", "not"} <= listed("all")
    assert not {"n't", "'ll"} & listed("all")


def test_draws_differ_from_one_another(small_bundle: Bundle) -> None:
    draws = [plain_tokens.draw(small_bundle, 40, "default", SecureRandom()) for _ in range(2)]
    assert draws[0] != draws[1]
    assert plain_tokens.draw(small_bundle, 0, "default", SecureRandom()) == []


def test_an_unknown_policy_names_those_there_are(small_bundle: Bundle) -> None:
    with pytest.raises(NotFound) as caught:
        plain_tokens.draw(small_bundle, 1, "some", SecureRandom())
    assert "default" in caught.value.fix
    assert caught.value.subject == "policy"
