"""The cache stays within its budget, and keeps adapters that requests wait for."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.serving import adapter_cache
from sottovoce.cloud.serving.adapter_cache import AdapterCache
from sottovoce.cloud.store.adapters import AdapterFiles, stored
from sottovoce.cloud.store.s3 import S3Objects
from sottovoce.core.errors import DataLoss, NotReady, Overloaded


@dataclass(frozen=True)
class Loaded:
    text: str
    bytes: int


class Disk:
    """Adapters of a given size each, and a note of every time one is read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.read: list[str] = []
        self.gate: threading.Event | None = None

    def put(self, name: str, size: int = 100) -> AdapterFiles:
        folder = self.root / name
        folder.mkdir()
        (folder / "weights.safetensors").write_bytes(bytes(size))
        (folder / "adapter.json").write_text(name)
        return AdapterFiles.of(folder)

    def load(self, folder: Path) -> Loaded:
        self.read.append(folder.name)
        if self.gate is not None:
            assert self.gate.wait(60)
        size = (folder / "weights.safetensors").stat().st_size
        return Loaded((folder / "adapter.json").read_text(), size)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def use(held: AdapterCache[Loaded], files: AdapterFiles) -> str:
    value, release = held.acquire(files)
    release()
    return value.text


@pytest.mark.server
def test_one_in_a_bucket_is_fetched_once(disk: Disk, bucket: S3Objects) -> None:
    bucket.put(disk.put("a").folder, "jobs/a/1/adapter")
    here = AdapterFiles.of(disk.root / "a")
    held = AdapterCache(disk.load)
    with pytest.raises(DataLoss):  # what lies there is another
        held.acquire(stored(bucket, "jobs/a/1/adapter", disk.put("b").sha256))
    files = stored(bucket, "jobs/a/1/adapter", here.sha256)
    assert [use(held, files) for _ in range(3)] == ["a"] * 3
    assert len(disk.read) == 1
    bucket.remove("jobs/a")
    with pytest.raises(DataLoss):
        AdapterCache(disk.load).acquire(files)


def figures(metrics: Metrics) -> tuple[float, ...]:
    """Adapters, bytes, loads, evictions."""
    names = ("s", "_bytes", "_loads_total", "_evictions_total")
    found = [metrics.registry.get_sample_value(f"sottovoce_adapter{name}") for name in names]
    return tuple(value or 0.0 for value in found)


def test_the_least_recently_used_leave_when_memory_is_full(disk: Disk) -> None:
    a, b, c = (disk.put(name) for name in "abc")
    metrics = Metrics()
    held = AdapterCache(disk.load, budget=250, metrics=metrics)
    for files in (a, b, a, c, a, b):  # c takes b's place, then b takes c's
        assert use(held, files) == files.folder.name
    assert disk.read == ["a", "b", "c", "b"]
    assert figures(metrics) == (2, 200, 4, 2)


def test_what_a_request_waits_for_stays_and_the_budget_holds(disk: Disk) -> None:
    a, b, c = (disk.put(name) for name in "abc")
    metrics = Metrics()
    held = AdapterCache(disk.load, budget=250, patience=0.05, metrics=metrics)
    _, release_a = held.acquire(a)
    _, release_b = held.acquire(b)
    with pytest.raises(Overloaded, match="in use"):
        held.acquire(c)
    assert figures(metrics)[:2] == (2, 200)
    release_b()
    assert use(held, c) == "c"
    assert use(held, a) == "a"
    assert disk.read == ["a", "b", "c"]
    release_a()


def test_who_waits_for_room_gets_it(disk: Disk) -> None:
    a, b = disk.put("a"), disk.put("b")
    held = AdapterCache(disk.load, budget=100, patience=10)
    _, release = held.acquire(a)
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.append(use(held, b)))
    waiting.start()
    release()
    waiting.join(60)
    assert found == ["b"]


def test_one_larger_than_memory_is_refused_and_costs_nothing(disk: Disk) -> None:
    small, large = disk.put("small"), disk.put("large", 300)
    metrics = Metrics()
    held = AdapterCache(disk.load, budget=250, metrics=metrics)
    use(held, small)
    with pytest.raises(NotReady, match="larger") as caught:
        held.acquire(large)
    assert "--adapter-memory" in caught.value.fix
    assert figures(metrics) == (1, 100, 1, 0)


def test_one_that_was_trained_anew_is_another(disk: Disk) -> None:
    # Names are the registry's: here two lie in different folders, two in one after the other.
    first, second = disk.put("first"), disk.put("second", 60)
    metrics = Metrics()
    held = AdapterCache(disk.load, metrics=metrics)
    old, release = held.acquire(first)
    assert use(held, second) == "second"
    assert old.text == "first"  # a request that had begun ends with what it began with
    release()
    (first.folder / "adapter.json").write_text("again")
    again = AdapterFiles.of(first.folder)
    assert use(held, again) == "again"
    assert use(held, AdapterFiles(again.folder, again.sha256)) == "again"  # equal is the same
    assert disk.read == ["first", "second", "first"]
    assert figures(metrics)[:2] == (3, 260)


def test_a_damaged_one_is_refused_while_others_go_on(disk: Disk) -> None:
    good, bad = disk.put("good"), disk.put("bad")
    (bad.folder / "weights.safetensors").unlink()

    def load(folder: Path) -> Loaded:
        if not (folder / "weights.safetensors").exists():
            raise DataLoss("damaged")
        return disk.load(folder)

    metrics = Metrics()
    held = AdapterCache(load, metrics=metrics)
    _, release = held.acquire(good)
    for _ in range(2):
        with pytest.raises(DataLoss):
            held.acquire(bad)
        assert use(held, good) == "good"
    release()
    assert figures(metrics) == (1, 100, 1, 0)


def test_one_that_was_deleted_is_gone_from_memory(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = disk.put("a"), disk.put("b")
    metrics = Metrics()
    held = AdapterCache(disk.load, metrics=metrics)
    use(held, a)
    shutil.rmtree(a.folder)
    with pytest.raises(DataLoss):
        held.acquire(a)
    monkeypatch.setattr(adapter_cache, "SWEEP", 0)
    use(held, b)  # nobody need ask for it again
    assert figures(metrics)[:2] == (1, 100)


def test_one_is_read_once_however_many_ask_and_others_need_not_wait(disk: Disk) -> None:
    a, b = disk.put("a"), disk.put("b")
    held = AdapterCache(disk.load)
    use(held, b)
    disk.gate = threading.Event()
    found: list[str] = []
    asking = [threading.Thread(target=lambda: found.append(use(held, a))) for _ in range(4)]
    for thread in asking:
        thread.start()
    assert use(held, b) == "b"  # while a is being read
    disk.gate.set()
    for thread in asking:
        thread.join(60)
    assert (found, disk.read) == (["a"] * 4, ["b", "a"])


def test_one_that_cannot_be_read_leaves_no_trace(disk: Disk) -> None:
    files = disk.put("a")
    metrics = Metrics()
    broken = True

    def load(at: Path) -> Loaded:
        if broken:
            raise DataLoss("damaged")
        return disk.load(at)

    held = AdapterCache(load, budget=100, metrics=metrics)
    for _ in range(3):
        with pytest.raises(DataLoss):
            held.acquire(files)
    assert figures(metrics) == (0, 0, 0, 0)
    broken = False
    assert use(held, files) == "a"


def test_the_books_balance_whatever_many_threads_do(disk: Disk) -> None:
    put = [disk.put(str(n), 40 + 10 * n) for n in range(6)]
    metrics = Metrics()
    held = AdapterCache(disk.load, budget=200, metrics=metrics)
    wrong: list[object] = []

    def work(seed: int) -> None:
        for step in range(60):
            files = put[(seed * 7 + step * (seed + 1)) % 6]
            if step % 20 == seed:
                files = disk.put(f"{seed} {step}", 40)  # as if trained anew
            try:
                if use(held, files) != files.folder.name or figures(metrics)[1] > 200:
                    wrong.append(files)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    count, size, _, _ = figures(metrics)
    assert size == sum(entry.bytes for entry in held._held.values())
    assert count == len(held._held)


def test_what_an_adapter_takes_beside_its_files_counts(disk: Disk) -> None:
    def load(folder: Path) -> Loaded:  # with a noise table, say
        return Loaded(folder.name, 3 * disk.load(folder).bytes)

    metrics = Metrics()
    held = AdapterCache(load, budget=700, patience=0.05, metrics=metrics)
    first, second = disk.put("first"), disk.put("second")
    with pytest.raises(NotReady, match="larger than the memory"):
        use(held, disk.put("large", 250))
    _, release = held.acquire(first)
    use(held, second)
    assert figures(metrics)[:2] == (2, 600)
    third = disk.put("third")
    # No room for a third beside two that are in use, though its files would fit.
    _, release_second = held.acquire(second)
    with pytest.raises(Overloaded, match="in use"):
        held.acquire(third)
    release()
    assert use(held, third) == "third"
    assert metrics.registry.get_sample_value("sottovoce_adapter_bytes") == 600
    release_second()
