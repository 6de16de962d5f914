"""The likelihood ratio attack finds members where there is something to find, and only there."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.attacks.membership import chance, halves, likelihood_ratios, success
from bench.attacks.shadows import CLEAR, Bools, Learner, Pool, Target, confidences, seen_by

WORDS = ("good", "bad")

RANDOM = np.random.default_rng(0)
MEMBERS = halves(40, 300, RANDOM)


def test_every_example_is_in_half_of_the_models() -> None:
    assert (MEMBERS.sum(axis=0) == 20).all()
    # Not the same half for all: two examples share 10 models of 40 on average.
    assert len(np.unique(MEMBERS, axis=1).T) == 300


def test_confidence_is_the_log_odds_of_the_right_label() -> None:
    found = confidences(torch.log(torch.tensor([[0.9, 0.1], [0.2, 0.8]])), torch.tensor([0, 0]))
    assert found.tolist() == pytest.approx([math.log(9), math.log(0.25)], rel=1e-5)


def test_confidence_of_a_certain_answer_is_a_number() -> None:
    assert np.isfinite(confidences(torch.tensor([[0.0, -math.inf]]), torch.tensor([0]))).all()


def test_members_are_found_where_models_are_surer_of_them() -> None:
    hard = RANDOM.normal(0, 3, 300)  # a threshold on confidence alone would fail on these
    seen = RANDOM.normal(0, 1, MEMBERS.shape) + hard + 4.0 * MEMBERS
    rows = success(likelihood_ratios(seen, MEMBERS), MEMBERS)
    # Two normals 4 apart: 1 - Phi(-4 / sqrt 2) = .998, and .95 above the other's 99 %.
    assert rows["auc"]["mean"] > 0.98
    assert rows["found_at_0.01"]["mean"] > 0.85


def test_nobody_is_found_where_there_is_nothing_to_find() -> None:
    seen = RANDOM.normal(0, 1, MEMBERS.shape)
    rows = success(likelihood_ratios(seen, MEMBERS), MEMBERS)
    # 12,000 judgements; each model is missing from its own group's mean, a bias of 1 / 40 at most.
    assert abs(rows["auc"]["mean"] - 0.5) < 0.05
    assert rows["found_at_0.01"]["mean"] < 0.03


@pytest.mark.parametrize("planted", [0.0, 0.5])
def test_what_is_found_is_held_against_chance(planted: float) -> None:
    """About half a spread between members and others is an area of .63; nothing is nothing."""
    members = MEMBERS[:, :100]
    seen = np.random.default_rng(5).normal(0, 1, members.shape) + planted * members
    low, high = chance(seen, members, np.random.default_rng(4))
    found = success(likelihood_ratios(seen, members), members)["auc"]["mean"]
    assert 0.45 < low < high < 0.55
    assert (low < found < high) == (planted == 0.0)


def test_what_was_planted_the_other_way_round_is_found_as_well() -> None:
    """It compares with shadows, and takes nothing for granted."""
    seen = RANDOM.normal(0, 1, MEMBERS.shape) - 4.0 * MEMBERS
    assert success(likelihood_ratios(seen, MEMBERS), MEMBERS)["auc"]["mean"] > 0.98


@pytest.fixture
def pool(tmp_path: Path, bundle_folder: Path) -> Pool:
    lines = [f"{word} day in the town {i}\tlabel-{word}" for i in range(40) for word in WORDS]
    (tmp_path / "sst2").mkdir()
    file = tmp_path / "sst2" / "train.tsv.gz"
    file.write_bytes(gzip.compress("\n".join(["text\tlabel", *lines]).encode()))
    return Pool(tmp_path, "sst2", 40, bundle_folder)


@pytest.mark.parametrize("target", [
    Target("head", CLEAR, 0.0), Target("head", "balanced", 8.0), Target("prompt", CLEAR, 8.0),
])  # fmt: skip
def test_what_is_attacked_learns(target: Target, pool: Pool) -> None:
    answers = pool.learner(target)(halves(2, 40, RANDOM)[0])
    names = ["the text"] if target.release == CLEAR else ["the release", "the clear text"]
    assert [*answers] == names
    for each in answers.values():
        assert each.shape == (40, 2)
        assert each.exp().sum(1).tolist() == pytest.approx([1.0] * 40, rel=1e-4)
    if not target.epsilon:  # anybody can tell; chance is 20, whose 99.999 % quantile is 33
        assert int((answers["the text"].argmax(1) == pool.targets).sum()) > 33


def test_models_are_trained_once(pool: Pool, tmp_path: Path) -> None:
    members, trained = halves(4, 40, RANDOM), list[int]()

    def learner(target: Target) -> Learner:
        def learn(inside: Bools) -> dict[str, torch.Tensor]:
            trained.append(int(inside.sum()))
            if len(trained) == 3:
                raise KeyboardInterrupt
            return {"the text": torch.log_softmax(torch.randn(40, 2), 1)}

        return learn

    pool.learner = learner  # type: ignore[method-assign]
    target = Target("lora", CLEAR, 8.0)
    with pytest.raises(KeyboardInterrupt):
        seen_by(pool, target, members, tmp_path / "cache")
    first = seen_by(pool, target, members, tmp_path / "cache")
    assert len(trained) == 3 + 2
    again = seen_by(pool, target, members, tmp_path / "cache")
    assert len(trained) == 5
    assert first["the text"].shape == (4, 40)
    assert np.array_equal(first["the text"], again["the text"])
    seen_by(pool, Target("lora", CLEAR, 1.0), members, tmp_path / "cache")
    assert len(trained) == 9
