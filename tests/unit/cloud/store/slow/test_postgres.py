"""Behaviour of a database server: outages, rows locked by others, and its clock."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from sottovoce.cloud import store
from sottovoce.cloud.store import open_database
from sottovoce.cloud.store import postgres as postgres_module
from sottovoce.cloud.store.database import VERSION
from sottovoce.cloud.store.postgres import PostgresDatabase, conninfo
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from sottovoce.core.errors import ConfigError, NotFound, NotReady, Unavailable
from tests.support.postgres_server import PostgresServer
from tests.support.waiting import until

ENROLL = "INSERT INTO tenants (name, created) VALUES (:name, 0)"


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Of an empty schema."""
    return postgres.new()


@pytest.fixture
def database(url: str, tmp_path: Path) -> Iterator[PostgresDatabase]:
    """Two tenants."""
    database = PostgresDatabase(url, tmp_path)
    for name in ("acme", "other"):
        Tenants(database).enroll(name)
    yield database
    database.close()


def names(database: PostgresDatabase) -> list[str]:
    with database.read() as transaction:
        return [row["name"] for row in transaction.rows("SELECT name FROM tenants ORDER BY name")]


def test_rows_that_others_hold_are_passed_over(
    database: PostgresDatabase, url: str, tmp_path: Path
) -> None:
    first = "SELECT name FROM tenants ORDER BY name LIMIT 1"
    with closing(PostgresDatabase(url, tmp_path)) as another, database.write() as transaction:
        assert transaction.lock(first) == {"name": "acme"}
        with another.write() as meanwhile:
            assert meanwhile.lock_free(first) == [{"name": "other"}]
            # Nor does a row that refers to a tenant wait until nobody holds it.
            meanwhile.change("INSERT INTO limits VALUES ('acme', 'examples', 1)")


def test_who_stands_still_in_a_transaction_loses_its_locks(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "_STANDSTILL", 1)
    with closing(PostgresDatabase(url, tmp_path)) as sleeper:
        Tenants(sleeper).enroll("acme")

        def sleep_over_it() -> None:
            with sleeper.write() as transaction:
                transaction.lock("SELECT name FROM tenants WHERE name = 'acme'")
                with closing(PostgresDatabase(url, tmp_path)) as awake, awake.write() as other:
                    assert other.lock("SELECT name FROM tenants WHERE name = 'acme'")
                transaction.change("UPDATE tenants SET created = 7")

        with pytest.raises(Unavailable):
            sleep_over_it()
        with sleeper.read() as transaction:
            assert not transaction.rows("SELECT * FROM tenants WHERE created = 7")


def test_the_clock_is_the_servers(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    with database.write() as transaction:
        first, second = transaction.now(), transaction.now()
    assert second > first >= real - 1.0


def test_who_opens_at_once_makes_one_schema(url: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        opened = list(threads.map(lambda _: PostgresDatabase(url, tmp_path), range(4)))
    for database in opened:
        assert names(database) == []
        database.close()


def test_both_databases_have_the_same_tables_and_columns(
    database: PostgresDatabase, tmp_path: Path
) -> None:
    with database.read() as transaction:
        found = transaction.rows(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND table_name <> 'schema_version'"
        )
    with closing(SqliteDatabase(tmp_path / "file")) as file, file.read() as transaction:
        wanted = transaction.rows(
            "SELECT t.name AS table_name, c.name AS column_name FROM sqlite_schema AS t, "
            "pragma_table_info(t.name) AS c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'"
        )
    assert len(wanted) > 50
    assert {tuple(row.values()) for row in found} == {tuple(row.values()) for row in wanted}


@pytest.mark.parametrize(
    ("version", "fix"),
    [
        *((older, "empty database") for older in (0, 1, VERSION - 1)),
        *((newer, "newer program") for newer in (VERSION + 1, 99)),
    ],
)
def test_a_state_of_another_version_is_refused_and_stays_as_it_is(
    database: PostgresDatabase, url: str, tmp_path: Path, version: int, fix: str
) -> None:
    def content() -> list[object]:
        with psycopg.connect(url) as connection:
            return [
                connection.execute("SELECT xmin::text, * FROM schema_version").fetchall(),
                connection.execute("SELECT xmin::text, * FROM tenants ORDER BY name").fetchall(),
                connection.execute(
                    "SELECT oid::text, relname FROM pg_class "
                    "WHERE relnamespace = current_schema()::regnamespace ORDER BY 1"
                ).fetchall(),
            ]

    with psycopg.connect(url) as connection:
        connection.execute("UPDATE schema_version SET version = %s", [version])
    before = content()
    for create in (True, False):
        with pytest.raises(
            ConfigError, match=rf"version {version}\b.* version {VERSION}\b"
        ) as caught:
            open_database(tmp_path, url, create=create)
        assert fix in caught.value.fix
        assert content() == before


def test_a_database_without_a_state_is_not_taken_for_an_empty_one(url: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no state"):
        open_database(tmp_path, url, create=False)
    open_database(tmp_path, url).close()
    open_database(tmp_path, url, create=False).close()


def test_a_server_does_not_hide_the_state_that_a_folder_holds(url: str, tmp_path: Path) -> None:
    SqliteDatabase(tmp_path).close()
    with pytest.raises(ConfigError, match="already"):
        open_database(tmp_path, url)
    open_database(tmp_path / "other", url).close()
    open_database(tmp_path, url).close()  # once the server holds one, somebody has decided


def test_who_opens_a_schema_of_today_writes_nothing(
    database: PostgresDatabase, url: str, tmp_path: Path
) -> None:
    row = "SELECT CAST(xmin AS TEXT) AS xmin FROM schema_version"
    with database.read() as transaction:
        before = transaction.row(row)
        PostgresDatabase(url, tmp_path).close()
        assert transaction.row(row) == before


def test_writers_that_wait_for_each_other_leave_reading_alone(
    database: PostgresDatabase, postgres: PostgresServer
) -> None:
    lock = "SELECT name FROM tenants WHERE name = 'acme'"
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"

    def write() -> None:
        with database.write() as transaction:
            assert transaction.lock(lock)

    def held_up() -> bool:
        with psycopg.connect(postgres.url()) as connection:
            return connection.execute(waiting).fetchone() == (postgres_module._WRITERS - 1,)

    with ThreadPoolExecutor(2 * postgres_module._CONNECTIONS) as threads:
        with database.write() as transaction:
            transaction.lock(lock)
            writes = [threads.submit(write) for _ in range(2 * postgres_module._CONNECTIONS)]
            until(held_up)
            assert names(database) == ["acme", "other"]
        for written in writes:
            written.result(60)


def test_a_folder_that_cannot_be_made_is_named(url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotReady, match="cannot write"):
        PostgresDatabase(url, tmp_path / "file")


@pytest.mark.parametrize(
    "store",
    [
        "mysql://u:secret@h/d",
        "secret",
        "postgresql://u:secret@[::1",
        "postgresql://?x=secret",
        "postgresql://u:p@secret@h/d",
        "postgresql://u:p@h,secret@h/d",
        "postgresql://u:secret/p@h/d",
        "postgresql://u@h:secret/d",
    ],
)
def test_what_is_no_url_is_refused_and_not_quoted(tmp_path: Path, store: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_database(tmp_path / "state", store)
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "state").exists()


def test_what_the_url_says_of_the_line_goes_before_our_own() -> None:
    made = conninfo_to_dict(conninfo("postgresql://u:p%40s@h:1,i:2/d?connect_timeout=77"))
    assert (made["password"], made["host"], made["port"]) == ("p@s", "h,i", "1,2")
    assert (made["connect_timeout"], made["tcp_user_timeout"]) == ("77", "15000")


def test_a_newline_at_the_urls_end_is_not_the_databases_name() -> None:
    assert conninfo_to_dict(conninfo("postgresql://h/d\n"))["dbname"] == "d"


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sottovoce.cloud.store.postgres")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError) as caught:
        store.open_database(tmp_path, "postgresql:///d")
    assert "[scale]" in caught.value.fix


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be reached") as caught:
        PostgresDatabase(f"postgresql://u:secret@/d?host={tmp_path}", tmp_path)
    assert str(tmp_path) not in str(caught.value), "what libpq says may quote the URL"


def test_a_server_that_restarts_is_met_again(
    database: PostgresDatabase, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    heard = database.news()
    postgres.stop()
    assert database.news() == heard, "nothing is known"
    with caplog.at_level(logging.DEBUG), pytest.raises(Unavailable):
        names(database)
    assert {record.name for record in caplog.records} == {postgres_module.__name__}
    postgres.start()
    assert names(database) == ["acme", "other"], "by a new connection"
    until(lambda: database.news() != heard)  # something may have been missed
    heard = database.news()
    with database.write() as transaction:
        transaction.announce()
    until(lambda: database.news() != heard)


def test_a_connection_that_breaks_within_a_transaction_leaves_nothing(
    database: PostgresDatabase, url: str
) -> None:
    def cut() -> None:
        with database.write() as transaction:
            transaction.change(ENROLL, name="new")
            (own,) = transaction.rows("SELECT pg_backend_pid() AS pid")
            with psycopg.connect(url) as connection:
                connection.execute("SELECT pg_terminate_backend(%s, 60000)", [own["pid"]])

    with pytest.raises(Unavailable):
        cut()
    assert names(database) == ["acme", "other"]


def test_two_that_wait_for_each_other_do_not_wait_for_ever(
    database: PostgresDatabase, url: str, tmp_path: Path
) -> None:
    lock = "SELECT name FROM tenants WHERE name = :name"
    with closing(PostgresDatabase(url, tmp_path)) as another, ThreadPoolExecutor(1) as threads:
        both = threading.Barrier(2)

        def crossed(by: PostgresDatabase, first: str, second: str) -> bool:
            try:
                with by.write() as transaction:
                    transaction.lock(lock, name=first)
                    both.wait(60)
                    transaction.lock(lock, name=second)
            except Unavailable:
                return False
            return True

        there = threads.submit(crossed, another, "acme", "other")
        here = crossed(database, "other", "acme")
        assert sorted([here, there.result(60)]) == [False, True]
