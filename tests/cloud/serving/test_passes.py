"""Rows share passes where that is cheapest, and never beyond what a pass may hold."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sottovoce.cloud.serving.passes import passes

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
