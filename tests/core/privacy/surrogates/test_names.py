"""Names stand for names of the same role; connecting words stay; the case is kept."""

import numpy as np
import pytest
from scipy.stats import chisquare

from sottovoce.core.privacy.surrogates import names
from sottovoce.core.privacy.surrogates.shape import listed

ALPHA = 1e-6
"""Significance of a statistical test: a right program fails one run in a million."""


@pytest.mark.parametrize(
    ("kind", "words", "roles"),
    [
        ("PERSON", "Anna", "given"),
        ("PERSON", "Anna Lee", "given family"),
        ("PERSON", "Anna Maria Lee", "given given family"),
        ("PERSON", "Romeo and Juliet", "given - family"),
        ("PLACE", "Paris", "place"),
        ("PLACE", "New York", "place_head place"),
        ("PLACE", "the Isle of Man", "- place_head - place"),
        ("PLACE", "of", "-"),
        ("ORGANISATION", "Acme", "organisation"),
        ("ORGANISATION", "Bank of England", "organisation - organisation_tail"),
        ("OTHER", "World Cup", "other other"),
    ],
)
def test_what_a_word_is_in_a_name(kind: str, words: str, roles: str) -> None:
    expected = ["" if role == "-" else role.replace("_", " ") for role in roles.split()]
    assert names.roles(kind, words.split()) == expected


def test_a_last_name_met_before_is_one_when_it_stands_alone() -> None:
    assert names.roles("PERSON", ["Lee"], {"lee"}) == ["family"]
    assert names.roles("PERSON", ["LEE"], {"lee"}) == ["family"]
    assert names.roles("PERSON", ["Anna"], {"lee"}) == ["given"]
    assert names.roles("PLACE", ["Lee"], {"lee"}) == ["place"]
    assert names.roles("PERSON", ["Lee", "Anna"], {"lee"}) == ["given", "family"]


LISTS = {
    "given": "given",
    "family": "family",
    "place": "places",
    "place head": "place_heads",
    "organisation": "organisations",
    "organisation tail": "organisation_tails",
    "other": "others",
}


@pytest.mark.parametrize("role", names.ROLES)
def test_the_role_is_published(role: str) -> None:
    assert names.shape(role, "X") == ("name", role, "capitalised")


@pytest.mark.parametrize("role", names.ROLES)
def test_any_word_of_the_role_is_as_likely(role: str) -> None:
    random, choices = np.random.default_rng(1), listed(LISTS[role])
    counts = dict.fromkeys(choices, 0)
    for _ in range(10 * len(choices)):
        counts[names.draw(names.shape(role, "x"), random)] += 1
    assert chisquare(list(counts.values())).pvalue > ALPHA


@pytest.mark.parametrize(
    ("typed", "drawn"), [("paris", str.lower), ("PARIS", str.upper), ("McPARIS", str.capitalize)]
)
def test_the_case_is_kept(typed: str, drawn: object) -> None:
    first = names.draw(names.shape("place", typed), np.random.default_rng(3))
    plain = names.draw(names.shape("place", "x"), np.random.default_rng(3))
    assert callable(drawn)
    assert first == drawn(plain)
