"""Targets have one spelling, err on the side of more noise, and stay within the curve."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from sottovoce.core.bundle import levels
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import ClassLevel, Level
from sottovoce.core.bundle.manifest import Manifest
from sottovoce.core.errors import InvalidInput, NotFound

CURVE = (
    Level(10.0, 0.9, 0.95, 0.2, 0.1, 0.15),
    Level(20.0, 0.6, 0.7, 0.5, 0.4, 0.45),
    Level(40.0, 0.1, 0.2, 0.9, 0.8, 0.85),
)


@pytest.mark.parametrize(
    "name", ["attack:0.30", "attack:0.300", "attack:.3", "attack:0", "attack:1", "replaced:0.333"]
)
def test_a_share_is_written_in_one_way_only(name: str) -> None:
    assert not levels.is_target(name)
    with pytest.raises(InvalidInput, match=r"attack:0\.3"):
        levels.between(CURVE, name)


def test_every_hundredth_has_a_name() -> None:
    for measure in levels.MEASURES:
        names = [levels.name_of(measure, number / 100) for number in range(1, 100)]
        assert len(set(names)) == 99
        assert all(levels.is_target(name) for name in names)
    assert levels.name_of("attack", 0.999) == "attack:0.99"
    for share in (0.0, 1.0, 0.001, -0.5, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="share of words"):
            levels.name_of("attack", share)


def test_a_target_keeps_to_the_safe_side_of_the_curve() -> None:
    before = 0.0
    for number in range(43, 91):
        level = levels.between(CURVE[::-1], f"attack:{number / 100:g}")
        assert level.eta > before
        assert number / 100 - 0.02 < levels.strongest(level.map_attack) < number / 100
        before = level.eta
    for number in range(10, 90):
        level = levels.between(CURVE, f"replaced:{number / 100:g}")
        assert number / 100 < level.replaced < number / 100 + 0.005


def test_what_context_adds_is_taken_off() -> None:
    """The name bounds the strongest attacker's measured success at every share."""
    share = np.linspace(0.01, 0.99, 99)
    found = levels.strongest(share)
    assert (np.diff(found) > 0).all()
    assert (found > share).all()
    assert (np.diff(found - share)[20:] < 0).all()  # context helps most where words tell least
    assert [levels.single_word(each) for each in found.tolist()] == pytest.approx(share.tolist())
    # Of questions and blogs, by a network with counts, and by counts alone: upper ends. The last
    # is of blogs under one key.
    measured = levels.strongest([0.06, 0.171, 0.572, 0.824, 0.868, 0.156, 0.888, 0.512])
    assert (measured >= np.array([0.302, 0.378, 0.669, 0.871, 0.905, 0.287, 0.903, 0.624])).all()


def test_no_named_level_of_the_bundle_shows_more_than_its_name(bundle: Bundle) -> None:
    for name, promised in levels.NAMES.items():
        level = bundle.manifest.level("pct2t.v2", name)
        assert float(levels.strongest(level.map_attack)) <= promised, name


def test_at_a_point_only_the_error_of_measurement_is_given_up() -> None:
    level = levels.between(CURVE, "attack:0.63")  # to the strongest, at .5 for one on single words
    assert 0.95 * 20 < level.eta < 20
    assert 0.47 < level.map_attack < 0.5
    level = levels.between(CURVE, "replaced:0.6")
    assert 0.99 * 20 < level.eta < 20
    assert 0.6 < level.replaced < 0.603


def test_luck_at_a_lighter_point_lends_nothing() -> None:
    lucky = (*CURVE, Level(30.0, 0.4, 0.5, 0.3, 0.2, 0.25))
    assert levels.between(lucky, "attack:0.45").eta < 20


def test_every_class_has_its_own_eta_between_its_points() -> None:
    def point(eta: float, attack: float) -> Level:
        classes = {
            "=NOUN": ClassLevel(eta, 1 - attack, attack, 0.01),
            "=CLOSED": ClassLevel(eta / 3, 1 - attack, attack, 0.2),
        }
        return Level(eta, 1 - attack, map_attack=attack, classes=classes)

    curve = (point(10.0, 0.2), point(20.0, 0.5), point(40.0, 0.9))
    level = levels.between(curve, "attack:0.5")
    assert 10 < level.eta < 20
    assert level.etas == {"=NOUN": level.eta, "=CLOSED": pytest.approx(level.eta / 3)}
    assert level.classes["=NOUN"].map_attack == pytest.approx(level.map_attack)
    assert level.classes["=CLOSED"].blind == 0.2
    assert levels.between(curve, "attack:0.5") is level


def test_a_class_whose_eta_stands_still_stops_no_other() -> None:
    def point(eta: float, attack: float) -> Level:
        classes = {
            "=NOUN": ClassLevel(eta, 1 - attack, attack, 0.01),
            "*+clitic": ClassLevel(50.0, 0.4, 0.6, 0.59),
        }
        return Level(50.0, 1 - attack, map_attack=attack, classes=classes)

    curve = (point(20.0, 0.5), point(10.0, 0.2), point(40.0, 0.9))
    found = [levels.between(curve, f"attack:{share}") for share in (0.45, 0.5, 0.65, 0.8)]
    etas = [level.etas["=NOUN"] for level in found]
    assert etas == sorted(set(etas))
    assert 10 < etas[0] < 20 < etas[2] < 40
    assert [level.etas["*+clitic"] for level in found] == pytest.approx([50.0] * 4)


def test_classes_survive_the_manifest(small_bundle: Bundle) -> None:
    level = Level(9.0, classes={"=NOUN": ClassLevel(9.0, 0.5, 0.25, 0.1)})
    changed = dataclasses.replace(
        small_bundle.manifest, calibration={"pct2t.v2": {"odd": level}}, curve={}
    )
    read = Manifest.from_json(changed.to_json())
    assert read.level("pct2t.v2", "odd") == level
    assert read.level("pct2t.v2", "odd").etas == {"=NOUN": 9.0}


def test_outside_of_what_was_measured_nothing_is_made_up() -> None:
    low, high = levels.span(CURVE, "attack")
    assert (low, high) == (0.43, 0.93)
    assert levels.span(CURVE, "replaced") == (0.1, 0.89)
    for name in ("attack:0.42", "attack:0.94"):
        with pytest.raises(InvalidInput, match=r"0\.43 to 0\.93"):
            levels.between(CURVE, name)
    for curve in ((), CURVE[:1]):
        with pytest.raises(InvalidInput, match="no curve"):
            levels.between(curve, "attack:0.3")


def test_the_manifest_resolves_targets_after_its_own_names(small_bundle: Bundle) -> None:
    named = small_bundle.manifest.calibration["t2t.v1"]
    manifest = dataclasses.replace(
        small_bundle.manifest,
        curve={"t2t.v1": CURVE},
        calibration={"t2t.v1": named | {"attack:0.4": CURVE[0]}, "pct2t.v1": named},
    )
    assert manifest.level("t2t.v1", "attack:0.45") == levels.between(CURVE, "attack:0.45")
    assert manifest.level("t2t.v1", "attack:0.4") == CURVE[0]
    with pytest.raises(InvalidInput, match="no curve"):
        manifest.level("pct2t.v1", "attack:0.3")
    with pytest.raises(NotFound, match=r"strong.*attack:0\.3"):
        manifest.level("t2t.v1", "attack:0.30")
