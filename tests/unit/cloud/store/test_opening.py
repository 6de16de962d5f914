"""A database refuses another database's objects before it reads them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sottovoce.cloud.store import check_objects, open_database
from sottovoce.cloud.store.database import Transaction
from sottovoce.cloud.store.objects import FileObjects
from sottovoce.core.errors import ConfigError
from tests.support.stores import Store


def test_a_cloud_without_s3_needs_no_library_for_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; sys.modules['obstore'] = None\n"
        "from sottovoce.cloud.store import open_objects\n"
        "open_objects('', Path())\n"
        "try: open_objects('s3://bucket', Path())\n"
        "except Exception as error: print(type(error).__name__, error.fix)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[0] == "ConfigError"
    assert "sottovoce-cloud[scale]" in ran.stdout


def test_a_database_knows_its_objects_wherever_it_is_opened(store: Store, tmp_path: Path) -> None:
    url, kept, moved = store.url(tmp_path), tmp_path / "kept", tmp_path / "moved"
    with closing(open_database(tmp_path, url, kept.as_uri())) as database:
        check_objects(database, bind=False)
        assert not kept.exists(), "who only looks binds nothing"
        for _ in range(2):
            check_objects(database)
    for wrong in ("", (tmp_path / "none").as_uri()):
        for bind in (False, True):
            with (
                closing(open_database(tmp_path, url, wrong)) as database,
                pytest.raises(ConfigError, match="not where") as caught,
            ):
                check_objects(database, bind=bind)
            assert "--objects" in caught.value.fix
    assert not (tmp_path / "none").exists()
    kept.rename(moved)
    with closing(open_database(tmp_path, url, moved.as_uri())) as database:
        check_objects(database)


def test_no_two_databases_have_one_store(store: Store, tmp_path: Path) -> None:
    kept = (tmp_path / "kept").as_uri()
    one, two = tmp_path / "one", tmp_path / "two"
    with closing(open_database(one, store.url(one), kept)) as database:
        check_objects(database)
    with closing(open_database(two, store.url(two), kept)) as database:
        for _ in range(2):
            with pytest.raises(ConfigError, match="another database's") as caught:
                check_objects(database)
        assert "objects.id" in caught.value.fix
        (tmp_path / "kept" / "objects.id").unlink()
        check_objects(database)


def test_who_dies_while_a_store_is_taken_leaves_one_that_can_be(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, kept = store.url(tmp_path), (tmp_path / "kept").as_uri()

    def taken(self: FileObjects, owner: str, *, take: bool = False) -> None:
        real(self, owner, take=take)
        raise KeyboardInterrupt

    real = FileObjects.bind
    with closing(open_database(tmp_path, url, kept)) as database:
        with monkeypatch.context() as patched:
            patched.setattr(FileObjects, "bind", taken)
            with pytest.raises(KeyboardInterrupt):
                check_objects(database)
        assert (tmp_path / "kept" / "objects.id").exists()
        check_objects(database, bind=False)
        check_objects(database)
    with (
        closing(open_database(tmp_path, url, (tmp_path / "other").as_uri())) as database,
        pytest.raises(ConfigError, match="not where"),
    ):
        check_objects(database)


def test_of_processes_that_start_together_with_other_objects_one_has_them(
    store: Store, tmp_path: Path
) -> None:
    url, together = store.url(tmp_path), threading.Barrier(4)
    store.open(tmp_path).close()

    def start(number: int) -> bool:
        objects = (tmp_path / f"kept{number % 2}").as_uri()
        with closing(open_database(tmp_path, url, objects)) as database:
            together.wait(60)
            try:
                check_objects(database)
            except ConfigError:
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(start, range(4))) == [False, False, True, True]
    assert len(list(tmp_path.glob("kept*/objects.id"))) == 1


def test_what_another_has_left_is_left(tmp_path: Path) -> None:
    both = [FileObjects(tmp_path / "kept") for _ in range(2)]
    for each in both:
        each.bind("drawn", take=True)
    for each in both:
        each.leave()
    assert not (tmp_path / "kept" / "objects.id").exists()


def test_no_transaction_waits_for_the_objects(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_database(tmp_path, store.url(tmp_path))) as database:
        begin, bind, now, asked = database.write, FileObjects.bind, [], []

        @contextmanager
        def write() -> Iterator[Transaction]:
            with begin() as transaction:
                now.append(transaction)
                try:
                    yield transaction
                finally:
                    now.pop()

        def binding(self: FileObjects, owner: str, *, take: bool = False) -> str:
            asked.append(take)
            assert not now
            return bind(self, owner, take=take)

        monkeypatch.setattr(database, "write", write)
        monkeypatch.setattr(FileObjects, "bind", binding)
        check_objects(database)
        assert asked == [True, False]
