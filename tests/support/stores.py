"""Databases of either kind, for tests that hold for both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sottovoce.cloud.store.database import Database
from sottovoce.cloud.store.objects import Objects
from sottovoce.cloud.store.postgres import PostgresDatabase
from sottovoce.cloud.store.sqlite import SqliteDatabase
from tests.support.postgres_server import PostgresServer

Clock = Callable[[], float]


class Store(Protocol):
    """Opens databases; the same folder is the same state."""

    def url(self, state: Path) -> str:
        """Return the value of `--store`."""
        ...

    def open(
        self, state: Path, clock: Clock | None = None, objects: Objects | None = None
    ) -> Database:
        """Open a separate database object, by default with the server's clock and the objects in
        the folder."""
        ...

    def on_disk(self, state: Path) -> bytes:
        """Return all bytes in the store's files."""
        ...


class FileStore:
    """SQLite."""

    def url(self, state: Path) -> str:
        """Nothing: it is in the folder."""
        return ""

    def open(
        self, state: Path, clock: Clock | None = None, objects: Objects | None = None
    ) -> Database:
        """See `Store`."""
        if clock is None:
            return SqliteDatabase(state, objects)
        return SqliteDatabase(state, objects, clock=clock)

    def on_disk(self, state: Path) -> bytes:
        """See `Store`."""
        return b"".join(f.read_bytes() for f in state.iterdir())


class ServerStore:
    """PostgreSQL, a schema for each folder."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._urls: dict[Path, str] = {}

    def url(self, state: Path) -> str:
        """Of its schema."""
        if state not in self._urls:
            self._urls[state] = self._server.new()
        return self._urls[state]

    def open(
        self, state: Path, clock: Clock | None = None, objects: Objects | None = None
    ) -> Database:
        """See `Store`."""
        return PostgresDatabase(self.url(state), state, objects, clock=clock)

    def on_disk(self, state: Path) -> bytes:
        """See `Store`."""
        return self._server.on_disk()
