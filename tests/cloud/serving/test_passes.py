"""Rows share passes where that is cheapest, and never beyond what a pass may hold."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sottovoce.cloud.serving.batcher import passes


def test_rows_share_a_pass_as_far_as_padding_is_cheaper_than_another() -> None:
    # Two of 10 and one of 30 cost 90 together; apart 20 + 30, and one pass more.
    assert passes([(0, 0, 10), (0, 0, 30), (0, 0, 10)], 600, 39) == [[0, 2], [1]]
    assert passes([(0, 0, 10), (0, 0, 30), (0, 0, 10)], 600, 41) == [[0, 2, 1]]


def test_a_pass_may_be_full_and_no_fuller() -> None:
    assert passes([(0, 0, 10)] * 4, 40, 1_000) == [[0, 1, 2, 3]]
    assert sorted(map(len, passes([(0, 0, 10)] * 4, 39, 1_000))) == [1, 3]
    assert passes([(0, 0, 50), (0, 0, 50)], 40, 1_000) == [[0], [1]]


def test_fronts_are_padded_apart_from_texts() -> None:
    assert passes([(0, 20, 10), (0, 5, 30)], 100, 1_000) == [[1, 0]]  # 2 * (20 + 30)
    assert passes([(0, 20, 10), (0, 5, 30)], 99, 1_000) == [[0], [1]]


def test_models_do_not_share() -> None:
    assert passes([(0, 0, 10), (1, 0, 10), (0, 0, 10)], 600, 1_000) == [[0, 2], [1]]


def test_who_asked_first_is_run_first() -> None:
    shapes = [(0, 0, 300), (0, 0, 10), (0, 0, 200), (0, 0, 11)]
    assert passes(shapes, 300, 10) == [[0], [1, 3], [2]]
    assert passes([], 300, 10) == []


SHAPES = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 5, 20]), st.integers(1, 300)))


@given(SHAPES, st.integers(1, 600))
def test_passes_are_bounded_and_leave_nothing_out(
    shapes: list[tuple[int, int, int]], tokens: int
) -> None:
    found = passes(shapes, tokens, 32)
    assert sorted(place for places in found for place in places) == list(range(len(shapes)))
    for places in found:
        models, fronts, lengths = zip(*(shapes[place] for place in places), strict=True)
        assert len(set(models)) == 1
        assert len(places) == 1 or len(places) * (max(fronts) + max(lengths)) <= tokens


def cost(found: list[list[int]], shapes: list[tuple[int, int, int]], overhead: int) -> int:
    padded = [
        len(places) * (max(shapes[p][1] for p in places) + max(shapes[p][2] for p in places))
        for places in found
    ]
    return sum(padded) + overhead * len(found)


@given(SHAPES.filter(lambda shapes: len(shapes) <= 7), st.integers(0, 400))
def test_no_other_cut_of_the_sorted_rows_is_cheaper(
    shapes: list[tuple[int, int, int]], overhead: int
) -> None:
    order = sorted(range(len(shapes)), key=shapes.__getitem__)
    found = cost(passes(shapes, 600, overhead), shapes, overhead)
    for cuts in itertools.product((False, True), repeat=max(0, len(shapes) - 1)):
        other: list[list[int]] = [[]]
        for place, cut_before in zip(order, (False, *cuts), strict=False):
            if cut_before:
                other.append([])
            other[-1].append(place)
        if all(
            len({shapes[p][0] for p in places}) == 1
            and (len(places) == 1 or cost([places], shapes, 0) <= 600)
            for places in other
        ):
            assert found <= cost(other, shapes, overhead)
