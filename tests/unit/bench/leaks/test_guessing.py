"""The guesser finds everything that leaks and nothing else, in a made-up language."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.leaks import guessing
from bench.leaks.corpora import Document, Span
from bench.leaks.guessing import Budget
from bench.leaks.released import DRAW, Fate

CANDIDATES = [f"Name{letter}" for letter in "abcdefghijklmnopqrst"]
BUDGET = Budget(numbers=300, candidates=20, learnt=40, guessed=20)
WIDTH = 8
LISTED = [f"word{number}" for number in range(400)]
ROWS = np.random.default_rng(0).standard_normal((len(LISTED), WIDTH))
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)
SPACE = dict(zip(LISTED, ROWS, strict=True))


def release(
    after: Callable[[str, np.random.Generator], str],
) -> Callable[[Sequence[str]], list[tuple[Fate, ...]]]:
    random = np.random.default_rng(3)

    def released(texts: Sequence[str]) -> list[tuple[Fate, ...]]:
        found = []
        for text in texts:
            fates, start = [], 0
            for word in text.split(" "):
                end = start + len(word)
                fates.append(Fate(start, end, after(word, random), DRAW, "NAME"))
                start = end + 1
            found.append(tuple(fates))
        return found

    return released


def any_word(word: str, random: np.random.Generator) -> str:
    return LISTED[int(random.integers(len(LISTED)))]


def any_digit(word: str, random: np.random.Generator) -> str:
    return guessing.DIGITS[int(random.integers(10))]


def near_its_own(word: str, random: np.random.Generator) -> str:
    """Return the listed word nearest to the word's own place, after loud noise."""
    own = np.random.default_rng([ord(each) for each in word]).standard_normal(WIDTH)
    noisy: NDArray[np.float64] = own / np.linalg.norm(own) + random.standard_normal(WIDTH) / 2
    return LISTED[int((ROWS @ noisy).argmax())]


def of_five_kinds(texts: Sequence[str]) -> list[tuple[Fate, ...]]:
    """Any word, under one of five kinds that follows from the word itself."""
    found = release(any_word)(texts)
    return [
        tuple(fate._replace(tag=f"KIND {ord(text[fate.end - 1]) % 5}") for fate in fates)
        for text, fates in zip(texts, found, strict=True)
    ]


def test_digits_that_pass_are_all_read() -> None:
    found = guessing.digits(release(lambda word, _: word), BUDGET)
    assert found["success"] == 1.0
    assert found["blind"] < 0.15


def test_digits_drawn_by_chance_are_guessed_blindly() -> None:
    found = guessing.digits(release(any_digit), BUDGET)
    # 1,500 digits: standard error .0077; five of them, so one seed in a million fails.
    assert found["success"] == pytest.approx(0.1, abs=0.039)


@pytest.mark.parametrize("attacker", ["vectors", "looks"])
def test_what_is_drawn_by_chance_tells_no_name(attacker: str) -> None:
    rows = guessing.names(release(any_word), CANDIDATES, SPACE, BUDGET)
    by_number = {row["releases"]: row for row in rows if row["attacker"] == attacker}
    # 400 guesses of 1 in 20: standard error .011, five of them. Seeded.
    assert by_number[1]["success"] == pytest.approx(0.05, abs=0.055)
    assert by_number[20]["success"] <= 0.3  # 6 of 20: by chance less than once in 3,000
    assert by_number[1]["blind"] == pytest.approx(0.05)


def test_noise_near_a_name_adds_up_over_releases() -> None:
    rows = guessing.names(release(near_its_own), CANDIDATES, SPACE, BUDGET)
    found = {row["releases"]: row["success"] for row in rows if row["attacker"] == "vectors"}
    assert found[1] > 0.2  # of 400 guesses, .05 of them blind
    assert found[20] > 0.8


def test_a_name_may_show_by_its_looks_alone() -> None:
    def as_long(word: str, random: np.random.Generator) -> str:
        return "x" * (1 + ord(word[-1]) - ord("a"))

    rows = guessing.names(release(as_long), CANDIDATES, SPACE, BUDGET)
    found = {(row["attacker"], row["releases"]): row["success"] for row in rows}
    assert found["looks", 1] == 1.0
    assert found["vectors", 1] < 0.2


def test_told_the_kind_alone_one_guesses_among_the_names_of_that_kind() -> None:
    rows = guessing.names(of_five_kinds, CANDIDATES, SPACE, BUDGET)
    found = {(row["attacker"], row["releases"]): row["success"] for row in rows}
    # Four names of each kind, .05 blind: 400 guesses, standard error .022, five of them. Seeded.
    assert found["kind", 1] == pytest.approx(0.25, abs=0.11)
    assert found["looks", 1] == pytest.approx(0.25, abs=0.11)


def test_rare_names_are_marked_and_not_listed() -> None:
    text = "Orla met Ann and BO in Quex"
    words = {word: text.index(word) for word in ("Orla", "Ann", "BO")}
    spans = tuple(Span(at, at + len(word), "persons") for word, at in words.items())
    place = Span(text.index("Quex"), len(text), "places")
    assert guessing.rare([Document(text, (*spans, place))], {"ann": 1}) == ["Orla"]
