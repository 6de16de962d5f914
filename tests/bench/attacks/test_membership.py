"""The likelihood ratio attack finds members where there is something to find, and only there."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from bench.attacks.membership import confidences, halves, likelihood_ratios, success

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


def test_what_was_planted_the_other_way_round_is_found_as_well() -> None:
    """It compares with shadows, and takes nothing for granted."""
    seen = RANDOM.normal(0, 1, MEMBERS.shape) - 4.0 * MEMBERS
    assert success(likelihood_ratios(seen, MEMBERS), MEMBERS)["auc"]["mean"] > 0.98
