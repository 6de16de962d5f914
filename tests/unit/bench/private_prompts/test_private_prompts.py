"""`bench.private_prompts`: runs that survive, drops of the same seeds, heads that learn."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bench.private_prompts import __main__ as program
from bench.private_prompts import runs
from bench.private_prompts.runs import CLEAR, Cell, Place, Text, encoding, result, working

WORDS = {"good": "a warm and funny film", "bad": "a dull and empty film"}
TEXT = Text("sst2", CLEAR)


@pytest.fixture
def place(tmp_path: Path, bundle_folder: Path) -> Place:
    """Write 200 phrases to learn from and 40 questions with obvious labels."""
    for part, n in (("train", 200), ("dev", 40)):
        file = tmp_path / "sst2" / f"{part}.tsv.gz"
        file.parent.mkdir(exist_ok=True)
        lines = [f"{WORDS[label]} {i}\t{label}" for i in range(n // 2) for label in WORDS]
        file.write_bytes(gzip.compress("\n".join(["text\tlabel", *lines]).encode()))
    return Place(bundle_folder, tmp_path, tmp_path / "cache", 200)


def test_heads_learn_and_are_not_run_twice(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    encoding(place)(TEXT)
    work = working(place)
    for epsilon in (0.0, 8.0):
        cell = Cell(TEXT, "head", epsilon, 0)
        assert result(place, cell) is None
        work(cell)
        found = result(place, cell)
        assert found is not None
        assert (found["train"], len(found["right"])) == (200, 40)
        # Anybody can tell the labels; chance is 20 of 40, whose 99.999 % quantile is 33.
        assert sum(found["right"]) > 33
    assert result(place, Cell(TEXT, "head", 8.0, 1)) is None
    monkeypatch.setattr(runs, "_states", None)  # read, not made again
    encoding(place)(TEXT)


def test_a_drop_compares_the_same_seeds_and_questions() -> None:
    """Seeds are paired, so the interval covers only the difference."""
    hard = [[i % 3 > seed for i in range(90)] for seed in range(2)]
    cells = [
        (Cell(TEXT, "head", epsilon, seed), {"right": right, "train": 10_000})
        for seed in range(2)
        for epsilon, right in ((0.0, hard[seed]), (8.0, [*hard[seed][:-1], False]))
    ]
    (row,) = program.rows(cells)
    assert row["accuracy"]["0"]["mean"] == pytest.approx((60 + 30) / 180)
    assert row["drop"]["8"]["mean"] == pytest.approx(1 / 90)
    assert row["drop"]["8"]["interval"][0] >= 0
    assert row["accuracy"]["8"]["interval"][1] - row["accuracy"]["8"]["interval"][0] > 0.1


@pytest.mark.parametrize(("train", "lost", "verdict"), [
    (10_000, 1, "holds"), (10_000, 3, "missed"), (4_000, 3, None),
])  # fmt: skip
def test_aims_are_for_ten_thousand_examples(train: int, lost: int, verdict: str | None) -> None:
    questions = [True] * 100
    cells = [
        (Cell(TEXT, "head", 0.0, 0), {"right": questions, "train": train}),
        (Cell(TEXT, "head", 8.0, 0), {"right": [False] * lost + questions[lost:], "train": train}),
    ]
    rows = program.rows(cells)
    shown, _ = program.show({"rows": rows, "epsilons": [0.0, 8.0], "seeds": 1})
    assert [row[-1] for row in shown.rows] == [verdict or ""]
