"""Attacks succeed without noise, and learn nothing under full noise.

Most run in a made-up language of 200 words, for which the best attack is known.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bench.attacks.attributes import infer
from bench.attacks.averaging import Averaging, afresh, under_one_key
from bench.attacks.bigram import Bigrams
from bench.attacks.channels import CLEAR, Noised, Words
from bench.attacks.entities import Entities, EntityTagger, f1
from bench.attacks.harness import MECHANISMS, Budget
from bench.attacks.interface import OPEN, Attack, Candidates, Floats, Releases, Seen
from bench.attacks.inversion import ContextMap, Map, Nearest, Rescaled
from bench.attacks.measures import Tally
from bench.attacks.public import Public
from bench.attacks.run import DATA_SETS, Place
from bench.attacks.text import Ints, Text
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.attacker import SphereMap
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.word_classes import READINGS, UNLISTED
from tests.support.paths import MODELS
from tests.support.shared_data import shared_data

WORDS = 200
SENTENCES = (
    "The doctor wrote a letter to her sister in the city and asked for money .",
    "We were at the market when the train from London came in at noon .",
    "A small dog ran across the garden while it rained on the old stone bridge .",
    "They did not know what the company would say about the price of coffee .",
)


@pytest.fixture(scope="module")
def public(bundle_folder: Path) -> Public:
    """The real bundle and the shipped frequencies."""
    return Public(Bundle.open(bundle_folder), MODELS)


def channel(eta: float) -> Noised:
    """Words of unequal length in 8 dimensions, as common as Zipf has them."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((WORDS, 8)).astype(np.float32)
    weights = 10_000.0 / np.arange(1, WORDS + 1)
    everyone = Candidates.of(weights, np.arange(WORDS, dtype=np.int32))
    return Noised("made up", "-", rows, (everyone,), eta)


def sent(to: Noised, ids: Ints, seed: int = 1) -> Releases:
    """Releases of ``ids``, ten words a sentence."""
    group = np.zeros(len(ids), np.int32)
    vectors = to.send(ids, group, np.random.default_rng(seed))
    sentence = (np.arange(len(ids)) // 10).astype(np.int32)
    return Releases(Seen(np.full_like(ids, -1), vectors, group, sentence), ids)


def drawn(to: Noised, n: int, seed: int = 2) -> Ints:
    return to.candidates[0].draw(n, np.random.default_rng(seed))


def test_the_attacker_of_levels_and_of_this_suite_are_one_rule() -> None:
    given = channel(12.0)
    rows = given.rows / np.linalg.norm(given.rows, axis=1, keepdims=True)
    to = dataclasses.replace(given, rows=rows)
    releases = sent(to, drawn(to, 2_000))
    assert releases.seen.vectors is not None
    by_level = SphereMap.of(rows, to.candidates[0]).behind_vectors(releases.seen.vectors, to.eta)
    assert (Map(to).guess(releases.seen) == by_level).mean() > 0.99  # but for ties in float32


def every_attack(to: Noised) -> list[Attack]:
    none = Bigrams.of(np.zeros(2, np.int32), WORDS)
    return [
        Nearest(to),
        Rescaled(to),
        Map(to),
        ContextMap(to, none, 0),
    ]


def test_every_attack_recovers_what_is_not_hidden() -> None:
    to = channel(1e5)
    releases = sent(to, drawn(to, 500))
    for attack in every_attack(to):
        attack.fit(releases)
        found = float((attack.guess(releases.seen) == releases.true).mean())
        # Rows of unequal length: rescaling may move a short row next to another.
        assert found > (0.8 if isinstance(attack, Rescaled) else 0.95), attack.name


def test_no_attack_beats_the_prior_where_everything_is_hidden() -> None:
    to = channel(1e-3)
    known, private = sent(to, drawn(to, 500)), sent(to, drawn(to, 500, 4), 5)
    best = float(np.exp(to.candidates[0].log_prior.max()))
    most = stats.binom.ppf(1 - 1e-4, 500, best) / 500  # false alarms: one in 10,000 for each attack
    for attack in every_attack(to):
        attack.fit(known)
        assert (attack.guess(private.seen) == private.true).mean() <= most, attack.name


def test_map_beats_the_papers_attacker_and_context_beats_map() -> None:
    to = channel(3.0)
    random = np.random.default_rng(3)
    after = random.integers(0, WORDS, (WORDS, 3))  # three words may follow each

    def written(n: int) -> Ints:
        text = [0]
        for _ in range(n - 1):
            text.append(int(random.choice(after[text[-1]])))
        return np.array(text, np.int32)

    bigrams = Bigrams.of(written(20_000), WORDS)
    known, private = sent(to, written(800)), sent(to, written(1_500), 7)
    hits = {}
    for attack in (Nearest(to), Map(to), ContextMap(to, bigrams, WORDS)):
        attack.fit(known)
        hits[attack.name] = float((attack.guess(private.seen) == private.true).mean())
    assert hits["MAP in context"] > hits["MAP"] + 0.1
    uniform = sent(to, drawn(to, 1_500, 8), 9)
    guesses = [attack.guess(uniform.seen) == uniform.true for attack in (Map(to), Nearest(to))]
    assert guesses[0].mean() > guesses[1].mean()


def test_context_finds_the_best_sentence_of_all() -> None:
    to = channel(1.0)
    few = Candidates(np.arange(6, dtype=np.int32), to.candidates[0].log_prior[:6])
    to = Noised("made up", "-", to.rows[:6], (few,), 1.0)
    bigrams = Bigrams.of(np.random.default_rng(1).integers(0, 6, 60), 6)
    releases = sent(to, np.array([0, 3, 1, 5], np.int32))
    attack = ContextMap(to, bigrams, 2)
    assert releases.seen.vectors is not None
    scores = to.evidence(releases.seen.vectors, few) + few.log_prior
    numbers = np.arange(6, dtype=np.int32)
    links = bigrams.information(numbers, numbers)

    def value(path: tuple[int, ...]) -> float:
        alone = sum(float(scores[place, word]) for place, word in enumerate(path))
        return alone + float(links[2, path[0]]) + sum(float(links[a, b]) for a, b in pairwise(path))

    best = max(product(range(6), repeat=4), key=value)
    assert attack.guess(releases.seen).tolist() == list(best)


def test_what_is_open_is_taken_as_it_stands() -> None:
    to = channel(1.0)
    releases = sent(to, drawn(to, 20))
    symbols, group = releases.seen.symbols.copy(), releases.seen.group.copy()
    symbols[::2], group[::2] = 7, OPEN
    seen = Seen(symbols, releases.seen.vectors, group, releases.seen.sentence)
    for attack in every_attack(to):
        attack.fit(Releases(seen, releases.true))
        assert (attack.guess(seen)[::2] == 7).all(), attack.name


def test_bigrams_are_probabilities() -> None:
    text = np.random.default_rng(0).zipf(1.5, 2_000) % 50
    bigrams = Bigrams.of(text, 40)  # ten symbols are too many
    every = np.arange(41, dtype=np.int32)
    shares = np.exp(bigrams.information(every, every) + bigrams.log_share)
    assert np.allclose(shares.sum(axis=1), 1, atol=1e-3)


def test_an_interval_counts_sentences_not_words() -> None:
    judged = np.full(100, 10)
    whole, half = Tally(10 * (np.arange(100) % 2), judged), Tally(judged // 2, judged)
    low, high = whole.interval()  # whole sentences stand or fall together
    assert low < 0.5 < high
    assert high - low == pytest.approx(4 * 0.5 / 10, rel=0.2)  # 1.96 standard errors either side
    assert np.ptp(half.interval()) < 0.01


def reading_of(public: Public, number: int) -> str:
    listed = number < public.lexicon.listed
    return READINGS[public.bundle.readings[number]] if listed else UNLISTED


def test_words_of_the_device_are_attacked_as_they_are_released(public: Public) -> None:
    gold = [[UPOS.index("X")] * len(sentence.split()) for sentence in SENTENCES]
    tokens = [sentence.split() for sentence in SENTENCES]
    text = Text.of(tokens, public.lexicon, public.bundle.manifest.clitics, gold)
    assert text.documents == SENTENCES
    assert len(text) == sum(map(len, tokens))
    strong = Words(public, Setting("strong"))
    releases = strong.release(text, np.random.default_rng(0))
    hidden = releases.seen.group != OPEN
    known = np.array([reading_of(public, number) for number in releases.true])
    passing = np.isin(known, ["REFERENCE", "GRAMMAR", "CLITIC"]) & ~hidden
    assert passing.any()
    assert (releases.seen.symbols == releases.true)[passing].all()
    assert (releases.seen.symbols != releases.true)[hidden].mean() > 0.5
    seen = strong.vectors.release(releases, np.random.default_rng(1)).seen
    assert seen.vectors is not None
    assert (seen.symbols[hidden] == -1).all()  # the released word would tell more
    clear = Words(public, CLEAR).release(text, np.random.default_rng(0))
    assert (Map(Words(public, CLEAR)).guess(clear.seen) == text.ids).mean() > 0.95


def test_averaging_fails_under_one_key_and_succeeds_on_fresh_noise(public: Public) -> None:
    text = Text.of(SENTENCES, public.lexicon, public.bundle.manifest.clitics)
    words = Words(public, Setting("attack:0.4"))
    attack = Averaging(words)
    attack.fit(words.release(text, np.random.default_rng(0)))
    fresh = afresh(words, text, 48, np.random.default_rng(1))
    hidden = fresh[0].seen.group != OPEN
    kept = under_one_key(words, text, 6)
    assert all(np.array_equal(kept[0].seen.symbols, each.seen.symbols) for each in kept)
    one = attack.guess(kept[0].seen)
    assert (attack.guess_all([each.seen for each in kept]) == one).all()
    together = attack.guess_all([each.seen for each in fresh])  # seeded
    # The agent's noise is not: of 42 words about 8 are guessed. False alarm under one in 10,000.
    gained = (together == text.ids)[hidden].mean() - (one == text.ids)[hidden].mean()
    assert gained > 0.3


def test_attributes_are_inferred_from_what_people_write() -> None:
    random = np.random.default_rng(0)
    rows: Floats = random.standard_normal((300, 8)).astype(np.float32)

    def posts(n: int, apart: bool) -> tuple[list[Ints], NDArray[np.int64]]:
        labels = random.integers(0, 2, n)
        starts = labels * 100 if apart else np.zeros(n, np.int64)
        texts = [(start + random.integers(0, 200, 30)).astype(np.int32) for start in starts]
        return texts, labels

    for apart in (True, False):
        train, labels = posts(320, apart)
        test, truth = posts(200, apart)
        found = infer(train, labels, test, truth, rows)
        assert (found["ci"][0] > found["majority"] + 0.2) == apart


def test_entities_are_found_in_text_that_shows_them() -> None:
    random = np.random.default_rng(0)
    names = ("Arlo", "Benta", "Cyra", "Dovin")
    sentences, labels = [], []
    for _ in range(240):
        words = [f"w{number}" for number in random.integers(0, 30, 6)]
        label = ["O"] * 6
        place = int(random.integers(0, 5))
        words[place : place + 2] = random.choice(names, 2)
        label[place : place + 2] = ["B-person", "I-person"]
        sentences.append(tuple(words))
        labels.append(tuple(label))
    train = Entities(tuple(sentences[:200]), tuple(labels[:200]))
    tagger = EntityTagger.fit(train, np.zeros((1, 4), np.float32), {})
    assert f1(tagger.tag(sentences[200:]), labels[200:])["success"] > 0.9


def test_f1_wants_the_whole_entity_and_its_kind() -> None:
    truth = [["B-a", "I-a", "O", "B-b"]]
    assert f1(truth, truth)["success"] == 1
    assert f1([["B-a", "O", "O", "B-b"]], truth)["success"] == 0.5
    assert f1([["B-a", "I-a", "O", "B-a"]], truth)["success"] == 0.5
    assert f1([["O"] * 4], truth)["success"] == 0
    assert f1([["B-a", "B-a"]], [["B-a", "I-a"]])["success"] == 0


ENOUGH = Budget(450, 500_000, (0, 0), (0, 0, 0), (0, 0), 0)


def test_a_target_is_met_by_the_strongest_attack_on_what_is_sent(bundle_folder: Path) -> None:
    data = shared_data(*DATA_SETS)
    harness = Place(bundle_folder, MODELS, data, ENOUGH).harness()
    assert harness.judged.all.sum() >= 3_500
    for mechanism in MECHANISMS:
        found = harness.on_words(Words(harness.public, Setting("attack:0.4", mechanism)))
        best = max(found.rows, key=lambda row: float(row["success"]))
        assert best["attack"] in ("MAP", "MAP in context")  # alike where every word gets noise
        # The standard error is .009 (sentences): of a setting that truly loses .36, one sample in
        # 10,000 would pass. Seeded. These mechanisms stay far below a target, because it allows for
        # what the strongest attacker gains on pct2t.v2.
        assert 0.05 < best["success"] <= 0.33
