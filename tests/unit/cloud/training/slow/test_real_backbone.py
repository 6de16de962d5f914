"""The default backbone learns real messages."""

from __future__ import annotations

import csv
from pathlib import Path

from sottovoce.cloud.job import Example, TrainingOptions
from sottovoce.cloud.models import backbone
from sottovoce.cloud.training.trainer import train
from tests.support.paths import HELPDESK
from tests.support.serving import accuracy


def test_the_real_backbone_learns_real_messages(tmp_path: Path) -> None:
    train_rows, test_rows = _table("train"), _table("test")
    wanted = ("billing", "plumbing")
    some = [row for row in train_rows if row.label in wanted][:48]
    asked = [row for row in test_rows if row.label in wanted][:30]
    result = train(some, TrainingOptions(epochs=1), backbone.load(), tmp_path / "a")
    # Chance is 1/2, whose 99.9 % quantile at n = 30 is .77.
    assert accuracy(result.folder, "default", asked) > 0.85


def _table(name: str) -> list[Example]:
    with (HELPDESK / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Example(row["text"], row["label"]) for row in rows]
