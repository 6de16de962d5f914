"""Seed phrases: what counts as one, and which lists of words do not."""

from __future__ import annotations

import pytest

from sottovoce.core.privacy.seed_phrases import seed_phrases
from sottovoce.core.text.words import split

PHRASE = "hill rice tent solve acid busy lion clap fold hazard until easy"
WORDS = PHRASE.split()


def found(text: str) -> list[str]:
    words = split(text, ())
    places = seed_phrases(words, [word.text.lower() for word in words])
    return [words[place].text for place in places]


@pytest.mark.parametrize(
    "text",
    [
        PHRASE,
        f"Here it is: {PHRASE}. Did I lose it?",
        f"My seed phrase is {PHRASE}",
        f"recovery phrase {PHRASE}",
        ", ".join(WORDS),
        "\n".join(WORDS),
        "-".join(WORDS),
        str(WORDS),
        " ".join(f"{number}. {word}" for number, word in enumerate(WORDS, 1)),
        "\n".join(f"{number}) {word}" for number, word in enumerate(WORDS, 1)),
    ],
)
def test_a_phrase_is_found_in_every_layout(text: str) -> None:
    assert found(text) == WORDS


def test_a_phrase_is_found_in_every_case() -> None:
    assert found(PHRASE.upper()) == PHRASE.upper().split()
    assert found(PHRASE.title()) == PHRASE.title().split()


@pytest.mark.parametrize("count", [12, 15, 18, 21, 24])
def test_every_length_is_found(count: int) -> None:
    words = (WORDS * 2)[:count]
    assert found(f"seed phrase: {' '.join(words)}") == words


def test_words_of_another_list_count_after_a_label() -> None:
    other = "gnomes umpire vexed zinger abducts biggest coexist dusted eluded foxes gusts hubcaps"
    assert found(f"My wallet's recovery words: {other}") == other.split()
    assert not found(f"Sort these: {other}")


@pytest.mark.parametrize(
    "text",
    [
        " ".join(WORDS[:11]),
        "Click Save, then open File, Print, Page Setup, choose Paper Size, press Next, wait.",
        "What is a seed phrase and how many words does a recovery phrase have?",
        "The quick brown fox jumps over the lazy dog and then runs away fast.",
    ],
)
def test_sentences_and_shorter_lists_pass(text: str) -> None:
    assert not found(text)
