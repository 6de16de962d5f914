"""The database file keeps whole transactions, for one user, in one version."""

from __future__ import annotations

import json
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.state import database as store_module
from sottovoce.cloud.state import quotas
from sottovoce.cloud.state.database import Store
from sottovoce.core.errors import DataLoss, NotReady, Unavailable
from tests.support.examples import RELEASE


def enroll(store: Store, name: str) -> None:
    with store.write() as connection:
        connection.execute("INSERT INTO tenants VALUES (?, x'00', 0)", (name,))


def tenants(store: Store) -> int:
    with store.read() as connection:
        return int(connection.execute("SELECT count(*) FROM tenants").fetchone()[0])


def test_a_failed_transaction_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fail() -> None:
        with store.write() as connection:
            connection.execute("INSERT INTO tenants VALUES ('a', x'00', 0)")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert tenants(store) == 0
    enroll(store, "b")  # the connection is fit for use afterwards
    assert tenants(store) == 1
    store.close()


def test_two_connections_and_many_threads_lose_no_write(tmp_path: Path) -> None:
    stores = [Store(tmp_path), Store(tmp_path)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: enroll(stores[i % 2], f"t{i}"), range(60)))
    assert [tenants(store) for store in stores] == [60, 60]
    for store in stores:
        store.close()


def test_rows_cannot_outlive_what_they_belong_to(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(sqlite3.IntegrityError), store.write() as connection:
        connection.execute("INSERT INTO examples VALUES ('none', 0, 'e', 't', 'l', '', '')")
    store.close()


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    assert stat.S_IMODE((tmp_path / "state" / "sottovoce.db").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    store.close()


def test_a_damaged_or_foreign_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "sottovoce.db").write_bytes(b"not a database, " * 100)
    with pytest.raises(DataLoss, match="damaged") as caught:
        Store(tmp_path)
    assert "--state" in caught.value.fix


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    Store(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "sottovoce.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(DataLoss, match="version 99"):
        Store(tmp_path)


def test_a_file_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    first, *_ = store_module._VERSIONS
    connection = sqlite3.connect(tmp_path / "sottovoce.db")
    connection.executescript(f"{first}; PRAGMA user_version = 1")
    connection.execute("INSERT INTO tenants VALUES ('acme', x'00', 0)")
    connection.execute(
        "INSERT INTO jobs (id, tenant, request_id, adapter, state, training, release, created, "
        "updated) VALUES ('j', 'acme', 'r', 'topics', 'QUEUED', '{\"seed\": 4}', ?, 0, 0)",
        (json.dumps(asdict(RELEASE)),),
    )
    connection.commit()
    connection.close()
    for _ in range(2):  # the second time there is nothing left to do
        store = Store(tmp_path)
        job = Jobs(store).get("j", "acme")
        assert (job.training.seed, job.training.method, job.trained) == (4, "lora", 0.0)
        assert quotas.own(store, "acme") == {}
        store.close()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotReady, match="cannot write"):
        Store(tmp_path / "file")


def test_a_full_disk_is_said_and_passes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Unavailable, match="cannot write"), store.write() as connection:
        connection.execute("INSERT INTO tenants VALUES ('a', zeroblob(1000000), 0)")
    assert tenants(store) == 0
    store._connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
    enroll(store, "b")
    assert tenants(store) == 1
    store.close()


def test_a_disk_that_is_full_at_the_start_is_not_called_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(store_module, "_connected", full)
    with pytest.raises(Unavailable) as caught:
        Store(tmp_path)
    assert "backup" not in caught.value.fix


def test_a_commit_that_fails_leaves_no_transaction_open(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fail() -> None:
        with store.write() as connection:
            # Checked at the commit, like the flush of a disk that fails.
            connection.execute("PRAGMA defer_foreign_keys = ON")
            connection.execute("INSERT INTO examples VALUES ('none', 0, 'e', 't', 'l', '', '')")

    with pytest.raises(sqlite3.IntegrityError):
        fail()
    enroll(store, "b")
    assert tenants(store) == 1
    store.close()


def test_reading_waits_for_no_writer(tmp_path: Path) -> None:
    store = Store(tmp_path)
    enroll(store, "a")
    with store.write() as connection, ThreadPoolExecutor(1) as threads:
        connection.execute("INSERT INTO tenants VALUES ('b', x'00', 0)")
        assert threads.submit(tenants, store).result(10) == 1  # what is committed
    assert tenants(store) == 2
    with store.read() as connection, pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM tenants")
    store.close()
