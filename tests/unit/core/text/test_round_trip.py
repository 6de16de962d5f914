"""Unreplaced text comes back as typed, and every word is accounted for.

Documents are drawn from all of Unicode, and from pieces that are easy to cut wrongly: joined emoji,
marks without a base, scripts without spaces or from right to left, line ends, invisible characters,
and letters that change their length with their case.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.text.words import Kind, iter_words, split

PIECES = (
    *("Anna", "the", "pond", "maybe", "gorgeous", "naïve", "DON'T", "it’s", "she'll've", "'tis"),
    *("👨\u200d👩\u200d👧", "👍🏽", "🇩🇪", "1\ufe0f\u20e3", "❤\ufe0f"),
    "🏴\U000e0067\U000e0062\U000e007f",
    *("e\u0301", "Z\u0338\u0300\u0316", "\u0301", ".\u0301", " \u0301", "\u20dd"),
    *("שָׁלוֹם", "مرحبا", "\u202eabc\u202c", "\u200fא", "٣", "०", "ไทย", "한글", "\u1112\u1161\u11ab"),
    *("我有", "日本語ひらがな", "\U00020000", "𝔄𝔟", "ſ", "İ", "ß", "ŉ", "ǆ", "Σς", "K", "Ω"),
    *("\r\n", "\n", "\r", "\t", "\x0b", "\x0c", "\x1c", "\x85", "\xa0", "\u2028", "\u3000", "  "),
    *("\u200b", "\u200d", "\ufeff", "\xad", "\x1b[0m", "\x7f", "\ue000", "\ufffe", "\U0010ffff"),
    *("\ud83d", "\udc4d", "\ud83d\udc4d", "'", "’", "''", "--", "—", "...", "…", "?!", "«", "("),
    *("http://x.org/?q=1", "www.", "a@b.de", "@me", "C:\\x", "1,5", "½", "Ⅻ", "a.b.", "U.S.", "_"),
)
CHARACTERS = st.characters(exclude_characters="\0", exclude_categories=())
DOCUMENTS = st.lists(st.sampled_from(PIECES) | CHARACTERS, min_size=1, max_size=30).map("".join)
TEXTS = DOCUMENTS.filter(lambda document: bool(document) and not document.isspace())
SETTINGS = st.builds(
    Setting,
    level=st.sampled_from(("strong", "light")),
    mechanism=st.sampled_from(("pct2t.v2", "pct2t.v1", "t2t.v1")),
    policy=st.sampled_from(("names", "content", "papers", "all")),
)


def released(privatizer: Privatizer, document: str, setting: Setting) -> Release:
    return privatizer.release(document, setting, np.random.default_rng(0))


def gaps(text: str, spans: list[tuple[int, int]]) -> list[str]:
    """What stands before, between and after `spans`, which are in order and apart."""
    ends, starts = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)]
    assert all(end <= start for end, start in zip(ends, starts, strict=True))
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


@settings(max_examples=300)
@given(document=TEXTS, setting=SETTINGS)
def test_all_between_the_words_comes_back(
    small_privatizer: Privatizer, document: str, setting: Setting
) -> None:
    release = released(small_privatizer, document, setting)
    typed = gaps(document, [(word.start, word.end) for word in release.words])
    said = gaps(release.text, [(w.released_start, w.released_end) for w in release.words])
    assert said == typed
    assert all(not gap or gap.isspace() for gap in typed)


@settings(max_examples=300)
@given(document=TEXTS, setting=SETTINGS)
def test_every_word_is_accounted_for_and_what_is_not_protected_is_as_typed(
    small_privatizer: Privatizer, small_bundle: Bundle, document: str, setting: Setting
) -> None:
    release = released(small_privatizer, document, setting)
    words = split(document, small_bundle.manifest.clitics)
    assert [(word.start, word.end) for word in release.words] == [(w.start, w.end) for w in words]
    for word, report in zip(words, release.words, strict=True):
        said = release.text[report.released_start : report.released_end]
        assert said
        assert report.replaced == (said != word.text)
        if not report.protected:
            assert said == word.text
        if word.kind is Kind.PUNCTUATION:
            assert not report.protected
        elif report.tag == "PUNCTUATION":  # signs that give a text its form
            assert not report.protected
            assert not any(map(str.isalnum, word.text))
        elif word.kind is Kind.IDENTIFIER or setting.mechanism == "t2t.v1":
            assert report.protected


@given(document=TEXTS, setting=SETTINGS)
def test_the_release_can_always_be_sent(
    small_privatizer: Privatizer, document: str, setting: Setting
) -> None:
    release = released(small_privatizer, document, setting)
    assert release.text.encode("utf-8").decode("utf-8") == release.text  # no half of a pair left


@given(before=DOCUMENTS, after=DOCUMENTS)
def test_nul_is_refused_wherever_it_stands(
    small_privatizer: Privatizer, before: str, after: str
) -> None:
    with pytest.raises(InvalidInput, match=f"character {len(before)} is NUL"):
        small_privatizer.release(f"{before}\0{after}", Setting())


@given(before=DOCUMENTS, between=st.sampled_from(" \n\t\u2028\xa0\x1c"), after=DOCUMENTS)
def test_white_space_cuts_so_that_each_part_is_cut_as_if_alone(
    before: str, between: str, after: str
) -> None:
    shift = len(before + between)
    alone = [(w.text, w.start, w.end, w.kind) for w in split(before, ("n't", "'s"))]
    alone += [(w.text, w.start + shift, w.end + shift, w.kind) for w in split(after, ("n't", "'s"))]
    together = iter_words(before + between + after, ("n't", "'s"))
    assert [(w.text, w.start, w.end, w.kind) for w in together] == alone
