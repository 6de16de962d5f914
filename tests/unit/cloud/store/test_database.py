"""What jobs, tenants and quotas rely on holds for both kinds of database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sottovoce.cloud.store.database import Database
from tests.support.stores import Store
from tests.support.waiting import until

LONG = 60.0


@pytest.fixture
def opened(tmp_path: Path, store: Store) -> Iterator[Callable[[], Database]]:
    """Opens the same state again and again."""
    with ExitStack() as stack:

        def another() -> Database:
            database = store.open(tmp_path)
            stack.callback(database.close)
            return database

        yield another


def enroll(database: Database, name: str) -> None:
    with database.write() as transaction:
        transaction.change("INSERT INTO tenants (name, created) VALUES (:name, 0)", name=name)


def tenants(database: Database) -> int:
    with database.read() as transaction:
        (row,) = transaction.rows("SELECT count(*) AS n FROM tenants")
    return int(row["n"])


def test_a_failed_transaction_leaves_nothing(opened: Callable[[], Database]) -> None:
    database = opened()

    def fail() -> None:
        with database.write() as transaction:
            transaction.change("INSERT INTO tenants (name, created) VALUES ('a', 0)")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert tenants(database) == 0
    enroll(database, "b")  # the connection is fit for use afterwards
    assert tenants(database) == 1


def test_two_connections_and_many_threads_lose_no_write(opened: Callable[[], Database]) -> None:
    databases = [opened(), opened()]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: enroll(databases[i % 2], f"t{i}"), range(60)))
    assert [tenants(database) for database in databases] == [60, 60]


def test_values_come_back_as_they_were(opened: Callable[[], Database]) -> None:
    database = opened()
    with database.write() as transaction:
        transaction.change(
            "INSERT INTO tenants (name, created) VALUES (:name, :created)",
            name="50 % of ':this' — «é»",
            created=1_700_000_000.123456,
        )
        transaction.change(
            "INSERT INTO codes (selector, secret_sha256, tenant, name, scope, ends) "
            "SELECT 'K', :hash, name, '', '', 0 FROM tenants",
            hash=bytes(range(256)),
        )
        transaction.change("INSERT INTO limits SELECT name, 'examples', 1 FROM tenants")
        transaction.change("UPDATE limits SET value = :most", most=2**63 - 1)
    with database.read() as transaction:
        assert transaction.row("SELECT * FROM tenants") == {
            "name": "50 % of ':this' — «é»",
            "created": 1_700_000_000.123456,
            "disabled": 0,
        }
        assert transaction.rows("SELECT secret_sha256, token_seconds FROM codes") == [
            {"secret_sha256": bytes(range(256)), "token_seconds": None}
        ]
        assert transaction.rows("SELECT value FROM limits") == [{"value": 2**63 - 1}]
        assert transaction.row("SELECT 1 FROM tenants WHERE name = :name", name="none") is None


def test_what_was_announced_and_committed_is_news(opened: Callable[[], Database]) -> None:
    database, other = opened(), opened()

    def announce(by: Database, *, fail: bool = False) -> None:
        with by.write() as transaction:
            transaction.change("UPDATE clock SET awake = awake + 1")
            transaction.announce()
            if fail:
                raise KeyError

    before = database.news()
    assert tenants(other) == 0
    with pytest.raises(KeyError):
        announce(other, fail=True)
    assert database.news() == before
    announce(other)
    until(lambda: database.news() != before)  # a server sends it on its own time
    after = database.news()
    assert database.news() == after
    announce(database)
    until(lambda: database.news() != after)


def test_a_locked_row_is_waited_for_and_seen_as_it_was_left(
    opened: Callable[[], Database],
) -> None:
    one, other = opened(), opened()
    enroll(one, "a")
    holding, add = threading.Barrier(2), "UPDATE tenants SET created = :created WHERE name = 'a'"

    def count(database: Database, *, first: bool) -> None:
        with database.write() as transaction:
            row = transaction.lock("SELECT * FROM tenants WHERE name = 'a'")
            assert row is not None
            if first:
                holding.wait(LONG)
            transaction.change(add, created=row["created"] + 1)

    with ThreadPoolExecutor(2) as threads:
        ahead = threads.submit(count, one, first=True)
        holding.wait(LONG)  # the row is locked now
        behind = threads.submit(count, other, first=False)
        ahead.result(LONG)
        behind.result(LONG)
    with one.read() as transaction:
        assert transaction.rows("SELECT created FROM tenants") == [{"created": 2.0}]


@contextmanager
def held(database: Database, name: str) -> Iterator[None]:
    """A tenant's row, locked for as long as the block."""
    with database.write() as transaction:
        transaction.lock("SELECT name FROM tenants WHERE name = :name", name=name)
        yield


def test_reading_waits_for_no_lock(opened: Callable[[], Database]) -> None:
    one, other = opened(), opened()
    enroll(one, "a")
    with held(one, "a"):
        assert tenants(other) == 1
        assert tenants(one) == 1


def test_a_lock_ends_with_its_transaction(opened: Callable[[], Database]) -> None:
    one, other = opened(), opened()
    enroll(one, "a")
    with pytest.raises(KeyError), held(one, "a"):
        raise KeyError
    with other.write() as transaction:
        assert transaction.lock_free("SELECT name FROM tenants") == [{"name": "a"}]
