"""Names spelled letter by letter are found whole, and prompts are hardly touched by that."""

from __future__ import annotations

import gzip
import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.privacy.surrogates import words_of
from sottovoce.core.text.words import Kind, is_spelled, split
from tests.support.shared_data import shared_data

JOINERS = (" ", "-", ".", ". ", " - ", "  ", "\u2013", "\u2010", "\u00b7", "/", "*", "\t", "\u00a0")
PROMPTS = ("prompts/vicuna.jsonl.gz", "prompts/arena_hard_v2.jsonl.gz")


def identified(document: str) -> list[str]:
    return [word.text for word in split(document, ("'s",)) if word.kind is Kind.IDENTIFIER]


@pytest.mark.parametrize("joiner", JOINERS)
def test_no_letter_of_200_spelled_names_is_left(joiner: str) -> None:
    names = random.Random(7).sample([*words_of("given"), *words_of("family")], 200)
    for name in filter(lambda name: len(name) >= 3, names):
        for written in (name, name.upper(), name.capitalize()):
            spelled = joiner.join(written)
            for document in (spelled, f"it is {spelled}, she said", f"({spelled}) and {spelled}"):
                assert set(identified(document)) == {spelled}


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ("Jo is J o h n  S m i t h.", ["J o h n", "S m i t h"]),
        ("J, o, n, e, s", ["J, o, n, e, s"]),
        ("e\u0301-l-i, É-l-i and М-и-ш-а", ["e\u0301-l-i", "É-l-i", "М-и-ш-а"]),
        ("M-I-A's cat", ["M-I-A"]),
        ("'M-I-A'", ["M-I-A"]),
        ("code K 1 A 0 B 1", ["K 1 A 0 B 1"]),
        ("(M I A-5)", ["M I", "A-5"]),
        ("a-b-c d e", ["a-b-c", "d e"]),
        ("a b c-d-e", ["a b c", "d-e"]),
        ("1 2 a-b-c", ["1", "2", "a-b-c"]),
        ("A-B-C-123", ["A-B-C-123"]),
        ("https://x.org/a-b-c/", ["https://x.org/a-b-c/"]),
        ("a-m-i-t-son", ["a-m-i-t"]),
        ("U.S.A. and A/B/C", ["U.S.A.", "A/B/C"]),
        ("I a m", ["I a m"]),
    ],
)
def test_what_is_drawn_is_one_identifier(document: str, found: list[str]) -> None:
    assert identified(document) == found


@pytest.mark.parametrize(
    "document",
    [
        *("e.g. a list", "i.e. I think", "p. m.", "at 5 a.m. a bus", "x, y, z", "Plan B", "I a"),
        *("it's a J", "N/A", "A\nB\nC", "a = b = c", "C + I + G", "isn't I a", "| a | b | c |"),
        *("나 는 너", "我 是 人"),
    ],
)
def test_what_is_not_spelled_is_left_alone(document: str) -> None:
    assert not any(len(found) > 1 for found in identified(document))


def test_one_spelled_name_is_known_as_such() -> None:
    names = ("M-I-A", "J, o, n, e, s", "x, y, z", "M-I", "M-I-A x", "mia")
    assert [*map(is_spelled, names)] == [True, True, False, False, False, False]


def test_no_word_is_too_long_however_much_is_spelled() -> None:
    document = "a b " * 5_000
    found = identified(document)
    assert max(map(len, found)) < 1_000
    assert "".join("".join(found).split()) == "".join(document.split())


@given(st.text(st.sampled_from("aB1é\u0301я .-,/–\n'5x@"), max_size=60))
def test_every_letter_of_a_run_is_in_an_identifier(document: str) -> None:
    inside = set[int]()
    for word in split(document):
        if word.kind is Kind.IDENTIFIER:
            inside.update(range(word.start, word.end))
    for run in re.finditer(r"(?<![\w'])[aBx](?:([-. /])[aBx])(?:\1[aBx])+(?!\w)", document):
        letters = {run.start() + at for at, letter in enumerate(run[0]) if letter.isalpha()}
        assert letters <= inside


def test_public_prompts_are_hardly_changed() -> None:
    folder = shared_data(*PROMPTS)
    total = changed = 0
    for name in PROMPTS:
        with gzip.open(folder / name, "rt", encoding="utf-8") as lines:
            for line in lines:
                for text in json.loads(line)["turns"]:
                    cut = split(text)
                    total += len(cut)
                    changed += sum(is_spelled(word.text) for word in cut)
    assert total > 80_000
    assert changed / total < 0.0001


def test_clitics_around_a_spelled_name_are_cut_off() -> None:
    words = split("he'll be M-I-A, she'll too", ("'ll",))
    assert [word.text for word in words] == ["he", "'ll", "be", "M-I-A", ",", "she", "'ll", "too"]
