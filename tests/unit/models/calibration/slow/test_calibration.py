"""Levels keep their promise against a plain search and attack."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.attacks.public import Public
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import NAMES, Level, sampling_error, single_word
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy import mechanisms, noise
from sottovoce.core.privacy.attacker import (
    Candidates,
    SphereMap,
    counts_by_tag,
    draw,
    perturb,
    released_in,
    weights_by_class,
    weights_by_reading,
)
from sottovoce.core.privacy.mechanisms.spherical import PCT2T2
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.policies import DEFAULT, POLICIES
from sottovoce.core.text.word_classes import READINGS
from sottovoce.models import calibration
from sottovoce.models.calibration import (
    ABOVE_BLIND,
    Hiding,
    Survival,
    Text,
    cell_lengths,
)
from sottovoce.models.frequencies import FrequencyTable
from tests.support.held_out import count, tails
from tests.support.shared_data import shared_data

GUM = "ud_gum/dev.conllu.gz"
R = 6
Calibrated = tuple[dict[str, Level], tuple[Level, ...]]


@pytest.fixture(scope="module")
def space() -> Floats2d:
    rows = np.random.default_rng(1).standard_normal((400, R)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def text(space: Floats2d) -> Text:
    random = np.random.default_rng(2)
    weights = random.zipf(1.7, 400).clip(max=500).astype(float)
    everything = np.arange(400, dtype=np.int32)
    # A third of the words met once are not of their class, and so always replaced.
    members = np.flatnonzero((weights > 1) | (everything % 3 > 0)).astype(np.int32)
    noun = np.where(everything < 300, weights, 0)
    verb = np.where(everything >= 300, weights, 0)  # a class the bundle does not have
    rare = weights < 3
    met = {"NOUN": noun, "VERB": verb}
    names = {"NOUN": noun * (everything % 5 == 0), "VERB": np.zeros(400)}
    return Text(space, {"*": everything, "NOUN": members}, met, rare, names)


def test_cells_end_where_another_word_is_nearer(space: Floats2d) -> None:
    members = np.arange(0, 400, 3, dtype=np.int32)
    ids = np.repeat(members[:60], 2)
    directions = noise.draw(np.random.default_rng(0), len(ids), R, 1.0)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = cell_lengths(space, members, ids, directions)

    def nearest(share: float) -> NDArray[np.int32]:
        moved = space[ids] + directions * (np.minimum(lengths, 100)[:, None] * share)
        apart = np.linalg.norm(moved[:, None] - space[members].astype(float), axis=2)
        return members[apart.argmin(axis=1)]

    bounded = lengths < 100
    assert bounded.sum() > 100
    assert (nearest(0.999) == ids).all()
    assert (nearest(1.001) != ids)[bounded].all()


def test_cells_of_strangers_and_of_loners(space: Floats2d) -> None:
    members = np.array([5], np.int32)
    directions = np.eye(R, dtype=np.float32)[:2]
    lengths = cell_lengths(space, members, np.array([5, 6], np.int32), directions)

    assert lengths.tolist() == [np.inf, 0]


def test_survival_is_the_share_of_shorter_noise() -> None:
    survival = Survival(R)
    cells = np.array([0.0, 0.1, 0.3, 0.9, np.inf])
    lengths = np.random.default_rng(0).gamma(R, 1 / 15, 200_000)
    counted = (lengths[:, None] < cells).mean()

    # The mean of five shares over the same 200,000 lengths: a standard error below 0.0006.
    assert survival(cells, 15.0) == pytest.approx(counted, abs=0.0025)  # alpha < 1e-4


@pytest.fixture(scope="module")
def calibrated(text: Text) -> Calibrated:
    return calibration.calibrate(text, map)


def test_levels_replace_the_share_they_are_named_for(text: Text, calibrated: Calibrated) -> None:
    levels, curve = calibrated

    for name, share in calibration.LEVELS.items():
        level = levels[name]
        assert level.replaced == pytest.approx(share, abs=1e-3)
        replaced, rare, names, vector = _plainly(text, level.eta, 6_000)
        # Independent draws of 6,000: 4 standard errors, alpha < 1e-4 each.
        bound = 4 * 0.5 / 6_000**0.5
        assert replaced == pytest.approx(level.replaced, abs=bound)
        assert rare == pytest.approx(level.replaced_rare, abs=bound)
        assert names == pytest.approx(level.replaced_names, abs=bound)
        assert vector == pytest.approx(level.map_attack, abs=bound + 0.01)
    assert len(curve) == len(calibration.REPLACED_ON_CURVE)


def test_stronger_levels_protect_more(calibrated: Calibrated) -> None:
    levels, curve = calibrated

    for points in ([levels[name] for name in calibration.LEVELS], curve):
        for stronger, weaker in itertools.pairwise(points):
            assert stronger.eta < weaker.eta
            assert stronger.replaced > weaker.replaced
            assert stronger.map_attack < weaker.map_attack + 0.01
    for level in levels.values():
        # The attacker on the vector bounds the one on the word, who beats believing it.
        assert level.map_attack >= level.map_attack_word - 0.01
        assert level.map_attack_word >= 1 - level.replaced - 0.01


def test_the_same_seed_gives_the_same_numbers(text: Text, calibrated: Calibrated) -> None:
    with ThreadPoolExecutor(4) as pool:  # nor does it matter how many work at once
        assert calibration.calibrate(text, pool.map) == calibrated


def test_a_level_out_of_reach_is_refused(text: Text) -> None:
    few = {"*": text.classes["*"], "NOUN": text.classes["NOUN"][:20]}
    with pytest.raises(InvalidInput, match="none of the backbone's classes"):
        calibration.calibrate(replace(text, classes=few), map)


@pytest.mark.parametrize("mechanism", ["pct2t.v1", "t2t.v1"])
@pytest.mark.parametrize("level", list(calibration.LEVELS))
def test_the_bundles_levels_hold_on_fresh_noise(
    bundle: Bundle, table: FrequencyTable, mechanism: str, level: str
) -> None:
    stated = bundle.manifest.level(mechanism, level)
    clitic = np.isin(bundle.words, bundle.manifest.clitics)
    tags = mechanisms.make(mechanism, Level(1.0), POLICIES[DEFAULT].with_noise()).tags
    weights = weights_by_class(counts_by_tag(bundle.words, clitic, table), clitic, tags)
    classes = {name: bundle.class_members(name) for name in bundle.manifest.classes}
    everything = Text(bundle.space, classes, weights, ~clitic, {})
    random = np.random.default_rng(99)
    kept = met = 0
    for name, ids in draw(weights, 8_000, random).items():
        released = everything.privatize(name, perturb(bundle.space[ids], stated.eta, random))
        kept += int((released == ids).sum())
        met += len(ids)

    # Binomial bound for 8,000 draws: 3.9 standard errors, alpha 1e-4 each.
    share = 1 - kept / met
    error = (stated.replaced * (1 - stated.replaced) / met) ** 0.5
    assert share == pytest.approx(stated.replaced, abs=3.9 * error)
    assert stated.replaced == pytest.approx(calibration.LEVELS[level], abs=0.005)


@pytest.mark.parametrize("mechanism", ["pct2t.v1", "t2t.v1"])
def test_no_level_gives_rare_words_or_names_away(bundle: Bundle, mechanism: str) -> None:
    """The attacker's success on a tail must not exceed the success on the rest.

    The figures come from at least 5,000 words each: a standard error below 0.7 points.
    """
    for level in bundle.manifest.calibration[mechanism].values():
        assert level.map_attack_rare <= level.map_attack
        names = mechanism == "t2t.v1"  # under the other the policy has names drawn anew
        assert not names or level.map_attack_names <= level.map_attack
        assert level.map_attack_word_rare <= level.map_attack_word
        assert not names or level.map_attack_word_names <= level.map_attack_word
        # Nor does one who believes every released word.
        assert level.replaced_rare >= level.replaced
        assert not names or level.replaced_names >= level.replaced


def test_nor_on_held_out_text(bundle: Bundle, shipped_models: Path) -> None:
    public = Public(bundle, shipped_models)
    held_out = count(shared_data(GUM) / GUM, public)
    for mechanism in ("pct2t.v1", "t2t.v1"):
        for attackers in tails(public, held_out, mechanism, (2_000, 1_000)).values():
            for found in attackers.values():
                # Two points for the sampling error of some 2,000 words on either side.
                assert found["rare"] <= found["common"] + 0.02
                assert mechanism != "t2t.v1" or found["names"] <= found["others"] + 0.02
                assert 0.1 < found["all"] < 0.95


def _plainly(text: Text, eta: float, n: int) -> tuple[float, float, float, float]:
    """Shares replaced (all, rare, names) and found out, by independent draws and comparison with
    every word."""
    random = np.random.default_rng(7)
    names = list(text.weights)
    stacked = np.concatenate([text.weights[name] for name in names])
    size = len(text.space)

    def simulate(weights: NDArray[np.float64], guess: Callable[..., int]) -> float:
        places = random.choice(len(weights), n, p=weights / weights.sum())
        noisy = perturb(text.space[places % size], eta, random).astype(float)
        hits = 0
        for place, q in zip(places, noisy, strict=True):
            hits += guess(names[place // size], q) == place % size
        return hits / n

    def nearest(name: str, q: NDArray[np.float64]) -> int:
        members = text.classes[released_in(name, text.classes)]
        return int(members[np.linalg.norm(text.space[members] - q, axis=1).argmin()])

    def likeliest(name: str, q: NDArray[np.float64]) -> int:
        possible = text.weights[name] > 0
        possible[text.classes[released_in(name, text.classes)]] = True
        prior = np.where(possible, np.log(text.weights[name] + 0.5), -np.inf)
        return int((prior - eta * np.linalg.norm(text.space - q, axis=1)).argmax())

    rare = stacked * np.tile(text.rare, len(names))
    called = np.concatenate([text.names[name] for name in names])
    return (
        1 - simulate(stacked, nearest),
        1 - simulate(rare, nearest),
        1 - simulate(called, nearest),
        simulate(stacked, likeliest),
    )


LARGE = np.arange(300, dtype=np.int32)
SMALL = np.arange(300, 330, dtype=np.int32)
ATTACKED = 20_000


@pytest.fixture(scope="module")
def class_space() -> Floats2d:
    rows = np.random.default_rng(1).standard_normal((330, R)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def class_text(class_space: Floats2d) -> Text:
    met = np.random.default_rng(2).zipf(1.7, 330).clip(max=60).astype(float)
    met[300] = 9 * met[301:].sum()  # nine in ten of the small class
    weights = {
        "=NOUN": np.where(np.arange(330) < 300, met, 0),
        "=NUMBER": np.where(np.arange(330) >= 300, met, 0),
    }
    return Text(class_space, {"=NOUN": LARGE, "=NUMBER": SMALL}, weights, met < 2, weights)


def recovered(
    class_space: Floats2d,
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
    noisy = mechanism.perturb(class_space[ids], random, ["="] * n)
    return float((SphereMap.of(class_space, candidates).behind_vectors(noisy, eta) == ids).mean())


def test_the_attacker_is_right_as_often_as_he_thinks(class_text: Text) -> None:
    of_class = Hiding.of(class_text.space, class_text.weights["=NOUN"], LARGE, draws=ATTACKED)
    for eta in (2.0, 8.0, 30.0):
        hits = recovered(class_text.space, class_text.weights["=NOUN"], LARGE, eta)
        # Counted over 20,000: four standard errors and as much for the mean; alpha < 1e-4 each.
        assert of_class.success(eta) == pytest.approx(hits, abs=8 * 0.5 / ATTACKED**0.5)


def test_each_class_gets_the_eta_that_its_target_asks_for(class_text: Text) -> None:
    survival, targets = Survival(R), (0.2, 0.5, 0.8)
    found = Hiding.of(class_text.space, class_text.weights["=NOUN"], LARGE).levels(
        targets, survival
    )
    for level, target in zip(found, targets, strict=True):
        assert level.map_attack == pytest.approx(target, abs=0.01)
        hits = recovered(class_text.space, class_text.weights["=NOUN"], LARGE, level.eta)
        assert hits == pytest.approx(target, abs=0.03)  # both errors, alpha < 1e-4
        assert 0 < level.replaced < 1
    assert [level.eta for level in found] == sorted(level.eta for level in found)
    assert found[0].replaced > found[1].replaced > found[2].replaced


def test_where_one_word_is_most_of_a_class_vectors_add_a_point_to_a_blind_guess(
    class_text: Text,
) -> None:
    found = Hiding.of(class_text.space, class_text.weights["=NUMBER"], SMALL).levels(
        (0.25, 0.62, 0.97), Survival(R)
    )
    blind = found[0].blind
    assert 0.8 < blind < 0.97
    assert found[0].eta == found[1].eta < found[2].eta
    for level in found[:2]:
        assert level.map_attack < blind + 2 * ABOVE_BLIND
        hits = recovered(class_text.space, class_text.weights["=NUMBER"], SMALL, level.eta)
        assert hits < blind + 2 * ABOVE_BLIND  # 20,000 hits of .9: four standard errors are .0085


def _aimed_at(name: float) -> float:
    """Return the success on single vectors that the level of this name is set to."""
    single = single_word(name)
    return single - float(sampling_error(single, calibration._ATTACKS[True][0]))


def test_levels_state_what_was_measured_at_their_etas(class_text: Text) -> None:
    levels, curve = calibration.calibrate_by_class(class_text, class_text, map)
    assert list(levels) == list(NAMES)
    assert len(curve) == len(calibration.ATTACK_ON_CURVE)
    for name, target in NAMES.items():
        level = levels[name]
        assert set(level.etas) == {"=NOUN", "=NUMBER"}
        assert level.eta == max(level.etas.values())
        assert level.classes["=NOUN"].map_attack == pytest.approx(_aimed_at(target), abs=0.01)
    for points in (levels.values(), curve):
        for stronger, weaker in itertools.pairwise(points):
            assert stronger.etas["=NOUN"] < weaker.etas["=NOUN"]
            assert all(stronger.etas[name] <= weaker.etas[name] for name in weaker.etas)
            assert stronger.replaced > weaker.replaced
    # All words together: those of each class, weighed by how often the class is met.
    total = {name: each.sum() for name, each in class_text.weights.items()}
    for level in levels.values():
        mean = sum(total[name] * each.map_attack for name, each in level.classes.items())
        assert level.map_attack == pytest.approx(mean / sum(total.values()), abs=0.02)


def test_the_built_bundle_protects_every_class_alike(bundle: Bundle, table: FrequencyTable) -> None:
    clitic = np.isin(np.array(list(bundle.words)), np.array(bundle.manifest.clitics))
    counts = counts_by_tag(list(bundle.words), clitic, table)
    weights = weights_by_reading(counts, bundle.readings, PCT2T2(1.0, READINGS))
    class_space = np.array(bundle.space)
    for name, target in NAMES.items():
        level = bundle.manifest.level("pct2t.v2", name)
        assert set(level.classes) == set(weights)
        assert level.eta == max(level.etas.values())
        for each, stated in level.classes.items():
            wanted = _aimed_at(target)
            wanted = wanted if stated.blind < wanted else stated.blind + ABOVE_BLIND
            assert stated.map_attack == pytest.approx(wanted, abs=0.012)
            members = bundle.class_members(each)
            hits = recovered(class_space, weights[each], members, stated.eta, 2_000)
            # 2,000 hits and the eta's own error: alpha < 1e-4 each.
            assert hits == pytest.approx(wanted, abs=4 * 0.5 / 2_000**0.5 + 0.02)
