"""What `bench.utility` measures with: tasks, releases that come again, cells that survive."""

from __future__ import annotations

import gzip
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from bench.utility import tables as report
from bench.utility.grid import (
    Budget,
    Cell,
    Grid,
    Place,
    Source,
    grid,
    grid_at_home,
    matthews,
    working,
)
from bench.utility.tasks import TASKS, Device, Parts, files, join, load
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
    write("mrpc/train", 600, "text_a\ttext_b\tlabel", [f"{GOOD[0]}\t{BAD[0]}\t0", "an x\ta y\t1"])
    return folder


@pytest.fixture(scope="module")
def bundle(bundle_folder: Path) -> Bundle:
    return Bundle.open(bundle_folder)


def test_tasks_are_cut_the_same_way_every_time(data: Path) -> None:
    task = load("sst2", data, train=50)
    assert (len(task.train), len(task.dev)) == (50, 40)
    assert task == load("sst2", data, train=50)
    assert task.train != load("sst2", data, train=50, seed=1).train
    assert len(load("sst2", data, train=0).train) == 120
    pairs = load("mrpc", data, train=60)
    held = TASKS["mrpc"].held_out
    assert (len(pairs.train), len(pairs.dev)) == (60, held)
    assert load("mrpc", data, train=0, seed=5).dev == pairs.dev
    assert len(load("mrpc", data, train=0).train) == 600 - held
    assert all(len(parts) == 2 for parts in pairs.train.texts)
    assert pairs.majority == max(pairs.dev.labels.count(label) for label in "01") / held
    assert files(["sst2", "mrpc"]) == ["sst2/train.tsv.gz", "sst2/dev.tsv.gz", "mrpc/train.tsv.gz"]


def test_parts_are_joined_as_the_tokenizer_separates() -> None:
    bert, none = SimpleNamespace(sep_token="[SEP]"), SimpleNamespace(eos_token=None)  # noqa: S106
    assert join([("a b", "c")], bert) == ["a b [SEP] c"]
    assert join([("a b", "c"), ("d",)], none) == ["a b\nc", "d"]


def test_releases_come_again_and_shares_are_of_protected_words(
    bundle: Bundle, tmp_path: Path
) -> None:
    texts: list[Parts] = [(text,) for text in GOOD + BAD] * 10
    device = Device(bundle, tmp_path)
    strong = Setting("strong", "t2t.v1")
    first = device.release(texts, strong, 0)
    assert Device(bundle, tmp_path).release(texts, strong, 0) == first
    assert device.release(texts, strong, 1).texts != first.texts
    assert first.protected == 1.0
    changed = [
        word != old
        for (text,), (before,) in zip(first.texts, texts, strict=True)
        for word, old in zip(text.split(), before.split(), strict=True)
    ]
    assert first.replaced == first.replaced_all == pytest.approx(np.mean(changed))
    # .85 over running text; common words stay more often, so these 320 are fewer.
    assert 0.5 < first.replaced < 0.95
    papers = device.release(texts, Setting("strong", "pct2t.v2", "papers"), 0)
    assert 0 < papers.protected < device.release(texts, Setting("strong"), 0).protected + 1e-9
    unlisted = device.release([("a xyzzyqq film",)] * 50, Setting("light", "t2t.v1"), 0)
    assert unlisted.replaced_all > unlisted.replaced  # what is in no list always goes


def test_a_level_is_found_for_a_share_on_the_text_itself(
    bundle: Bundle, data: Path, tmp_path: Path
) -> None:
    device, task = Device(bundle, tmp_path), load("sst2", data)
    for share in (0.8, 0.3):
        setting = device.setting(task, share, "t2t.v1")
        found = device.release(task.train.texts, setting, 1)
        assert found.replaced == pytest.approx(share, abs=0.08)  # some 600 words: .04 is 2 errors


def test_matthews_correlation() -> None:
    wanted = "0011"
    assert matthews(wanted, wanted) == pytest.approx(1)
    assert matthews("1100", wanted) == pytest.approx(-1)
    assert matthews("0000", wanted) == 0
    # By hand: true positives 2, true negatives 1, false positive 1.
    assert matthews("0111", wanted) == pytest.approx(2 / 12**0.5)


def test_the_grid_is_the_one_promised() -> None:
    cells = grid(["sst2", "cola"], range(3))
    assert len(set(cells)) == len(cells)
    sst2 = [c for c in cells if c.source.task == "sst2"]
    asked = {
        (method, mechanism, share)
        for method in ("lora", "prefix")
        for mechanism in ("t2t.v1", "pct2t.v2")
        for share in (0.85, 0.45, 0.14)
    } | {(method, "", 0.0) for method in ("lora", "prefix")}
    assert {(c.method, c.source.mechanism, c.source.replaced) for c in sst2} == asked
    assert {c.seed for c in sst2} == {0, 1, 2}
    brief = [c for c in cells if c.source.task == "cola"]
    assert {(c.method, c.seed) for c in brief} == {("lora", 0)}
    assert len(brief) == 4
    assert {c.method for c in grid(["sst2"], [0], methods=("full",))} == {"full"}
    named = {str(cell) for cell in cells}
    assert {"sst2 lora pct2t.v2 0.45", "cola lora clear"} <= named


def test_devices_are_asked_with_every_seed() -> None:
    cells = grid_at_home(["sst2", "trec"], range(3), ("lora", "prefix"))
    assert {c.method for c in cells} == {"lora"}
    assert len(set(cells)) == len(cells) == 2 * 3 * 4
    place = Place(Path(), Path(), Path(), Budget(9, 9, 1, 10), at_home=True)
    assert {(c.source.task, place.options(c).epochs) for c in cells} == {("sst2", 1), ("trec", 10)}


def test_what_is_asked_at_home_stands_beside_what_the_cloud_answered() -> None:
    given = {"level": "l", "eta": 1.0, "train": 9, "dev": 9, "majority": 0.5, "seconds": 1.0}
    given |= {"protected": 0.5, "replaced": 0.5, "replaced_all": 0.5, "matthews": 0.0}
    cells = [
        (
            Cell(Source("sst2", "pct2t.v2" if share else "", share), "lora", 0),
            given | {"accuracy": 0.8 - share / 2, "at_home": 0.9 - share / 4},
        )
        for share in (0.0, 0.85, 0.45, 0.14)
    ]
    text = _shown(cells)
    (cloud,) = (line for line in text.splitlines() if "PCT2T" in line and "," not in line)
    (home,) = (line for line in text.splitlines() if "asked at home" in line)
    assert [place in cloud for place in ("37.5", "57.5", "73.0", "80.0")] == [True] * 4
    assert [place in home for place in ("68.8", "78.8", "86.5", "90.0")] == [True] * 4
    (home,) = (line for line in _shown(cells[1:3]).splitlines() if "asked at home" in line)
    assert [place in home for place in ("68.8", "78.8", "86.5", "(")] == [True, True, False, False]


def _shown(cells: list[tuple[Cell, dict[str, Any]]]) -> str:
    shown = Console(file=StringIO(), width=200, record=True)
    shown.print(*report.show({"rows": report.rows(cells)}))
    return shown.export_text()


def test_messages_are_a_task_of_their_beginnings(tmp_path: Path) -> None:
    task = load("helpdesk", tmp_path)
    assert (len(task.train), len(task.dev)) == (498, 126)
    assert max(len(text.split()) for (text,) in task.train.texts) == 20
    assert files(["helpdesk"]) == []


def test_cells_are_learnt_and_not_learnt_twice(bundle: Bundle, data: Path, tmp_path: Path) -> None:
    budget = Budget(train=64, brief=40, epochs=2)
    place = Place(bundle.folder, data, tmp_path, budget, at_home=True)
    noisy = Source("sst2", "pct2t.v2", 0.45)
    cells = [Cell(Source("sst2"), "lora", 0), Cell(noisy, "prefix", 0)]
    work = working(place)
    for cell in Grid(place, cells).missing():
        work(cell)
    again = Grid(place, cells)
    assert again.missing() == []
    results = dict(again.cells)
    assert results[cells[0]]["accuracy"] > 0.9  # six sentences, which a good encoder tells apart
    assert results[cells[0]]["at_home"] > 0.9
    assert results[cells[1]]["train"] == 64
    assert 0 < results[cells[1]]["replaced"] < 1
    made = report.rows(again.cells)
    assert {row["accuracy"] for row in made} == {r["accuracy"] for r in results.values()}
    shown = Console(file=StringIO(), width=150, record=True)
    result = {"rows": made}
    shown.print(*report.show(result))
    assert f"{100 * results[cells[1]]['accuracy']:.1f}" in shown.export_text()
    assert "at_home_sd" in made[0]
