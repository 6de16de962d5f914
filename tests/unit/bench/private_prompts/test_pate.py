"""The table of PATE: what each column stands for, on clouds that are easy to tell apart."""

from __future__ import annotations

from dataclasses import asdict

import torch

from bench.private_prompts.pate import measure, show, show_prices


def test_students_stand_between_the_bounds_and_bad_public_texts_show() -> None:
    random = torch.Generator().manual_seed(0)

    def cloud(targets: torch.Tensor, apart: float) -> torch.Tensor:
        states = torch.randn(len(targets), 8, generator=random)
        states[:, 0] += apart * (2.0 * targets - 1)
        return states / 8**0.5

    targets = {part: torch.arange(n) % 2 for part, n in (("private", 2_400), ("dev", 200))}
    seen = {part: cloud(each, 2.0) for part, each in targets.items()}
    seen["same"] = cloud(torch.arange(300) % 2, 2.0)
    seen["other"] = cloud(torch.zeros(300, dtype=torch.int64), 0.0)
    right, prices = measure(seen, targets, (8.0,), 2)
    found = {name: float(each.mean()) for name, each in right.items()}
    assert all(each.shape == (2, 200) for each in right.values())
    assert found["lower"] == 0.5
    assert min(found["ensemble"], found["upper"], found["private head 8"]) > 0.9
    assert found["same 8"] > 0.8
    # Teachers agree more about texts like their own.
    assert prices["same 8"].exact < prices["other 8"].exact
    rows = [{"task": "sst2", "examples": 2_400}]
    rows[0]["prices"] = {name: asdict(each) for name, each in prices.items()}
    rows[0] |= {name: {"mean": each, "interval": [0.0, 1.0]} for name, each in found.items()}
    figures = {"rows": rows, "epsilons": [8.0], "seeds": 2}
    assert len(show(figures).rows) == len(show_prices(figures).rows) == 2
