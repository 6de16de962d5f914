"""`sotto calibrate`: the table, and honest interpolation."""

from __future__ import annotations

import pytest

from sottovoce.edge.bundle import Level
from sottovoce.edge.cli.calibrate import interpolate
from sottovoce.edge.errors import InvalidInput

from .conftest import Device

CURVE = (
    Level(10.0, 0.9, 0.95, 0.2, 0.1, 0.15),
    Level(20.0, 0.6, 0.7, 0.5, 0.4, 0.45),
    Level(40.0, 0.1, 0.2, 0.9, 0.8, 0.85),
)


def test_measured_points_are_met_exactly() -> None:
    for point in CURVE:
        for measure in ("replaced", "map_attack"):
            found = interpolate(CURVE[::-1], measure, getattr(point, measure))
            assert found.eta == pytest.approx(point.eta)
            assert found.map_attack_word == pytest.approx(point.map_attack_word)


def test_between_points_it_is_linear_in_log_eta() -> None:
    found = interpolate(CURVE, "replaced", 0.35)
    assert found.eta == pytest.approx((20 * 40) ** 0.5)
    assert found.replaced == pytest.approx(0.35)
    assert found.map_attack == pytest.approx(0.7)


@pytest.mark.parametrize("target", [0.05, 0.95])
def test_outside_of_what_was_measured_nothing_is_made_up(target: float) -> None:
    with pytest.raises(InvalidInput, match=r"0\.10 to 0\.90"):
        interpolate(CURVE, "replaced", target)
    with pytest.raises(InvalidInput, match="another bundle"):
        interpolate((), "replaced", target)


def test_the_table_is_explained(device: Device) -> None:
    shown = device.sotto("calibrate").stdout
    assert [line.split()[0] for line in shown.splitlines()[3:6]] == ["strong", "balanced", "light"]
    assert "never safe because it was replaced" in shown
    (told,) = device.json("calibrate", "--mechanism", "t2t.v1")
    assert told["levels"]["strong"]["eta"] == 4.0
    assert told["target"] is None


def test_a_target_finds_its_level(device: Device) -> None:
    (told,) = device.json("calibrate", "--target-replaced", "0.5")
    assert told["target"]["replaced"] == pytest.approx(0.5)
    assert told["nearest_level"] in told["levels"]


def test_wrong_questions_are_refused(device: Device) -> None:
    both = ["--target-replaced", "0.5", "--target-attack", "0.5"]
    assert "give one" in device.sotto("calibrate", *both, code=2).stderr
    assert "pct2t.v1" in device.sotto("calibrate", "--mechanism", "x", code=4).stderr
