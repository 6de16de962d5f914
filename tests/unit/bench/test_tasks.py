"""Tasks are cut the same way every time, and released as a device does."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from bench.utility.tasks import TASKS, files, load, released
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import Setting

GOOD = ("a warm and funny film", "the best story of the year", "great fun and a good heart")
BAD = ("a dull and empty film", "the worst story of the year", "bad jokes and a cold heart")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write folders in the form that bench.utility.tasks reads."""
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)

    def write(name: str, n: int, header: str, row: list[str]) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        with gzip.open(folder / f"{name}.tsv.gz", "wt", encoding="utf-8") as file:
            file.write("\n".join((header, *(row[i % len(row)] for i in random.integers(0, 99, n)))))

    reviews = [f"{text}\t{label}" for label, texts in enumerate((BAD, GOOD)) for text in texts]
    write("sst2/train", 120, "text\tlabel", reviews)
    write("sst2/dev", 40, "text\tlabel", reviews)
    write("trec/train", 600, "text\tlabel\tfine_label", ["what is x\tDESC\ta", "who\tHUM\tb"])
    return folder


def test_tasks_are_cut_the_same_way_every_time(data: Path) -> None:
    task = load("sst2", data, train=50)
    assert (len(task.train), len(task.dev)) == (50, 40)
    assert task == load("sst2", data, train=50)
    assert task.train != load("sst2", data, train=50, seed=1).train
    assert len(load("sst2", data, train=0).train) == 120
    questions = load("trec", data, train=60)
    assert (len(questions.train), len(questions.dev)) == (60, TASKS["trec"])
    assert load("trec", data, train=0, seed=5).dev == questions.dev
    assert len(load("trec", data, train=0).train) == 600 - TASKS["trec"]
    assert files(["sst2", "trec"]) == ["sst2/train.tsv.gz", "sst2/dev.tsv.gz", "trec/train.tsv.gz"]


def test_releases_come_again_by_their_seed(bundle_folder: Path) -> None:
    bundle, strong = Bundle.open(bundle_folder), Setting("strong", "t2t.v1")
    first = released(bundle, GOOD, strong, 0)
    assert released(bundle, GOOD, strong, 0) == first
    assert released(bundle, GOOD, strong, 1) != first
    assert all(a != b for a, b in zip(first, GOOD, strict=True))
