"""When something is said to grow."""

from __future__ import annotations

import pytest

from soak.campaign.soak import ENOUGH, growth


def _rounds(slope: float, number: int, *, start: float = 0.0) -> list[dict[str, float]]:
    """One of them far out of line, and a start that is no guide."""
    seen = [{"rows": start + slope * n} for n in range(number)]
    seen[number // 2] = {"rows": 1e6}
    seen[0] = {"rows": -1e6}
    return seen


@pytest.mark.parametrize("slope", [0.0, 2.0, -3.0])
def test_it_is_the_rounds_after_the_first_that_count(slope: float) -> None:
    number = ENOUGH + 4
    assert growth(_rounds(slope, number)) == {"rows": pytest.approx(slope * (number - 4))}


def test_too_few_rounds_say_nothing() -> None:
    assert growth(_rounds(2.0, ENOUGH - 1)) == {}
