"""An owner's hidden words and patterns: drawn under every policy and mechanism, never less."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import decisions
from sottovoce.core.privacy.hiding import MOST_WORDS, Hiding
from sottovoce.core.privacy.mechanisms import MECHANISMS
from sottovoce.core.privacy.policies import POLICIES, Setting, Treatment
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.text.words import split
from tests.support.small_bundle import LexiconFinder, LexiconTagger

TEXT = "they were in the Garden by the cold pond with Anna, emp123"
OTHERS = [name for name in POLICIES if name != "personal"]


def _released(
    bundle: Bundle, tagger: LexiconTagger, hiding: Hiding | None, setting: Setting
) -> Release:
    privatizer = Privatizer(bundle, LexiconFinder(), tagger=lambda: tagger, hiding=hiding)
    return privatizer.release(TEXT, setting, np.random.default_rng(0))


def _treated(release: Release) -> dict[str, Treatment]:
    return {TEXT[word.start : word.end]: word.treatment for word in release.words}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("policy", OTHERS)
def test_hidden_words_are_drawn_and_nothing_is_treated_more_lightly(
    small_bundle: Bundle, lexicon_tagger: LexiconTagger, policy: str, mechanism: str
) -> None:
    setting = Setting("light", mechanism, policy)
    hiding = Hiding.of(allow=["Anna", "emp123"], hide=["garden"], patterns=["two=(?:cold) pond"])
    before = _treated(_released(small_bundle, lexicon_tagger, None, setting))
    release = _released(small_bundle, lexicon_tagger, hiding, setting)
    after = _treated(release)
    hidden = ("Garden", "cold", "pond")
    assert {after[word] for word in hidden} == {Treatment.DRAW}
    assert not [
        word
        for word in release.words
        if word.treatment is Treatment.DRAW and not word.replaced and word.tag != "PUNCTUATION"
    ]
    assert {word: after[word] for word in after if word not in hidden} == {
        word: before[word] for word in before if word not in hidden
    }
    assert release.charge <= _released(small_bundle, lexicon_tagger, None, setting).charge


def test_allowed_words_change_nothing_under_other_policies(
    small_bundle: Bundle, lexicon_tagger: LexiconTagger
) -> None:
    allowing = Hiding.of([("persons", False)], allow=TEXT.split())
    for policy in OTHERS:
        setting = Setting("light", policy=policy)
        with_list = _treated(_released(small_bundle, lexicon_tagger, allowing, setting))
        assert with_list == _treated(_released(small_bundle, lexicon_tagger, None, setting))


def test_windows_change_nothing(
    small_bundle: Bundle, lexicon_tagger: LexiconTagger, monkeypatch: pytest.MonkeyPatch
) -> None:
    hiding, setting = Hiding.of(hide=["by the cold"]), Setting("light", policy="names")
    whole = _treated(_released(small_bundle, lexicon_tagger, hiding, setting))
    monkeypatch.setattr(decisions, "WINDOW", 2)
    assert _treated(_released(small_bundle, lexicon_tagger, hiding, setting)) == whole
    assert whole["cold"] is whole["by"] is Treatment.DRAW


def test_the_report_says_what_a_list_hides(
    small_bundle: Bundle, lexicon_tagger: LexiconTagger
) -> None:
    hiding = Hiding.of(hide=["garden"])
    release = _released(small_bundle, lexicon_tagger, hiding, Setting("light", policy="names"))
    assert {TEXT[w.start : w.end] for w in release.words if w.hides} == {"Garden"}
    assert {w.hides for w in release.words} == {"", "listed"}


@pytest.mark.parametrize(
    "typed",
    [
        *("Ⓖⓐⓡⓓⓔⓝ", "gar&shy;den", "<b>G</b>arden", "**g**arden", "g&#97;rden", "gar\u200bden"),
        *("ｇａｒｄｅｎ", "🄶🄰🅁🄳🄴🄽", "𝐠arden", "gar\u00adden", "g\u0336ard\u0336en", "GARDE\u034fN"),
    ],
)
def test_a_hidden_word_is_drawn_however_its_letters_are_written(
    small_bundle: Bundle, lexicon_tagger: LexiconTagger, typed: str
) -> None:
    text = f"they were in the {typed} by the pond"
    for hiding in (Hiding.of(hide=["garden"]), Hiding.of(patterns=["own=(?i:garden)"])):
        privatizer = Privatizer(
            small_bundle, LexiconFinder(), tagger=lambda: lexicon_tagger, hiding=hiding
        )
        for policy in OTHERS:
            setting = Setting("light", policy=policy)
            release = privatizer.release(text, setting, np.random.default_rng(0))
            hidden = [word for word in release.words if word.hides]
            assert "".join(text[word.start : word.end] for word in hidden) == typed
            assert {word.treatment for word in hidden} == {Treatment.DRAW}
            assert typed not in release.text


def test_a_listed_word_with_an_accent_is_found_composed_or_not() -> None:
    for listed, typed in (("Zoë", "zoe\u0308"), ("zoe\u0308", "ZOË")):
        spans = Hiding.of(hide=[listed]).spans(f"and {typed}", allow=False)
        (word,) = split(f"and {typed}")[1:]
        assert spans.hides(word)


def test_two_full_lists_are_joined() -> None:
    owner = Hiding.of(hide=[f"a{number}" for number in range(MOST_WORDS)])
    caller = Hiding.of(hide=[f"b{number}" for number in range(MOST_WORDS)])
    assert owner.and_more(caller).spans("a7 c b9", allow=False)
