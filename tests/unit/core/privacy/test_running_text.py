"""Running text is drawn as often as counted, and classes fall back as on the device."""

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import attacker
from sottovoce.core.privacy.search import Search
from sottovoce.core.text.frequencies import PublicCounts
from sottovoce.core.text.tagger import UPOS

NOUN, PROPN, AUX = (UPOS.index(tag) for tag in ("NOUN", "PROPN", "AUX"))


@pytest.fixture
def counted() -> PublicCounts:
    rows = [
        ("march", False, "NOUN", 30),
        ("march", False, "PROPN", 70),
        ("'s", True, "AUX", 8),
        ("'s", False, "NOUN", 1),
        ("absent", False, "NOUN", 9),
    ]
    words, clitics, tags, counts = zip(*rows, strict=True)
    places = np.array([UPOS.index(tag) for tag in tags], np.uint8)
    return PublicCounts("en", False, words, np.array(clitics), places, np.array(counts), 1.0, {})


def test_counts_stand_by_word_and_tag(counted: PublicCounts) -> None:
    words = ("march", "unmet", "'s")
    counts = attacker.counts_by_tag(words, np.array([False, False, True]), counted)

    assert counts[0, NOUN] == 30
    assert counts[0, PROPN] == 70
    assert counts[2, AUX] == 8  # the free "'s" is another word
    assert counts.sum() == 108


def test_cased_forms_share_the_count(counted: PublicCounts) -> None:
    counts = attacker.counts_by_tag(("March", "march"), np.zeros(2, np.bool_), counted)

    np.testing.assert_array_equal(counts[:, PROPN], [35, 35])


def test_weights_tell_apart_what_the_mechanism_does() -> None:
    counts = np.zeros((3, len(UPOS)))
    counts[:, NOUN], counts[:, AUX] = [5, 0, 0], [0, 2, 4]
    clitic = np.array([False, False, True])

    by_tag = attacker.weights_by_class(counts, clitic, ("NOUN", "AUX", "VERB"))
    assert {name: each.tolist() for name, each in by_tag.items()} == {
        "NOUN": [5, 0, 0],
        "AUX": [0, 2, 0],
        "AUX+clitic": [0, 0, 4],
    }
    together = attacker.weights_by_class(counts, clitic, None)
    assert {name: each.tolist() for name, each in together.items()} == {
        "*": [5, 2, 0],
        "*+clitic": [0, 0, 4],
    }


def test_every_word_comes_up_as_often_as_its_weight_says() -> None:
    weights = {"a": np.array([0.0, 3.0, 1.0, 96.0]), "b": np.array([50.0, 0.0, 0.3, 49.7])}
    drawn = attacker.draw(weights, 1_000, np.random.default_rng(3))

    for name, each in weights.items():
        times = np.bincount(drawn[name], minlength=4)
        assert np.abs(times - each * 5).max() < 1  # 1,000 draws of a total weight of 200
    assert sum(map(len, drawn.values())) == 1_000


def test_draws_are_unbiased() -> None:
    weights = {"": np.array([0.1, 0.7, 2.2])}
    times = np.zeros(3)
    for seed in range(3_000):
        drawn = attacker.draw(weights, 2, np.random.default_rng(seed))
        times += np.bincount(drawn[""], minlength=3)

    # Each count is a sum of 3,000 draws with a variance of at most 1/4: 4 standard errors,
    # alpha below 2e-4 for the three together.
    np.testing.assert_allclose(times / 6_000, weights[""] / 3, atol=4 * 0.5 / 3_000**0.5 / 2)


def test_rare_are_the_words_past_the_commonest() -> None:
    counts = np.zeros((attacker.COMMON + 3, len(UPOS)))
    counts[:, NOUN] = np.arange(len(counts))
    clitic = np.zeros(len(counts), np.bool_)
    clitic[0] = True  # a clitic is never rare, however seldom it was met

    rare = ~attacker.common(counts, clitic)
    assert np.flatnonzero(rare).tolist() == [1, 2]


def test_fallback_is_that_of_the_device(bundle: Bundle) -> None:
    classes = {name: bundle.class_members(name) for name in bundle.manifest.classes}
    search = Search(bundle)
    for tag in (*UPOS, "*", "none"):
        for name in (tag, f"{tag}+clitic"):
            assert attacker.released_in(name, classes) == search.known_class(name)
