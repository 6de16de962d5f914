"""Names stand for names of the same role; connecting words stay; the case is kept."""

import numpy as np
import pytest
from scipy.stats import chisquare

from sottovoce.core.privacy.surrogates import names, words_of

ALPHA = 1e-6
"""Significance of a statistical test: a right program fails one run in a million."""


@pytest.mark.parametrize(
    ("kind", "word", "neighbours", "role"),
    [
        ("PERSON", "anna", "", "given"),
        ("PERSON", "anna", ">", "given"),
        ("PERSON", "maria", "<>", "given"),
        ("PERSON", "anna", "<", "family"),
        ("PERSON", "smith", "", "family"),  # a last name that is no first name
        ("PERSON", "smith", ">", "given"),
        ("PLACE", "paris", "", "place"),
        ("PLACE", "new", ">", "place head"),
        ("PLACE", "york", "<", "place"),
        ("ORGANISATION", "acme", "", "organisation"),
        ("ORGANISATION", "bank", ">", "organisation"),
        ("ORGANISATION", "england", "<", "organisation tail"),
        ("OTHER", "cup", "<", "other"),
    ],
)
def test_what_a_word_is_in_a_name(kind: str, word: str, neighbours: str, role: str) -> None:
    assert names.role(kind, word, "<" in neighbours, ">" in neighbours) == role


def test_a_role_without_neighbours_is_that_of_a_word_alone() -> None:
    assert names.role("PLACE", "new") == "place"
    assert names.role("ORGANISATION", "england") == "organisation"


@pytest.mark.parametrize(
    ("gender", "given"),
    [
        ("f", ("nadia", "zoraida", "aada", "arabella")),
        ("m", ("tom", "aage", "zvonko", "aaden", "arlington")),
        ("b", ("abdi", "adel", "vivien")),
        ("", ("becker", "bates", "quorl", "zzzz", "aad", "aa", "")),
    ],
)
def test_what_a_given_name_tells_of_gender(gender: str, given: tuple[str, ...]) -> None:
    assert {names.gender(name) for name in given} == {gender}


def test_known_names_are_given_names_and_last_names_of_any_list() -> None:
    for name in ("nadia", "zvonko", "aaden", "vivien", "becker", "aasen", "abrego"):
        assert names.known(name)
    for word in ("quorl", "zzzz", "aad", "aa", ""):
        assert not names.known(word)


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
    random, choices = np.random.default_rng(1), words_of(LISTS[role])
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
