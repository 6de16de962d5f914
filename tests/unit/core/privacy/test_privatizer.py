from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ANY, CLITIC
from sottovoce.core.errors import InvalidInput, NotFound, NotReady
from sottovoce.core.privacy import decisions, token_embedding
from sottovoce.core.privacy import privatizer as privatizing
from sottovoce.core.privacy.hiding import Hiding
from sottovoce.core.privacy.mechanisms.spherical import PCT2T2, T2T
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import (
    IDENTIFIER,
    POLICIES,
    PUNCTUATION,
    PrivacyLimits,
    Setting,
    Treatment,
)
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.trust import open_finder
from sottovoce.core.text import word_classes
from sottovoce.core.text.tagger import OnnxTagger, Tagger
from sottovoce.core.text.word_classes import READINGS
from sottovoce.core.text.words import split
from tests.support.small_bundle import LexiconFinder

STRONG = Setting(level="strong")
STILL = Setting(level="light")
"""In the small bundle: noise too short to move any listed word."""

CountedWords = list[tuple[str, bool, str, int]]

NOTE = "Anna didn't see the  cold pond; she'll write to Dr. Marsh (a@b.org), 555-0142!\n"


def seeded(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def outputs(release: Release) -> list[str]:
    return [release.text[w.released_start : w.released_end] for w in release.words]


def inputs(release: Release, document: str) -> list[str]:
    return [document[w.start : w.end] for w in release.words]


# What passes, what gets noise, and what is drawn anew


def treated(privatizer: Privatizer, text: str, setting: Setting = STRONG) -> list[str]:
    """What becomes of each word that is no punctuation: "p", "n" or "d"."""
    words = privatizer.release(text, setting, seeded()).words
    return [word.treatment.name[0].lower() for word in words if word.tag != PUNCTUATION]


def test_words_with_noise_move_and_those_that_pass_stay(small_privatizer: Privatizer) -> None:
    moved: dict[str, int] = {}
    for seed in range(40):
        release = small_privatizer.release(NOTE, STRONG, seeded(seed))
        for word, said in zip(inputs(release, NOTE), outputs(release), strict=True):
            moved[word] = moved.get(word, 0) + (word != said)
    assert all(moved[word] for word in ("Anna", "see", "cold", "pond", "write", "Marsh"))
    # "Dr" is not in the list, the mail address and the number are identifiers.
    assert moved["Dr"] == moved["a@b.org"] == 40
    assert moved["555-0142"] >= 39
    closed = ("the", "she", "'ll", "did", "n't", "to")
    assert not any(moved[word] for word in (*closed, ";", ".", "(", ")", "!"))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("names", "pppppdndd"),
        ("content", "ppnnndndd"),
        ("papers", "npppndndd"),
        ("all", "nnnnndndd"),
    ],
)
def test_the_policy_decides(small_privatizer: Privatizer, policy: str, expected: str) -> None:
    text = "in the cold quiet pond one fever french Anna"
    assert "".join(treated(small_privatizer, text, Setting("strong", policy=policy))) == expected


@pytest.mark.parametrize("policy", [name for name in POLICIES if not POLICIES[name].context])
@pytest.mark.parametrize("mechanism", ["pct2t.v2", "pct2t.v1", "t2t.v1"])
def test_names_numbers_origins_and_what_is_in_no_list_are_drawn_whatever_is_asked(
    small_privatizer: Privatizer, mechanism: str, policy: str
) -> None:
    text = "anna Mark Little Rock one ten french Muslim qzxvbk Zorblax AX-12 joe@b.org"
    for level in ("strong", "light"):
        setting = Setting(level, mechanism, policy)
        assert set(treated(small_privatizer, text, setting)) == {"d"}
        assert small_privatizer.release(text, setting).charge == 0


def test_a_word_to_be_drawn_has_no_say_in_what_comes(small_privatizer: Privatizer) -> None:
    """The same stream draws the same for any word of one kind and shape."""
    for words in ("anna york", "one two", "french english", "qzxvbk flimp"):
        said = {small_privatizer.release(w, STRONG, seeded(1)).text for w in words.split()}
        assert len(said) == 1
    drawn = [small_privatizer.release("one", STRONG, seeded(n)).text for n in range(300)]
    digits = "zero one two three four five six seven eight nine"
    assert set(drawn) == set(digits.split())


def test_t2t_gives_noise_to_every_word_that_is_not_drawn(small_privatizer: Privatizer) -> None:
    release = small_privatizer.release(NOTE, Setting("strong", "t2t.v1", "names"), seeded())
    for word in release.words:
        assert word.protected == (word.tag != PUNCTUATION)


def test_words_in_no_list_come_out_as_others(small_privatizer: Privatizer) -> None:
    text = "Zorblax qzxvbk 東京 Ω 😀 \ud800 fàntastic"
    for setting in (STILL, STRONG, Setting("light", "t2t.v1")):
        release = small_privatizer.release(text, setting, seeded(5))
        assert {word.tag for word in release.words} == {"UNLISTED"}
        assert all(word.treatment is Treatment.DRAW and word.replaced for word in release.words)
        assert not set(text.split()) & set(release.text.split())


def test_identifiers_keep_their_shape_only(small_privatizer: Privatizer) -> None:
    text = "AX-99231 12:30 joe.bloggs@clinic.example £1,200.50"
    release = small_privatizer.release(text, STILL)
    for word, typed, said in zip(
        release.words, inputs(release, text), outputs(release), strict=True
    ):
        assert word.tag == IDENTIFIER
        assert word.treatment is Treatment.DRAW
        assert [c.isdigit() for c in said][:4] == [c.isdigit() for c in typed][:4]
    assert "99231" not in release.text
    assert "bloggs" not in release.text
    assert release.charge == 0


def test_case_is_carried_over(small_privatizer: Privatizer) -> None:
    release = small_privatizer.release("Pond POND pond", STRONG, seeded())
    assert [word_classes.shape(word) for word in outputs(release)] == [
        word_classes.Case.CAPITALISED,
        word_classes.Case.UPPER,
        word_classes.Case.LOWER,
    ]


def test_words_move_within_their_class(small_bundle: Bundle, small_privatizer: Privatizer) -> None:
    def members(name: str) -> set[str]:
        return {small_bundle.words[i] for i in small_bundle.class_members(name)}

    noisy = Setting("strong", policy="all")
    for seed in range(20):
        release = small_privatizer.release(NOTE.lower(), noisy, seeded(seed))
        for word, said in zip(release.words, outputs(release), strict=True):
            if word.treatment is Treatment.NOISE:
                clitic = NOTE[word.start] == "'" or NOTE[word.start : word.end] == "n't"
                name = PCT2T2(1.0, READINGS).word_class(word.tag, clitic)
                assert said in members(name)
        anything = small_privatizer.release("she'll go", Setting("strong", "t2t.v1"), seeded(seed))
        free, hung, _ = outputs(anything)
        assert free in members(ANY)
        assert hung in members(ANY + CLITIC)


def test_without_noise_listed_words_come_back(small_privatizer: Privatizer) -> None:
    text = "They see the Cold pond, NOT a fever."
    release = small_privatizer.release(text, STILL)
    assert release.text == text
    assert sum(word.protected for word in release.words) == 4
    assert not any(word.replaced for word in release.words)


# The document is put together again


@given(document=st.text(min_size=1, max_size=80).filter(lambda t: t.strip() and "\0" not in t))
def test_gaps_are_copied_and_offsets_are_right(
    small_privatizer: Privatizer, small_bundle: Bundle, document: str
) -> None:
    release = small_privatizer.release(document, STRONG)
    words = split(document, small_bundle.manifest.clitics)
    assert inputs(release, document) == [document[word.start : word.end] for word in words]

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
    monkeypatch.setattr(decisions, "WINDOW", 7)
    pieces = small_privatizer.release(text, STILL, seeded())
    assert [(w.start, w.end, w.tag, w.treatment) for w in whole.words] == [
        (w.start, w.end, w.tag, w.treatment) for w in pieces.words
    ]
    assert pieces.charge == whole.charge


# Noise, budgets, settings


def test_a_name_is_one_name_throughout_a_document_or_a_conversation(
    small_privatizer: Privatizer,
) -> None:
    key = Key(b"k" * 32)

    def names(document: str, session: str = "") -> list[str]:
        release = small_privatizer.release(document, STRONG, key=key, session=session)
        return [said for said in outputs(release) if said[0].isupper()]

    documents = [f"Anna {word} to Paris and Anna reads" for word in ("walk", "send", "write")]
    for document in documents:
        first, _, again = names(document)
        assert first == again
    # One of hundreds of names: that three are the same has a chance of one in 100,000.
    assert len({names(document)[0] for document in documents}) > 1
    in_one = {tuple(names(document, "s")) for document in documents}
    assert len(in_one) == 1
    assert {tuple(names(document, "t")) for document in documents} != in_one


def test_each_release_has_noise_of_its_own(small_privatizer: Privatizer) -> None:
    text = "letter river garden pond house doctor clinic cough fever lamp " * 4
    releases = {small_privatizer.release(text, STRONG).text for _ in range(5)}
    assert len(releases) == 5
    seeds = [small_privatizer.release(text, STRONG, seeded(3)).text for _ in range(2)]
    assert seeds[0] == seeds[1]


def test_repeated_words_get_noise_apart(small_privatizer: Privatizer) -> None:
    release = small_privatizer.release("pond " * 200, STRONG, seeded())
    assert len(set(outputs(release))) > 10


def test_the_charge_counts_words_with_noise(small_privatizer: Privatizer) -> None:
    release = small_privatizer.release(NOTE, STRONG)
    with_noise = [w for w in release.words if w.treatment is Treatment.NOISE]
    assert release.charge == len(with_noise) * 4.0
    assert release.eta == 4.0
    assert small_privatizer.release("...", STRONG).charge == 0


def test_a_release_says_how_it_was_made(small_privatizer: Privatizer, small_bundle: Bundle) -> None:
    release = small_privatizer.release("hello", STRONG)
    assert release.setting == STRONG
    assert release.bundle_id == small_bundle.id
    assert small_privatizer.mechanism(STRONG) == PCT2T2(4.0, POLICIES["content"].with_noise())
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
    ids = token_embedding.draw(small_bundle, 200, "content", seeded())
    kept = [small_bundle.words[i] for i in ids]
    assert small_privatizer.release_plain_tokens(ids, STILL) == kept
    moved = small_privatizer.release_plain_tokens(ids, STRONG)
    assert len(moved) == 200
    assert moved != kept
    nouns = {small_bundle.words[i] for i in small_bundle.class_members("=NOUN")}
    for before, after in zip(kept, moved, strict=True):
        assert (before in nouns) == (after in nouns)
    assert small_privatizer.release_plain_tokens([], STRONG) == []
    anything = small_privatizer.release_plain_tokens(ids, Setting("strong", "t2t.v1"))
    assert any((a in nouns) != (b in nouns) for a, b in zip(kept, anything, strict=True))


def test_stages_are_told_in_their_order(small_bundle: Bundle) -> None:
    told: list[str] = []

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        told.append(name)
        yield
        told.append(name)

    Privatizer(small_bundle, LexiconFinder(), stage=stage).release(NOTE, STRONG)
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


def test_a_privatizer_of_a_bundle_has_its_finder_its_tagger_and_the_owners_wishes(
    bundle: Bundle,
) -> None:
    key, text = Key(bytes(32)), "Anna Kerr saw the quiet pond in Paris; orion was there."
    finder, tagger = open_finder(bundle), OnnxTagger.load(bundle.tagger_folder)
    by_parts = Privatizer(bundle, finder, tagger=lambda: tagger)
    made = Privatizer.of(bundle)
    for setting in (Setting("balanced"), Setting("strong", "pct2t.v1")):
        expected = by_parts.release(text, setting, key=key)
        assert made.release(text, setting, key=key).text == expected.text
    opened: list[str] = []
    stages: list[str] = []

    def open_tagger() -> Tagger:
        opened.append("tagger")
        return tagger

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        stages.append(name)
        yield

    kept = Hiding.of(hide=["pond"])
    own = Privatizer.of(
        bundle,
        tagger=open_tagger,
        unsure_below=2.0,
        floors=PrivacyLimits(least_policy="content"),
        stage=stage,
        hiding=kept,
    )
    for _ in range(2):
        unsure = own.release(text, Setting("strong", "pct2t.v1"), key=key)
    assert opened == ["tagger"]
    assert stages
    assert not any(word.treatment is Treatment.PASS for word in unsure.words if word.tag == "DET")
    pond = next(word for word in unsure.words if text[word.start : word.end] == "pond")
    assert pond.treatment is Treatment.DRAW
    with pytest.raises(NotReady):
        own.mechanism(Setting("balanced", policy="names"))
