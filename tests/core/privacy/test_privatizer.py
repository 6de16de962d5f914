from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ANY, CLITIC
from sottovoce.core.errors import InvalidInput, NotFound
from sottovoce.core.privacy import plain_tokens
from sottovoce.core.privacy import privatizer as privatizing
from sottovoce.core.privacy.mechanisms.pct2t import PCT2T
from sottovoce.core.privacy.mechanisms.t2t import T2T
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.text import casing
from sottovoce.core.text.tagger import Tagger, Tags
from sottovoce.core.text.words import split

STRONG = Setting(level="strong")
STILL = Setting(level="light")
"""In the small bundle: noise too short to move any listed word."""

CountedWords = list[tuple[str, bool, str, int]]

NOTE = "Anna didn't see the  cold lake; she'll write to Dr. Marsh (a@b.org), 555-0142!\n"


def seeded(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def outputs(release: Release) -> list[str]:
    return [release.text[w.released_start : w.released_end] for w in release.words]


def inputs(release: Release, document: str) -> list[str]:
    return [document[w.start : w.end] for w in release.words]


# What passes, and what does not


def test_covered_words_move_and_the_others_stay(small_privatizer: Privatizer) -> None:
    moved: dict[str, int] = {}
    for seed in range(40):
        release = small_privatizer.release(NOTE, STRONG, seeded(seed))
        for word, said in zip(inputs(release, NOTE), outputs(release), strict=True):
            moved[word] = moved.get(word, 0) + (word != said)
    assert all(moved[word] for word in ("Anna", "see", "lake", "she", "'ll", "write", "to"))
    # "Dr" is not in the list, the mail address and the number are identifiers.
    assert moved["Dr"] == moved["a@b.org"] == 40
    assert moved["555-0142"] >= 39
    assert not any(moved[word] for word in ("the", "cold", "n't", ";", ".", "(", ")", "!"))


def test_t2t_covers_every_word(small_privatizer: Privatizer) -> None:
    release = small_privatizer.release(NOTE, Setting("strong", "t2t.v1"), seeded())
    for word in release.words:
        assert word.protected == (word.tag != "PUNCTUATION")


def test_the_policy_decides(small_privatizer: Privatizer) -> None:
    text = "the cold lake"
    some = small_privatizer.release(text, STRONG, seeded())
    every = small_privatizer.release(text, Setting("strong", policy="all"), seeded())
    assert [word.protected for word in some.words] == [False, False, True]
    assert [word.protected for word in every.words] == [True, True, True]


def test_words_out_of_the_list_are_always_replaced(small_privatizer: Privatizer) -> None:
    text = "Zorblax qzxvbk 東京 Ω 😀 \ud800 fàntastic"
    for setting in (STILL, STRONG, Setting("light", "t2t.v1")):
        release = small_privatizer.release(text, setting)
        assert all(word.protected and word.replaced for word in release.words)
        assert release.text.isascii() or "€" in release.text


def test_a_word_with_an_unsure_tag_is_protected(
    small_bundle: Bundle, lexicon_tagger: Tagger
) -> None:
    text = "maybe very quiet"  # the lexicon tagger is never sure of "maybe", an adverb

    def protected(unsure_below: float) -> list[bool]:
        engine = Privatizer(small_bundle, lexicon_tagger, unsure_below=unsure_below)
        return [word.protected for word in engine.release(text, STRONG).words]

    assert protected(0.7) == [True, False, False]
    assert protected(0.3) == [False, False, False]
    assert protected(1.0) == [True, True, True]


def test_below_seven_tenths_a_tag_is_unsure_unless_said_otherwise(small_bundle: Bundle) -> None:
    class Wavers:
        tagset = ("ADV",)
        reach = 0

        def tag(self, words: Sequence[str]) -> Tags:
            sure = np.array([0.699, 0.7, 0.701][: len(words)])
            return Tags(np.zeros(len(words), np.uint8), sure)

    release = Privatizer(small_bundle, Wavers()).release("very quite never", STRONG)
    assert [word.protected for word in release.words] == [True, False, False]


def test_a_confidence_that_is_no_number_passes_no_word(small_bundle: Bundle) -> None:
    class Broken:
        tagset = ("ADV", "NOUN")
        reach = 0

        def tag(self, words: Sequence[str]) -> Tags:
            return Tags(np.zeros(len(words), np.uint8), np.full(len(words), np.nan, np.float32))

    release = Privatizer(small_bundle, Broken()).release("very quiet, never", STRONG)
    assert [word.protected for word in release.words] == [True, True, False, True]


def test_a_word_tagged_as_punctuation_is_protected(small_bundle: Bundle) -> None:
    class CallsAllPunctuation:
        tagset = ("NOUN", "PUNCT")
        reach = 0

        def tag(self, words: Sequence[str]) -> Tags:
            return Tags(np.ones(len(words), np.uint8), np.ones(len(words), np.float32))

    release = Privatizer(small_bundle, CallsAllPunctuation()).release("warm , lake", STRONG)
    assert [word.protected for word in release.words] == [True, False, True]


@pytest.mark.parametrize("typed", ["gorgeous", "naïve", "war\u200bm", "wa\u0301rm"])
def test_an_uncovered_word_not_listed_just_so_is_protected(
    small_privatizer: Privatizer, typed: str
) -> None:
    (word,) = small_privatizer.release(typed, STRONG).words
    assert word.tag == "ADJ"  # which the policy does not cover
    assert word.protected
    plain = small_privatizer.release("Naive WARM n’t", STRONG)
    assert not any(word.protected for word in plain.words)


def test_identifiers_keep_their_shape_only(small_privatizer: Privatizer) -> None:
    text = "AX-99231 12:30 joe.bloggs@clinic.example £1,200.50"
    release = small_privatizer.release(text, STILL)
    for word, typed, said in zip(
        release.words, inputs(release, text), outputs(release), strict=True
    ):
        assert word.tag == "IDENTIFIER"
        assert word.protected
        assert [c.isdigit() for c in said][:4] == [c.isdigit() for c in typed][:4]
    assert "99231" not in release.text
    assert "bloggs" not in release.text
    assert release.charge == 0


def test_case_is_carried_over(small_privatizer: Privatizer) -> None:
    release = small_privatizer.release("Lake LAKE lake", STRONG, seeded())
    assert [casing.shape(word) for word in outputs(release)] == [
        casing.Case.CAPITALISED,
        casing.Case.UPPER,
        casing.Case.LOWER,
    ]


def test_words_move_within_their_class(small_bundle: Bundle, small_privatizer: Privatizer) -> None:
    def members(name: str) -> set[str]:
        return {small_bundle.words[i] for i in small_bundle.class_members(name)}

    for seed in range(20):
        release = small_privatizer.release(NOTE.lower(), STRONG, seeded(seed))
        for word, said in zip(release.words, outputs(release), strict=True):
            if word.protected and word.tag != "IDENTIFIER":
                clitic = NOTE[word.start] == "'"
                assert said in members(word.tag + CLITIC if clitic else word.tag)
        anything = small_privatizer.release("she'll go", Setting("strong", "t2t.v1"), seeded(seed))
        free, hung, _ = outputs(anything)
        assert free in members(ANY)
        assert hung in members(ANY + CLITIC)


def test_without_noise_listed_words_come_back(small_privatizer: Privatizer) -> None:
    text = "Anna will see the lake at one."
    release = small_privatizer.release(text, STILL)
    assert release.text == text
    assert sum(word.protected for word in release.words) == 6
    assert not any(word.replaced for word in release.words)


# The document is put together again


@given(document=st.text(min_size=1, max_size=80).filter(lambda t: t.strip() and "\0" not in t))
def test_gaps_are_copied_and_offsets_are_right(
    small_privatizer: Privatizer, small_bundle: Bundle, document: str
) -> None:
    release = small_privatizer.release(document, STRONG)
    words = split(document, small_bundle.manifest.clitics)
    assert inputs(release, document) == [word.text for word in words]

    def gaps(text: str, spans: list[tuple[int, int]]) -> list[str]:
        ends = [0, *(end for _, end in spans)]
        starts = [*(start for start, _ in spans), len(text)]
        return [text[end:start] for end, start in zip(ends, starts, strict=True)]

    before = gaps(document, [(word.start, word.end) for word in release.words])
    after = gaps(release.text, [(w.released_start, w.released_end) for w in release.words])
    assert before == after
    for word, typed, said in zip(
        release.words, inputs(release, document), outputs(release), strict=True
    ):
        assert word.replaced == (typed != said)
        assert word.protected or typed == said
        assert said


def test_a_long_document_is_the_same_in_windows(
    small_privatizer: Privatizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = NOTE * 30
    whole = small_privatizer.release(text, STILL, seeded())
    monkeypatch.setattr(privatizing, "WINDOW", 7)
    pieces = small_privatizer.release(text, STILL, seeded())
    assert [(w.start, w.end, w.tag, w.protected) for w in whole.words] == [
        (w.start, w.end, w.tag, w.protected) for w in pieces.words
    ]
    assert pieces.charge == whole.charge


@pytest.mark.parametrize("window", [1, 3, 50])
def test_windows_do_not_cut_what_the_tagger_sees(
    privatizer: Privatizer, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    # Narrower than the tagger's reach, as wide, and wider.
    text = NOTE * 3
    whole = privatizer.release(text, STRONG, seeded())
    monkeypatch.setattr(privatizing, "WINDOW", window)
    pieces = privatizer.release(text, STRONG, seeded())
    assert [(w.tag, w.protected) for w in whole.words] == [
        (w.tag, w.protected) for w in pieces.words
    ]


@pytest.mark.parametrize("reach", [0, 2])
def test_the_tagger_sees_a_window_and_as_far_as_it_looks(
    small_bundle: Bundle, lexicon_tagger: Tagger, monkeypatch: pytest.MonkeyPatch, reach: int
) -> None:
    class Counting:
        tagset = lexicon_tagger.tagset

        def __init__(self) -> None:
            self.reach = reach
            self.seen: list[int] = []

        def tag(self, words: Sequence[str]) -> Tags:
            self.seen.append(len(words))
            return lexicon_tagger.tag(words)

    tagger = Counting()
    monkeypatch.setattr(privatizing, "WINDOW", 7)
    Privatizer(small_bundle, tagger).release("lake " * 50, STRONG)
    assert max(tagger.seen) == 7 + 2 * reach


# Noise, budgets, settings


def test_each_release_has_noise_of_its_own(small_privatizer: Privatizer) -> None:
    text = "letter river garden lake house doctor clinic cough fever lamp " * 4
    releases = {small_privatizer.release(text, STRONG).text for _ in range(5)}
    assert len(releases) == 5
    seeds = [small_privatizer.release(text, STRONG, seeded(3)).text for _ in range(2)]
    assert seeds[0] == seeds[1]


def test_repeated_words_get_noise_apart(small_privatizer: Privatizer) -> None:
    release = small_privatizer.release("lake " * 200, STRONG, seeded())
    assert len(set(outputs(release))) > 10


def test_the_charge_counts_words_with_noise(small_privatizer: Privatizer) -> None:
    release = small_privatizer.release(NOTE, STRONG)
    with_noise = [w for w in release.words if w.protected and w.tag != "IDENTIFIER"]
    assert release.charge == len(with_noise) * 4.0
    assert release.eta == 4.0
    assert small_privatizer.release("...", STRONG).charge == 0


def test_a_release_says_how_it_was_made(small_privatizer: Privatizer, small_bundle: Bundle) -> None:
    release = small_privatizer.release("hello", STRONG)
    assert release.setting == STRONG
    assert release.bundle_id == small_bundle.id
    assert small_privatizer.mechanism(STRONG) == PCT2T(
        4.0, small_bundle.manifest.policies["default"]
    )
    assert small_privatizer.mechanism(Setting("balanced", "t2t.v1")) == T2T(15.0)


@pytest.mark.parametrize(
    ("setting", "subject"),
    [
        (Setting(level="paranoid"), "level"),
        (Setting(mechanism="pct2t.v9"), "mechanism"),
        (Setting(policy="some"), "policy"),
    ],
)
def test_unknown_settings_name_the_known_ones(
    small_privatizer: Privatizer, setting: Setting, subject: str
) -> None:
    with pytest.raises(NotFound) as caught:
        small_privatizer.release("hello", setting)
    assert caught.value.subject == subject
    assert "use one of" in caught.value.fix


# Bad input


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("a\0b", "character 1 is NUL"),
        ("a " * (1 << 19) + "b", "bytes, at most"),
        ("so " + "a" * 4_097, "word at character 3 has 4097 characters"),
        ("so " + "1" * 5_000, "word at character 3 has 5000 characters"),
    ],
)
def test_what_is_no_text_is_refused(
    small_privatizer: Privatizer, document: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        small_privatizer.release(document, STRONG)
    assert caught.value.subject == "text"
    assert caught.value.fix
    assert "aaa" not in str(caught.value)


def test_the_longest_word_and_long_rulings_are_taken(small_privatizer: Privatizer) -> None:
    assert small_privatizer.release("a" * 4_096, STRONG).words[0].replaced
    assert small_privatizer.release("-" * 10_000, STRONG).text == "-" * 10_000


# Plain tokens


def test_plain_tokens_move_like_text(small_privatizer: Privatizer, small_bundle: Bundle) -> None:
    ids = plain_tokens.draw(small_bundle, 200, "default", seeded())
    kept = [small_bundle.words[i] for i in ids]
    assert small_privatizer.release_plain_tokens(ids, STILL) == kept
    moved = small_privatizer.release_plain_tokens(ids, STRONG)
    assert len(moved) == 200
    assert moved != kept
    nouns = {small_bundle.words[i] for i in small_bundle.class_members("NOUN")}
    for before, after in zip(kept, moved, strict=True):
        assert (before in nouns) == (after in nouns)
    assert small_privatizer.release_plain_tokens([], STRONG) == []
    anything = small_privatizer.release_plain_tokens(ids, Setting("strong", "t2t.v1"))
    assert any((a in nouns) != (b in nouns) for a, b in zip(kept, anything, strict=True))


def test_stages_are_told_in_their_order(small_bundle: Bundle, lexicon_tagger: Tagger) -> None:
    told: list[str] = []

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        told.append(name)
        yield
        told.append(name)

    Privatizer(small_bundle, lexicon_tagger, stage=stage).release(NOTE, STRONG)
    entered, left = told[::2], told[1::2]
    assert entered == left  # none within another
    assert list(dict.fromkeys(entered)) == list(privatizing.STAGES)


def test_threads_share_one_privatizer(small_privatizer: Privatizer) -> None:
    text = NOTE * 5
    expected = [small_privatizer.release(text, STRONG, seeded(n)) for n in range(4)]
    wrong: list[int] = []

    def work(number: int) -> None:
        releases = [small_privatizer.release(text, STRONG, seeded(number)) for _ in range(5)]
        wrong.extend(number for release in releases if release != expected[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
