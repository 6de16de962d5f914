"""Copies hold the message, ways to draw pool as stated, and pooling helps the attacker."""

from __future__ import annotations

import numpy as np
import pytest

from bench.attacks.bigram import Bigrams
from bench.attacks.text import Lexicon
from bench.keying.corpus import COPIES, WAYS, Corpus, copies, label, places
from bench.keying.pooling import Attacker, Drawn, draw
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.attacker import Candidates
from sottovoce.core.text.word_classes import READINGS

WORDS = 80
ETA = 6.0
NOUN, GRAMMAR = READINGS.index("NOUN"), READINGS.index("GRAMMAR")
MESSAGE = "The doctor was in the garden . She has a letter by the lamp , and it is cold ."


@pytest.fixture(scope="module")
def lexicon(small_bundle: Bundle) -> Lexicon:
    return Lexicon(small_bundle)


def _corpus(texts: list[str], lexicon: Lexicon, bundle: Bundle) -> Corpus:
    return Corpus.of(texts, lexicon, bundle.manifest.clitics, np.asarray(bundle.readings))


def test_copies_hold_the_message(small_bundle: Bundle, lexicon: Lexicon) -> None:
    base = _corpus([MESSAGE], lexicon, small_bundle)
    made = [*copies(MESSAGE)]
    assert len({copy.text for copy in made}) == len(made) == COPIES
    for copy in made:
        text = _corpus([copy.text], lexicon, small_bundle)
        within = places(copy, text.index.astype(np.int64), len(base))
        held = within >= 0
        assert (text.ids[held] == base.ids[within[held]]).all()
        assert held.sum() == len(base) - copy.changed


def test_ways_say_what_is_one_draw(small_bundle: Bundle, lexicon: Lexicon) -> None:
    text = _corpus(
        ["the doctor saw the doctor", "a > doctor saw", "the doctor"], lexicon, small_bundle
    )
    one = {name: way(text) for name, way in WAYS.items()}
    assert [name for name in one if one[name][1] == one[name][4]] == [
        "word and left",
        "word, within a document",
        "word",
    ]
    assert one["word and place"][1] == one["word and place"][9]
    assert one["word and left"][2] == one["word and left"][7]
    assert one["word, left and right"][2] != one["word, left and right"][7]
    assert one["word"][1] == one["word"][6]
    assert len(np.unique(one["fresh in every document"])) == len(text) == 10
    assert (text.before < 0).tolist() == [True, *[False] * 4, True, False, False, True, False]
    assert (text.after < 0).tolist() == [*[False] * 4, True, False, False, True, False, True]
    nouns = text.ids == lexicon.number("doctor")
    assert (text.noised[nouns]).all()
    assert not text.noised[text.ids == lexicon.number("the")].any()


def _language(documents: int, length: int = 40) -> tuple[Corpus, Attacker]:
    """Nouns as common as Zipf has them; a document keeps to ten, and each noun follows one word of
    its own that passes."""
    random = np.random.default_rng(1)
    rows = random.standard_normal((2 * WORDS, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    share = 1 / np.arange(1, WORDS + 1)
    share /= share.sum()
    nouns = np.concatenate(
        [
            random.choice(random.choice(WORDS, 10, replace=False, p=share), length // 2)
            for _ in range(documents)
        ]
    )
    ids = np.stack([nouns + WORDS, nouns], axis=1).ravel().astype(np.int32)
    n, boundary = len(ids), 2 * WORDS
    document = np.repeat(np.arange(documents), length).astype(np.int32)
    index = np.tile(np.arange(length), documents).astype(np.int32)
    starts = index % 4 == 0
    before = np.where(starts, -1, np.arange(n) - 1)
    after = np.where(np.append(starts[1:], True), -1, np.arange(n) + 1)
    left = np.where(starts, boundary, np.roll(ids, 1)).astype(np.int32)
    right = np.where(after < 0, boundary, np.roll(ids, -1)).astype(np.int32)
    reading = np.where(ids < WORDS, NOUN, GRAMMAR).astype(np.int32)
    text = Corpus(ids, left, right, before, after, reading, document, index, ids < WORDS)
    model = Bigrams.of(np.insert(ids, np.flatnonzero(starts), boundary), 2 * WORDS + 1)
    candidates = Candidates.of(share, np.arange(WORDS, dtype=np.int32))
    return text, Attacker(rows, {NOUN: candidates}, {NOUN: ETA}, model, boundary)


def _right(text: Corpus, found: np.ndarray) -> float:
    return float((found == text.ids)[text.noised].mean())


def _drawn(text: Corpus, attacker: Attacker, way: str) -> Drawn:
    etas = np.full(2 * WORDS, ETA)
    return draw(text, WAYS[way](text), attacker.space, etas, np.random.default_rng(2))


def test_different_draws_add_up_and_one_draw_does_not() -> None:
    text, attacker = _language(60)
    word = label(text.document, text.ids)
    alone = np.arange(len(text))
    fresh = _drawn(text, attacker, "fresh in every document")
    one = _right(text, attacker.alone(text, fresh, alone))
    assert 0.05 < one < 0.6
    assert _right(text, attacker.alone(text, fresh, word)) > one + 0.2
    kept = _drawn(text, attacker, "word, within a document")
    assert np.array_equal(attacker.alone(text, kept, word), attacker.alone(text, kept, alone))


def test_neighbours_counts_and_a_cache_help_and_weights_of_nothing_do_not() -> None:
    text, attacker = _language(60)
    fresh = _drawn(text, attacker, "fresh in every document")
    suspects = attacker.suspects(text, fresh, fresh.draw)
    plain = suspects.named(suspects.scores, len(text))
    assert np.array_equal(plain, attacker.alone(text, fresh, fresh.draw))
    assert np.array_equal(plain, attacker.in_context(text, suspects, 0, 0))
    assert np.array_equal(plain, attacker.with_cache(text, suspects, 0))
    assert (plain == -1).tolist() == (~text.noised).tolist()
    assert _right(text, attacker.in_context(text, suspects, 1, 0)) > _right(text, plain) + 0.2
    assert _right(text, attacker.with_cache(text, suspects, 0.5)) > _right(text, plain) + 0.05
    kept = _drawn(text, attacker, "word")
    suspects = attacker.suspects(text, kept, kept.draw)
    plain = suspects.named(suspects.scores, len(text))
    assert _right(text, attacker.in_context(text, suspects, 0, 1)) > _right(text, plain)


def test_large_groups_are_scored_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    text, attacker = _language(20)
    fresh = _drawn(text, attacker, "fresh in every document")
    at_once = attacker.alone(text, fresh, text.ids.astype(np.int64))
    # Of the module that the class is from, whatever was imported by that name since.
    monkeypatch.setitem(Attacker.alone.__globals__, "_SCORES", 3 * WORDS)
    assert np.array_equal(attacker.alone(text, fresh, text.ids.astype(np.int64)), at_once)
    assert _right(text, at_once) > 0.9
