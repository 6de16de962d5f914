"""Randomised response keeps its promise, measured and by counting."""

from __future__ import annotations

import math
import secrets
from collections import Counter

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.votes import MAX_EPSILON, respond

CLASSES = ["a", "b", "c", "d"]


def test_answers_follow_the_stated_distribution() -> None:
    """Chi-square over 4 answers (3 degrees of freedom), alpha = 1e-4: critical value 21.11."""
    draws, epsilon = 20_000, 1.2
    seen = Counter(respond("b", CLASSES, epsilon, secrets.token_bytes(16)) for _ in range(draws))
    keep = math.exp(epsilon) / (math.exp(epsilon) + 3)
    expected = {label: draws * (keep if label == "b" else (1 - keep) / 3) for label in CLASSES}
    distance = sum((seen[label] - expected[label]) ** 2 / expected[label] for label in CLASSES)
    assert distance < 21.11


def test_the_same_chance_gives_the_same_answer() -> None:
    chance = secrets.token_bytes(32)
    assert len({respond("a", CLASSES, 0.1, chance) for _ in range(20)}) == 1


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, -1.0, math.nan, math.inf, MAX_EPSILON + 1])
def test_an_epsilon_without_meaning_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidInput) as caught:
        respond("a", CLASSES, epsilon, bytes(16))
    assert caught.value.subject == "label_epsilon"


@pytest.mark.parametrize("size", [8, 65])
def test_chance_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="16 to 64 bytes"):
        respond("a", CLASSES, 1.0, bytes(size))


def test_a_smaller_epsilon_adds_nothing_to_what_a_larger_one_told() -> None:
    """Given the answer at the larger epsilon, that at the smaller has the same law whatever the
    true label is: chi-square of two samples over 4 answers, alpha = 1e-6, critical value 30.66."""
    draws, small, large = 60_000, 0.7, 1.5
    told: dict[str, Counter[str]] = {}
    for true in ("a", "b"):
        told[true] = Counter()
        for _ in range(draws):
            chance = secrets.token_bytes(16)
            if respond(true, CLASSES, large, chance) == "c":
                told[true][respond(true, CLASSES, small, chance)] += 1
    totals = {true: counted.total() for true, counted in told.items()}
    distance = 0.0
    for answer in CLASSES:
        share = sum(counted[answer] for counted in told.values()) / sum(totals.values())
        for true, counted in told.items():
            expected = totals[true] * share
            distance += (counted[answer] - expected) ** 2 / expected
    assert distance < 30.66
