"""Nothing of a document is lost between words, and nothing with content passes as punctuation."""

from __future__ import annotations

import doctest
import gzip
import re
import unicodedata
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.text import word_classes, words
from sottovoce.core.text.plain_letters import decoded, without_fillers
from sottovoce.core.text.word_classes import Case
from sottovoce.core.text.words import Context, Kind, Word
from sottovoce.core.text.words import split as cut
from tests.support.shared_data import shared_data

EWT = "ud_ewt/dev.conllu.gz"
ENGLISH = ("n't", "'s", "'ll", "'re", "'ve", "'d", "'m")

anything = st.text(st.characters(exclude_categories=()))
awkward = st.text(st.sampled_from("aB1é\u0301我ア٣²'’.,-_@/:?=&#£%😀\u200d\ud800\x00\u2028 \n(«"))
coded = st.lists(
    st.sampled_from(
        [
            "Ⓐ",
            "🅱",
            "🅱\ufe0f",
            "&auml;",
            "&#64;",
            "&amp;",
            "&shy;",
            "&#776;",
            "**",
            "<b>",
            "</b>",
            *"aB1 .;\n",
        ]
    )
).map("".join)
documents = anything | awkward | coded


def split(document: str, clitics: tuple[str, ...] = ENGLISH) -> list[Word]:
    return cut(document, clitics)


def texts(document: str) -> list[str]:
    return [word.text for word in split(document)]


@given(documents)
def test_words_and_white_space_make_up_the_document(document: str) -> None:
    done, read = 0, decoded(document)
    assert len(read) == len(document)
    for word in split(document):
        assert word.text in (
            document[word.start : word.end],
            without_fillers(read[word.start : word.end]),
        )
        assert word.text
        gap = document[done : word.start]
        assert not gap or gap.isspace()
        done = word.end
    assert not document[done:] or document[done:].isspace()


@given(documents)
def test_no_word_holds_white_space_unless_it_is_spelled(document: str) -> None:
    for word in split(document):
        if any(map(str.isspace, word.text)):
            assert word.kind is Kind.IDENTIFIER
            assert all(len(letter) == 1 for letter in re.findall(r"\w+", word.text))
            assert not word.text[0].isspace()
            assert not word.text[-1].isspace()
            assert "\n" not in word.text


@given(documents)
def test_punctuation_is_one_character_repeated_and_nothing_else(document: str) -> None:
    for word in split(document):
        if word.kind is Kind.PUNCTUATION:
            assert len(set(word.text)) == 1
            assert unicodedata.category(word.text[0])[0] == "P"


@given(documents)
def test_numbers_of_any_script_are_identifiers(document: str) -> None:
    for word in split(document):
        if any(unicodedata.category(character)[0] == "N" for character in word.text):
            assert word.kind is Kind.IDENTIFIER


@given(documents)
def test_every_letter_and_symbol_is_in_a_word_that_is_not_punctuation(document: str) -> None:
    for word in split(document):
        if any(unicodedata.category(character)[0] != "P" for character in word.text):
            assert word.kind is not Kind.PUNCTUATION


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("She'll stay, don't worry.", ["She", "'ll", "stay", ",", "do", "n't", "worry", "."]),
        ("SHE’LL", ["SHE", "’LL"]),
        (
            "Sch&auml;fer's Stra&#223;e &amp; <b>S</b>o",
            ["Schäfer", "'s", "Straße", "&", "amp", ";", "So"],
        ),
        ("Ⓝⓐⓘⓡ 🄽🄰🄸🅁 🅽🅰🅸🆁 ⒩⒜⒤⒭ 🅰️", ["Nair", "NAIR", "NAIR", "nair", "🅰️"]),
        (
            "**N**air Ne<i>i</i>l **N** a**i**r",
            ["Nair", "Neil", "**", "N", "**", "a", "**", "i", "**", "r"],
        ),
        ("ida&#64;post.example", ["ida@post.example"]),
        ("Bo's dogs' bowl", ["Bo", "'s", "dogs", "'", "bowl"]),
        ("shouldn't've", ["should", "n't", "'ve"]),
        ("I cannot", ["I", "cannot"]),
        ("do n't it 's", ["do", "n't", "it", "'s"]),
        ("O'Brien's 'quoted'", ["O'Brien", "'s", "'", "quoted", "'"]),
        ("a well-known (fact)!!", ["a", "well", "-", "known", "(", "fact", ")", "!!"]),
        ("wait...what?!", ["wait", "...", "what", "?", "!"]),
        ("the U.S. at 5 p.m., e.g. now", ["the", "U.S.", "at", "5", "p.m.", ",", "e.g.", "now"]),
        ("The end.Next day", ["The", "end", ".", "Next", "day"]),
        ("and/or AT&T", ["and", "/", "or", "AT", "&", "T"]),
        ("1990's", ["1990", "'s"]),
        ("ok👍🏽 👨\u200d👩\u200d👧!", ["ok", "👍🏽", "👨\u200d👩\u200d👧", "!"]),
        ("cafe\u0301 naïve", ["cafe\u0301", "naïve"]),
        ("我有3个。", ["我", "有", "3", "个", "。"]),
        ("Привет, мир", ["Привет", ",", "мир"]),
        ("C++ costs €", ["C", "++", "costs", "€"]),
        ("_hi_ *there*", ["_", "hi", "_", "*", "there", "*"]),
        ("1,250.50 3,5 54,140 €1,000", ["1,250.50", "3,5", "54,140", "€1,000"]),
        ("3,9.99 54,140,90", ["3", ",", "9.99", "54", ",", "140", ",", "90"]),
        ("17,250.00,Leeds", ["17", ",", "250.00", ",", "Leeds"]),
        ("BX-22,3,9.99%", ["BX-22", ",", "3", ",", "9.99%"]),
        ("51.5074,0.1278 4111,1111,1111 a1,2b", ["51.5074,0.1278", "4111,1111,1111", "a1,2b"]),
        ("0161,496,0772 DE89,3704,0044", ["0161,496,0772", "DE89,3704,0044"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_cuts_as_universal_dependencies_do(document: str, expected: list[str]) -> None:
    assert texts(document) == expected


@pytest.mark.parametrize("document", ["it's", "It’S", "it 's", "they'd", "1990's", "U.S.'s"])
def test_clitics_are_marked(document: str) -> None:
    assert [word.clitic for word in split(document)] == [False, True]


@pytest.mark.parametrize("document", ["'", "s", "'tis", "rock'n'roll", "n", "'sister"])
def test_what_only_looks_like_a_clitic_is_not_marked(document: str) -> None:
    assert not any(word.clitic for word in split(document))


def test_clitics_of_another_language_can_be_given() -> None:
    assert texts("dammi'lo") == ["dammi'lo"]
    assert [w.text for w in cut("don't it's")] == ["don't", "it's"]
    assert [w.text for w in split("dammi'lo don't", clitics=("'lo",))] == ["dammi", "'lo", "don't"]


@given(documents | st.text(st.sampled_from("aZ ,.!'’-9é@/\n"), max_size=40))
def test_plain_words_are_cut_as_any_others(document: str) -> None:
    with mock.patch.object(words, "_PLAIN", re.compile("(?!)")):
        expected = split(document)
    assert split(document) == expected


def test_invisible_and_control_characters_are_words() -> None:
    for character in ("\x00", "\u200b", "\ufeff", "\ue000", "\ud800", "\u0378"):
        (word,) = split(character)
        assert word.kind is Kind.WORD


@pytest.mark.parametrize(
    "pump",
    [
        *("a", "a@", "(", "a.", "a'", "n't", "'s", "a-", "1,", "www.", "http://", "http://a)"),
        *("://", "?a=", "~/", "\\", "a_", "\u0301", "a\u0301.", "😀\u200d", "我", "A.b", "'", "!?"),
        *("a-", "a.", "a, ", "a - b ", "a b-c d-", "1-a-", "a\u0301-", "a b c1 ", "a  -  "),
    ],
)
def test_time_is_linear(pump: str) -> None:
    # At this length a scanner that looks back or ahead without bound would take hours.
    document = pump * (100_000 // len(pump))
    assert "".join("".join(texts(document)).split()) == "".join(document.split())


def test_agrees_with_the_treebank_about_where_words_end() -> None:
    found_all = gold_all = both = 0
    gold: list[str] = []
    text = ""
    with gzip.open(shared_data(EWT) / EWT, "rt", encoding="utf-8") as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            if line.startswith("# text = "):
                text = line.removeprefix("# text = ")
            elif fields[0].isdigit():
                gold.append(fields[1])
            elif line == "\n":
                found_ends, gold_ends = ends(texts(text)), ends(gold)
                found_all += len(found_ends)
                gold_all += len(gold_ends)
                both += len(found_ends & gold_ends)
                gold = []
    assert both / gold_all > 0.985
    assert both / found_all > 0.985


def ends(words: list[str]) -> set[int]:
    """Where words end, white space not counted."""
    total, found = 0, set()
    for word in words:
        total += len(word)
        found.add(total)
    return found


@pytest.mark.parametrize(
    ("word", "case"),
    [
        ("pond", Case.LOWER),
        ("Pond", Case.CAPITALISED),
        ("I", Case.CAPITALISED),
        ("NATO", Case.UPPER),
        ("iPhone", Case.LOWER),
        ("McKay", Case.LOWER),
        ("Élan", Case.CAPITALISED),
        ("ΑΘΗΝΑ", Case.UPPER),
        ("N'T", Case.UPPER),
        ("'S", Case.CAPITALISED),
        ("東京", Case.LOWER),
        ("$", Case.LOWER),
    ],
)
def test_shapes(word: str, case: Case) -> None:
    assert word_classes.shape(word) is case


@pytest.mark.parametrize(
    ("case", "result"), [(Case.LOWER, "pond"), (Case.CAPITALISED, "Pond"), (Case.UPPER, "POND")]
)
@pytest.mark.parametrize("listed", ["pond", "Pond", "POND"])
def test_the_replacement_takes_the_shape_whatever_its_own(
    case: Case, result: str, listed: str
) -> None:
    assert word_classes.apply(case, listed) == result


@given(st.text(min_size=1))
def test_any_word_has_a_shape_and_any_shape_applies(word: str) -> None:
    assert word_classes.apply(word_classes.shape(word), "ab") in ("ab", "Ab", "AB")


@given(st.from_regex(r"[a-z]{2,12}", fullmatch=True), st.sampled_from(Case))
def test_a_shaped_word_has_that_shape(word: str, case: Case) -> None:
    assert word_classes.shape(word_classes.apply(case, word)) is case


def test_examples_in_the_docstrings() -> None:
    outcome = doctest.testmod(word_classes)
    assert outcome.attempted
    assert not outcome.failed


def _before(document: str, context: Context | None = None) -> list[tuple[str, str]]:
    words = split(document, ["n't"])
    forms = [word.text.lower() for word in words]
    found = (context or Context()).before(words, forms)
    return [(form, left) for form, left in zip(forms, found, strict=True) if form.isalpha()]


def test_the_word_before_counts_and_a_sentence_begins_with_nothing() -> None:
    assert _before("The pond is cold. It is deep") == [
        ("the", ""),
        ("pond", "the"),
        ("is", "pond"),
        ("cold", "is"),
        ("it", ""),
        ("is", "it"),
        ("deep", "is"),
    ]


@pytest.mark.parametrize(
    "copy",
    [
        "the  pond\n> (is) cold",
        "the pond, is - cold ",
        '\t"The pond is cold',
        "THE POND 'is' cold",
        "Cold? the pond is cold",
        "he wrote: the pond is cold",
        "So it goes… the pond is cold",
        "end。the pond is cold!!",
    ],
)
def test_near_copies_have_the_same_words_before_the_same(copy: str) -> None:
    words = _before(copy)
    start = words.index(("the", ""))
    assert words[start:] == [("the", ""), ("pond", "the"), ("is", "pond"), ("cold", "is")]


def test_windows_are_one_document() -> None:
    context = Context()
    parts = ["The pond ", "is cold", ", very", ". Quite", " so"]
    assert [pair for part in parts for pair in _before(part, context)] == _before("".join(parts))


def test_forms_are_one_a_word() -> None:
    with pytest.raises(ValueError, match="zip"):
        Context().before(split("the pond"), ["the"])


def test_a_clitic_is_the_word_before_the_next() -> None:
    assert ("go", "n't") in _before("I don't go")
