"""The attackers are as strong as they say, and no stronger than the noise allows."""

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import Level
from sottovoce.core.errors import NotFound
from sottovoce.core.privacy import mechanisms
from sottovoce.core.privacy.attacker import (
    Candidates,
    SphereMap,
    counts_by_tag,
    draw,
    perturb,
    weights_by_class,
)
from sottovoce.core.privacy.policies import DEFAULT, POLICIES, Setting
from sottovoce.core.privacy.search import Search
from sottovoce.models.calibration_attack import WordMapAttack
from sottovoce.models.frequencies import FrequencyTable


def test_without_noise_everything_is_found(bundle: Bundle, table: FrequencyTable) -> None:
    weights, attacker = _text(bundle, table)
    some = attacker.candidates.ids[::10]

    assert (attacker.behind_vectors(bundle.space[some], 1e4) == some).mean() > 0.99
    assert weights.sum() > 100_000


def test_success_grows_with_eta(bundle: Bundle, table: FrequencyTable) -> None:
    weights, attacker = _text(bundle, table)
    ids = draw({"": weights}, 1_000, np.random.default_rng(0))[""]
    success = []
    for eta in (5.0, 15.0, 30.0, 60.0, 120.0):
        noisy = perturb(bundle.space[ids], eta, np.random.default_rng(1))
        success.append((attacker.behind_vectors(noisy, eta) == ids).mean())

    assert success == sorted(success)
    assert success[0] < 0.25
    assert success[-1] > 0.95


def test_priors_make_the_attacker_stronger(bundle: Bundle, table: FrequencyTable) -> None:
    weights, informed = _text(bundle, table)
    known = informed.candidates
    naive = SphereMap(Candidates(known.ids, np.zeros_like(known.log_prior)), informed.columns)
    ids = draw({"": weights}, 2_000, np.random.default_rng(0))[""]
    noisy = perturb(bundle.space[ids], 20.0, np.random.default_rng(1))

    knowing = (informed.behind_vectors(noisy, 20.0) == ids).mean()
    nearest = (naive.behind_vectors(noisy, 20.0) == ids).mean()
    # 2,000 paired words: a standard error of at most 1.6 points on the difference.
    assert knowing > nearest + 0.05


@pytest.mark.parametrize("mechanism", ["pct2t.v1", "t2t.v1"])
def test_word_attack_guesses_as_well_as_the_manifest_says(
    bundle: Bundle, table: FrequencyTable, mechanism: str
) -> None:
    setting = Setting("strong", mechanism)
    level = bundle.manifest.level(mechanism, "strong")
    fitted = WordMapAttack.fit(bundle, table, setting, seed=11)
    clitic = np.isin(bundle.words, bundle.manifest.clitics)
    tags = mechanisms.make(mechanism, Level(1.0), POLICIES[DEFAULT].with_noise()).tags
    weights = weights_by_class(counts_by_tag(bundle.words, clitic, table), clitic, tags)
    random = np.random.default_rng(12)
    hits = kept = met = 0
    for name, ids in draw(weights, 6_000, random).items():
        members = bundle.class_members(Search(bundle).known_class(name))
        noisy = perturb(bundle.space[ids], level.eta, random)
        released = members[(noisy @ bundle.space[members].T).argmax(axis=1)]
        tag = name.removesuffix("+clitic")
        for true, seen in zip(ids, released, strict=True):
            hits += fitted.guess(bundle.words[seen], tag) == bundle.words[true]
        kept += int((released == ids).sum())
        met += len(ids)

    # 4 standard errors of 6,000 draws, and half a point for those of the manifest: alpha < 1e-4.
    stated = level.map_attack_word
    error = (stated * (1 - stated) / met) ** 0.5
    assert hits / met == pytest.approx(stated, abs=4 * error + 0.005)
    # Better than believing every released word, by 1.4 points or more of the same words: some 4
    # standard errors of the pairs that differ.
    assert hits > kept


def test_words_left_alone_are_guessed_as_they_stand(bundle: Bundle, table: FrequencyTable) -> None:
    fitted = WordMapAttack.fit(bundle, table, Setting("strong", "pct2t.v1"))

    assert fitted.guess("under", "ADP") == "under"
    assert fitted.guess("Qwzzk", "NOUN") == "qwzzk"


def test_unknown_settings_are_named(bundle: Bundle, table: FrequencyTable) -> None:
    with pytest.raises(NotFound, match="strong"):
        WordMapAttack.fit(bundle, table, Setting("none"))
    with pytest.raises(NotFound, match="content"):
        WordMapAttack.fit(bundle, table, Setting(policy="none"))


def _text(bundle: Bundle, table: FrequencyTable) -> tuple[np.ndarray, SphereMap]:
    """All free words under T2T."""
    clitic = np.isin(bundle.words, bundle.manifest.clitics)
    weights = counts_by_tag(bundle.words, clitic, table).sum(axis=1) * ~clitic
    suspects = Candidates.of(weights, bundle.class_members("*"))
    return weights, SphereMap.of(bundle.space, suspects)
