"""A tagger that reads context: for `pct2t.v1`, and for no other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import NotReady
from sottovoce.core.privacy.policies import PUNCTUATION, Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text.tagger import Tagger, Tags
from tests.support.small_bundle import LexiconFinder, LexiconTagger

IN_CONTEXT = Setting("strong", "pct2t.v1")
NOTE = "Anna didn't see the  cold pond; she'll write to Dr. Marsh.\n"


def seeded(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def treated(privatizer: Privatizer, text: str, setting: Setting) -> list[str]:
    """What becomes of each word that is no punctuation: "p", "n" or "d"."""
    words = privatizer.release(text, setting, seeded()).words
    return [word.treatment.name[0].lower() for word in words if word.tag != PUNCTUATION]


def tagged(bundle: Bundle, tagger: Tagger, unsure_below: float = 0.7) -> Privatizer:
    return Privatizer(bundle, LexiconFinder(), tagger=lambda: tagger, unsure_below=unsure_below)


def test_a_tagger_is_opened_for_a_mechanism_that_reads_context_alone(small_bundle: Bundle) -> None:
    opened: list[int] = []

    def open_tagger() -> Tagger:
        opened.append(1)
        return LexiconTagger()

    privatizer = Privatizer(small_bundle, tagger=open_tagger)
    for mechanism in ("pct2t.v2", "t2t.v1"):
        privatizer.release(NOTE, Setting("strong", mechanism))
        privatizer.release_plain_tokens([1, 2], Setting("strong", mechanism))
    assert not opened
    assert privatizer.release("the pond", IN_CONTEXT).words[1].tag == "NOUN"
    assert opened
    with pytest.raises(NotReady, match="there is no tagger"):
        Privatizer(small_bundle).release("the pond", IN_CONTEXT)


def test_a_tag_can_ask_for_more_than_a_reading_and_never_for_less(small_bundle: Bundle) -> None:
    class CallsAll:
        reach = 0

        def __init__(self, tag: str) -> None:
            self.tagset = (tag,)

        def tag(self, words: Sequence[str]) -> Tags:
            return Tags(np.zeros(len(words), np.uint8), np.ones(len(words), np.float32))

    text = "the pond fever qzx one, 12"
    for tag, expected in (("DET", "pnnddd"), ("NOUN", "nnnddd"), ("PROPN", "dddddd")):
        assert "".join(treated(tagged(small_bundle, CallsAll(tag)), text, IN_CONTEXT)) == expected
    words = tagged(small_bundle, CallsAll("NUM")).release(text, IN_CONTEXT).words
    assert [word.tag for word in words] == [
        *("NUMBER", "NUMBER", "NUMBER", "UNLISTED", "NUMBER", "PUNCTUATION", "IDENTIFIER")
    ]


def test_a_word_with_an_unsure_tag_is_protected(
    small_bundle: Bundle, lexicon_tagger: Tagger
) -> None:
    text = "maybe very quiet"  # the lexicon tagger is never sure of "maybe", an adverb
    names = Setting("strong", "pct2t.v1", "names")

    def at(unsure_below: float) -> str:
        return "".join(treated(tagged(small_bundle, lexicon_tagger, unsure_below), text, names))

    assert at(0.7) == "npp"
    assert at(0.3) == "ppp"
    assert at(1.0) == "nnn"


def test_below_seven_tenths_a_tag_is_unsure_unless_said_otherwise(small_bundle: Bundle) -> None:
    class Wavers:
        tagset = ("DET",)
        reach = 0

        def tag(self, words: Sequence[str]) -> Tags:
            sure = np.array([0.699, 0.7, 0.701][: len(words)])
            return Tags(np.zeros(len(words), np.uint8), sure)

    privatizer = Privatizer(small_bundle, LexiconFinder(), tagger=Wavers)
    assert treated(privatizer, "the a an", IN_CONTEXT) == ["n", "p", "p"]


def test_a_confidence_that_is_no_number_passes_no_word(small_bundle: Bundle) -> None:
    class Broken:
        tagset = ("DET", "NOUN")
        reach = 0

        def tag(self, words: Sequence[str]) -> Tags:
            return Tags(np.zeros(len(words), np.uint8), np.full(len(words), np.nan, np.float32))

    release = tagged(small_bundle, Broken()).release("the an, a", IN_CONTEXT)
    assert [word.protected for word in release.words] == [True, True, False, True]


def test_a_word_tagged_as_punctuation_is_protected(small_bundle: Bundle) -> None:
    class CallsAllPunctuation:
        tagset = ("NOUN", "PUNCT")
        reach = 0

        def tag(self, words: Sequence[str]) -> Tags:
            return Tags(np.ones(len(words), np.uint8), np.ones(len(words), np.float32))

    release = tagged(small_bundle, CallsAllPunctuation()).release("the , pond", IN_CONTEXT)
    assert [word.protected for word in release.words] == [True, False, True]


def test_in_context_words_move_within_the_part_of_speech_they_have_there(
    small_bundle: Bundle, small_privatizer: Privatizer
) -> None:
    nouns = {small_bundle.words[i] for i in small_bundle.class_members("NOUN")}
    for seed in range(20):
        (word,) = (release := small_privatizer.release("pond", IN_CONTEXT, seeded(seed))).words
        assert word.tag == "NOUN"
        assert release.text in nouns
