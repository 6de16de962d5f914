"""Whoever guesses succeeds equally often in every class, as attacks done the plain way count it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import single_word
from sottovoce.core.privacy.mechanisms.pct2t import PCT2T2
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.running_text import counts_by_tag, weights_by_reading
from sottovoce.core.privacy.sphere_map import Candidates, SphereMap
from sottovoce.core.text.word_classes import READINGS
from sottovoce.models.calibration import calibration
from sottovoce.models.calibration.calibration import TARGETS, Text
from sottovoce.models.calibration.class_calibration import ABOVE_BLIND, Hiding
from sottovoce.models.calibration.survival import Survival
from sottovoce.models.corpus.frequencies import FrequencyTable

R = 6
LARGE = np.arange(300, dtype=np.int32)
SMALL = np.arange(300, 330, dtype=np.int32)
ATTACKED = 20_000


@pytest.fixture(scope="module")
def space() -> Floats2d:
    rows = np.random.default_rng(1).standard_normal((330, R)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def text(space: Floats2d) -> Text:
    met = np.random.default_rng(2).zipf(1.7, 330).clip(max=60).astype(float)
    met[300] = 9 * met[301:].sum()  # nine in ten of the small class
    weights = {
        "=NOUN": np.where(np.arange(330) < 300, met, 0),
        "=NUMBER": np.where(np.arange(330) >= 300, met, 0),
    }
    return Text(space, {"=NOUN": LARGE, "=NUMBER": SMALL}, weights, met < 2, weights)


def recovered(
    space: Floats2d,
    weights: NDArray[np.float64],
    members: NDArray[np.int32],
    eta: float,
    n: int = ATTACKED,
) -> float:
    """Share of ``n`` independent words that the attacker names, hits counted."""
    random = np.random.default_rng(7)
    candidates = Candidates.of(weights, members)
    ids = candidates.draw(n, random)
    mechanism = PCT2T2(1.0, (), {"=": eta})
    noisy = mechanism.perturb(space[ids], random, ["="] * n)
    return float((SphereMap.of(space, candidates).behind_vectors(noisy, eta) == ids).mean())


def test_the_attacker_is_right_as_often_as_he_thinks(text: Text) -> None:
    of_class = Hiding.of(text.space, text.weights["=NOUN"], LARGE, draws=ATTACKED)
    for eta in (2.0, 8.0, 30.0):
        hits = recovered(text.space, text.weights["=NOUN"], LARGE, eta)
        # Counted over 20,000: four standard errors and as much for the mean; alpha < 1e-4 each.
        assert of_class.success(eta) == pytest.approx(hits, abs=8 * 0.5 / ATTACKED**0.5)


def test_each_class_gets_the_eta_that_its_target_asks_for(text: Text) -> None:
    survival, targets = Survival(R), (0.2, 0.5, 0.8)
    found = Hiding.of(text.space, text.weights["=NOUN"], LARGE).levels(targets, survival)
    for level, target in zip(found, targets, strict=True):
        assert level.map_attack == pytest.approx(target, abs=0.01)
        hits = recovered(text.space, text.weights["=NOUN"], LARGE, level.eta)
        assert hits == pytest.approx(target, abs=0.03)  # both errors, alpha < 1e-4
        assert 0 < level.replaced < 1
    assert [level.eta for level in found] == sorted(level.eta for level in found)
    assert found[0].replaced > found[1].replaced > found[2].replaced


def test_where_one_word_is_most_of_a_class_vectors_add_a_point_to_a_blind_guess(
    text: Text,
) -> None:
    found = Hiding.of(text.space, text.weights["=NUMBER"], SMALL).levels(
        (0.25, 0.62, 0.97), Survival(R)
    )
    blind = found[0].blind
    assert 0.8 < blind < 0.97
    assert found[0].eta == found[1].eta < found[2].eta
    for level in found[:2]:
        assert level.map_attack < blind + 2 * ABOVE_BLIND
        hits = recovered(text.space, text.weights["=NUMBER"], SMALL, level.eta)
        assert hits < blind + 2 * ABOVE_BLIND  # 20,000 hits of .9: four standard errors are .0085


def test_levels_state_what_was_measured_at_their_etas(text: Text) -> None:
    levels, curve = calibration.calibrate_by_class(text, text, map)
    assert list(levels) == list(TARGETS)
    assert len(curve) == len(calibration.ATTACK_ON_CURVE)
    for name, target in TARGETS.items():
        level = levels[name]
        assert set(level.etas) == {"=NOUN", "=NUMBER"}
        assert level.eta == max(level.etas.values())
        assert level.classes["=NOUN"].map_attack == pytest.approx(single_word(target), abs=0.01)
    for points in (levels.values(), curve):
        for stronger, weaker in itertools.pairwise(points):
            assert stronger.etas["=NOUN"] < weaker.etas["=NOUN"]
            assert all(stronger.etas[name] <= weaker.etas[name] for name in weaker.etas)
            assert stronger.replaced > weaker.replaced
    # All words together: those of each class, weighed by how often the class is met.
    total = {name: each.sum() for name, each in text.weights.items()}
    for level in levels.values():
        mean = sum(total[name] * each.map_attack for name, each in level.classes.items())
        assert level.map_attack == pytest.approx(mean / sum(total.values()), abs=0.02)


def test_the_built_bundle_protects_every_class_alike(bundle: Bundle, table: FrequencyTable) -> None:
    clitic = np.isin(np.array(list(bundle.words)), np.array(bundle.manifest.clitics))
    counts = counts_by_tag(list(bundle.words), clitic, table)
    weights = weights_by_reading(counts, bundle.readings, PCT2T2(1.0, READINGS))
    space = np.array(bundle.space)
    for name, target in TARGETS.items():
        level = bundle.manifest.level("pct2t.v2", name)
        assert set(level.classes) == set(weights)
        assert level.eta == max(level.etas.values())
        for each, stated in level.classes.items():
            wanted = single_word(target)
            wanted = wanted if stated.blind < wanted else stated.blind + ABOVE_BLIND
            assert stated.map_attack == pytest.approx(wanted, abs=0.012)
            members = bundle.class_members(each)
            hits = recovered(space, weights[each], members, stated.eta, 2_000)
            # 2,000 hits and the eta's own error: alpha < 1e-4 each.
            assert hits == pytest.approx(wanted, abs=4 * 0.5 / 2_000**0.5 + 0.02)
