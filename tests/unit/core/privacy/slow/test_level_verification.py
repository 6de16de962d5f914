"""The device measures a level's protection, and refuses false claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import NAMES, Level
from sottovoce.core.errors import BundleMismatch
from sottovoce.core.privacy.inspection import Figure, measure
from sottovoce.core.text.frequencies import PublicCounts

MECHANISM = "pct2t.v1"


@pytest.fixture(scope="module")
def counts() -> PublicCounts:
    found = PublicCounts.shipped("en")
    assert found is not None
    return found


def _claiming(bundle: Bundle, name: str = "balanced", **claims: Any) -> Bundle:
    """Return the bundle with one level that claims other figures."""
    level = replace(bundle.manifest.level(MECHANISM, "balanced"), **claims)
    return _with(bundle, {name: level} if name else {}, () if name else (level,))


def _with(bundle: Bundle, levels: Mapping[str, Level], curve: tuple[Level, ...]) -> Bundle:
    calibration, curves = {MECHANISM: dict(levels)}, {MECHANISM: curve}
    manifest = replace(bundle.manifest, calibration=calibration, curve=curves)
    return Bundle(bundle.folder, manifest, bundle.id)


def _one(bundle: Bundle, counts: PublicCounts) -> Figure:
    (figure,) = measure(bundle, counts)
    return figure


def test_an_honest_bundle_holds_in_every_figure(bundle: Bundle, counts: PublicCounts) -> None:
    figures = list(measure(bundle, counts))
    for figure in figures:
        figure.check()
        assert figure.found_attacked == pytest.approx(figure.attacked, abs=figure.error)
    named = {(each.mechanism, each.level) for each in figures if each.level}
    assert {(MECHANISM, name) for name in NAMES} < named
    assert {each.word_class for each in figures} > {"", "=NOUN", "=FACT", "=CLOSED", "=NAME"}
    assert sum(each.level == "" for each in figures) > 20  # the curves
    assert max(each.error for each in figures if each.level and not each.word_class) < 0.1


def test_a_second_look_sees_the_same(bundle: Bundle, counts: PublicCounts) -> None:
    one = _claiming(bundle)
    assert _one(one, counts) == _one(one, counts)


def test_a_million_named_balanced_is_refused(bundle: Bundle, counts: PublicCounts) -> None:
    figure = _one(_claiming(bundle, eta=1e6), counts)
    assert figure.found_attacked > 0.99
    with pytest.raises(BundleMismatch, match=r"said to guess 6\d%.*and guesses 100% here"):
        figure.check()


def test_a_name_promises_whatever_the_manifest_admits(bundle: Bundle, counts: PublicCounts) -> None:
    admitted = {"eta": 80.0, "map_attack": 0.95, "replaced": 0.06}
    with pytest.raises(BundleMismatch, match="'balanced' means that at most 63%"):
        _one(_claiming(bundle, **admitted), counts).check()
    _one(_claiming(bundle, "faint", **admitted), counts).check()  # another name promises nothing


@pytest.mark.parametrize("name", ["balanced", ""])
@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"map_attack": 0.4}, "said to guess 40%"),
        ({"replaced": 0.7}, "70% of words are said to be replaced"),
        ({"replaced": 0.2}, "20% of words are said to be replaced"),
        ({"map_attack": math.nan}, "said to guess nan"),
        ({"replaced": math.nan}, "nan% of words"),
    ],
)
def test_claims_that_do_not_hold_are_refused(
    bundle: Bundle, counts: PublicCounts, name: str, claims: dict[str, float], told: str
) -> None:
    figure = _one(_claiming(bundle, name, **claims), counts)
    with pytest.raises(BundleMismatch, match=told):
        figure.check()


@pytest.mark.parametrize("eta", [0.0, -1.0, math.nan, math.inf])
def test_an_eta_that_is_none_is_refused(bundle: Bundle, counts: PublicCounts, eta: float) -> None:
    with pytest.raises(BundleMismatch, match="without an eta"):
        _one(_claiming(bundle, eta=eta), counts)


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"eta": 1e6}, "at balanced, =FACT: .* guesses 100% here"),
        ({"eta": 1e6, "map_attack": 1.0, "replaced": 0.0}, "'balanced' means that at most [45].%"),
        ({"map_attack": 0.2}, "=FACT: an attacker is said to guess 20%"),
    ],
)
def test_a_class_by_itself_is_measured(
    bundle: Bundle, counts: PublicCounts, claims: dict[str, float], told: str
) -> None:
    """Two thirds of a percent of all words, which the level as a whole would not show."""
    honest = bundle.manifest.level("pct2t.v2", "balanced")
    alone = replace(honest.classes["=FACT"], **claims)
    level = replace(honest, classes=honest.classes | {"=FACT": alone})
    calibration = {"pct2t.v2": {"balanced": level}}
    manifest = replace(bundle.manifest, calibration=calibration, curve={})
    figures = list(measure(Bundle(bundle.folder, manifest, bundle.id), counts))
    (fault,) = (each for each in figures if each.word_class == "=FACT")
    with pytest.raises(BundleMismatch, match=told):
        fault.check()
    for figure in figures:
        if figure is not fault:
            figure.check()


def test_words_that_the_counts_do_not_know_weigh_as_such_words_do(
    bundle: Bundle, counts: PublicCounts
) -> None:
    honest = _claiming(bundle)
    common = _one(honest, replace(counts, tail=0.01)).found_attacked
    usual = _one(honest, counts).found_attacked
    rare = _one(honest, replace(counts, tail=10_000.0)).found_attacked
    assert common > usual + 0.01  # common words are guessed more easily
    assert usual > rare + 0.1


def test_less_attack_than_claimed_is_no_fault(bundle: Bundle, counts: PublicCounts) -> None:
    _one(_claiming(bundle, map_attack=1.0), counts).check()
