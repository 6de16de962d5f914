from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.text import word_shapes
from sottovoce.core.text.word_shapes import Case


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
    assert word_shapes.shape(word) is case


@pytest.mark.parametrize(
    ("case", "result"), [(Case.LOWER, "pond"), (Case.CAPITALISED, "Pond"), (Case.UPPER, "POND")]
)
@pytest.mark.parametrize("listed", ["pond", "Pond", "POND"])
def test_the_replacement_takes_the_shape_whatever_its_own(
    case: Case, result: str, listed: str
) -> None:
    assert word_shapes.apply(case, listed) == result


@given(st.text(min_size=1))
def test_any_word_has_a_shape_and_any_shape_applies(word: str) -> None:
    assert word_shapes.apply(word_shapes.shape(word), "ab") in ("ab", "Ab", "AB")


@given(st.from_regex(r"[a-z]{2,12}", fullmatch=True), st.sampled_from(Case))
def test_a_shaped_word_has_that_shape(word: str, case: Case) -> None:
    assert word_shapes.shape(word_shapes.apply(case, word)) is case


def test_examples_in_the_docstrings() -> None:
    outcome = doctest.testmod(word_shapes)
    assert outcome.attempted
    assert not outcome.failed
