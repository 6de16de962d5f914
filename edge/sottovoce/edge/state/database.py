"""The agent's database: noise key, ledger and queued examples, in transactions, sealed at rest.

Why it is here: a release must be charged before it is given out, in one step that a power cut
cannot split; SQLite gives that, shared by the daemon and by commands run without it. No text of the
user is stored but the corrections that he asks to be kept, sealed: documents are known by a keyed
hash, released texts are encrypted.

The database and its key are two halves of one state. Either without the other, or with another's,
is an error and never a fresh start: that would forget what was spent and draw noise a second time.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sottovoce.core.errors import ConfigError, DataLoss, QuotaExceeded, SottovoceError, Unavailable
from sottovoce.core.system.database_files import DatabaseFiles, make_database
from sottovoce.core.system.files import disk, private_folder, sync_folder
from sottovoce.edge.state import ledger_row, schema
from sottovoce.edge.state.device_key import HALVES, KEY, DeviceKey, InFile, beginning
from sottovoce.edge.state.sealing import AFRESH, Seal

__all__ = ["DATABASE", "KEY", "Store", "noise_place"]

DATABASE = "agent.db"
_VERSION = 10
_WAIT_SECONDS = 15
_LOST = "is gone or empty, and its key is still there"
_NOT_TAKEN = tuple(
    f"SQLITE_IOERR_{what}" for what in ("WRITE", "SHMSIZE", "FSYNC", "DIR_FSYNC", "TRUNCATE")
)
"""With which a disk refuses, and what lies on it is whole: no room for the log's index, say, or no
quota, which SQLite does not tell from a fault."""
_MARK = "CREATE TABLE seal (mark BLOB NOT NULL)"
_SEALED = (
    ("SELECT key, sealed FROM releases LIMIT 1", b"release"),
    ("SELECT CAST(id AS BLOB), sealed FROM customizations LIMIT 1", b"customization"),
)
"""Where version 1, which had no mark, shows which key it belongs to."""


class Store:
    """One SQLite connection (WAL, synchronous=FULL), used by one thread at a time.

    FULL costs a disk flush a release; without it a power cut could forget a release that was
    already given out, and the same document would later be noised a second time.

    Every read and every change first checks that the files in the folder are those that the
    connection uses. Otherwise the method calls ``lost`` and raises DataLoss.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        folder: Path,
        seal: Seal,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder = folder
        self.seal = seal
        self._connection = connection
        self._files = DatabaseFiles(folder / DATABASE)
        self._files.note()
        self._lost = lost
        self._lock = threading.RLock()

    @classmethod
    def open(
        cls,
        folder: Path,
        key: DeviceKey | None = None,
        lost: Callable[[], None] = lambda: None,
    ) -> Store:
        """Opens the state in `folder`, made with mode 0700 if there is none.

        Args:
            folder: of the state.
            key: where its key lies; None: in a file beside it.
            lost: called when the files in the folder are no longer those in use; should end the
                process.

        Raises:
            DataLoss: the database or its key is damaged or missing.
            ConfigError: the folder cannot be used, a newer agent wrote it, or its key lies in two
                places or in another. NotReady: the key cannot be asked for here.
            QuotaExceeded: the disk is full.
        """
        private_folder(folder)
        path = folder / DATABASE
        if _begun(folder) and not (path.exists() and path.stat().st_size):
            raise _damaged(path, _LOST)  # before SQLite makes it anew
        with disk(path):
            make_database(path)
        with _explained(path):
            connection = sqlite3.connect(
                path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                seal = _prepare(connection, folder, key or InFile())
            except BaseException:
                connection.close()
                raise
        return cls(connection, folder, seal, lost)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: committed and on disk when the block ends, or as if never begun.

        Raises:
            QuotaExceeded: the disk is full. Unavailable: another process holds the database.
            DataLoss: the database is damaged, or its files were replaced.
        """
        with self._lock, _explained(self.folder / DATABASE):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._check()  # now: to wait for another process's transaction may take seconds
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk has rolled back by itself
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of a SELECT.

        Raises:
            DataLoss: the database is damaged, or its files were replaced.
        """
        with self._lock, _explained(self.folder / DATABASE):
            self._check()
            return self._connection.execute(query, values).fetchall()

    def overwrite(self) -> None:
        """Folds the write-ahead log into the database: what was replaced is in neither then.

        Raises:
            Unavailable: another process is reading. DataLoss: see `rows`.
        """
        with self._lock, _explained(self.folder / DATABASE):
            self._check()
            (busy, *_) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise Unavailable(
                "what was replaced is still on disk, as another process is reading",
                fix="try again when it has finished",
            )

    def overwrite_if_possible(self) -> None:
        """The same; what cannot be done now is left to whatever folds the log next."""
        with suppress(SottovoceError):
            self.overwrite()

    def close(self) -> None:
        """Folds the write-ahead log into the database and lets go of it.

        Raises:
            DataLoss: the files were replaced; nothing is folded then, and nothing let go.
        """
        with self._lock, _explained(self.folder / DATABASE):
            self._files.close(self._connection)

    def _check(self) -> None:
        try:
            self._files.check()
        except DataLoss:
            self._lost()
            raise


def noise_place(epoch: int) -> bytes:
    """Where the noise key of an epoch is sealed."""
    return f"noise key {epoch}".encode()


def _begun(folder: Path) -> bool:
    """Whether something stands for a key, so that there was a state here."""
    return any((folder / half).exists() for half in HALVES)


def _prepare(connection: sqlite3.Connection, folder: Path, key: DeviceKey) -> Seal:
    path = folder / DATABASE
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA cache_size = -128")  # KiB; the rows are found by key, once each
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > _VERSION:
        raise ConfigError(
            f"{path} was written by a newer agent",
            fix="update sottovoce-edge, or set another agent.state",
            subject=str(path),
        )
    if version == 0:
        if _begun(folder):
            raise _damaged(path, _LOST)
        # The key gets its name, below, only once there is a database that knows it: whenever this
        # process is killed, what it leaves is no state yet, or all of one.
        seal = key.begin(folder)
        for statement in (*schema.FIRST.split(";\n"), _MARK):
            connection.execute(statement)
        connection.execute("INSERT INTO seal VALUES (?)", (seal.mark,))
    elif version == 1:
        seal = key.read(folder, folder / key.half)
        for query, place in _SEALED:
            for name, sealed in connection.execute(query):
                seal.unseal(sealed, place + name)
        connection.execute(_MARK)
        connection.execute("INSERT INTO seal VALUES (?)", (seal.mark,))
    else:
        seal = _seal_of(connection, folder, key)
    if version < 3:
        for statement in schema.THIRD.split(";\n"):
            connection.execute(statement)
    if version < 4:
        for statement in schema.FOURTH.split(";\n"):
            connection.execute(statement)
        secret = seal.new_secret(noise_place(1))
        connection.execute("INSERT INTO noise_key VALUES (1, 1, ?)", (secret,))
    if version < 5:
        for statement in schema.FIFTH.split(";\n"):
            connection.execute(statement)
    if version < 6:
        for statement in schema.SIXTH.split(";\n"):
            connection.execute(statement)
    if version < 7:
        connection.execute("ALTER TABLE ledger ADD COLUMN mac BLOB")  # of what is in the row
        ledger_row.sign(connection, seal)
    if version < 8:
        for statement in schema.EIGHTH.split(";\n"):
            connection.execute(statement)
    if version < 9:
        for statement in schema.NINTH.split(";\n"):
            connection.execute(statement)
    if version < _VERSION:
        for statement in schema.TENTH.split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
        seal = _seal_of(connection, folder, key)
    for table in ("ledger", "noise_key"):
        if connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone() != (1,):
            raise _damaged(path)
    ledger_row.figures(connection.execute(ledger_row.ROW), seal)
    connection.execute("COMMIT")
    return seal


def _seal_of(connection: sqlite3.Connection, folder: Path, key: DeviceKey) -> Seal:
    """The key that the database was written with, once what stands for it has its name.

    Raises:
        DataLoss: it is not there, or another is; or the database does not say which it was.
    """
    path, half, new = folder / DATABASE, folder / key.half, beginning(folder, key.half)
    marks = connection.execute("SELECT mark FROM seal").fetchall()
    if len(marks) != 1:
        raise _damaged(path)
    ((mark,),) = marks
    if not half.exists() and new.exists() and key.read(folder, new).mark == mark:
        new.rename(half)
        sync_folder(folder)
    seal = key.read(folder, half)
    if seal.mark != mark:
        raise DataLoss(
            f"the key {key.told(folder)} is not the one that {path} was written with",
            fix="bring back both from the same backup, or move the folder away to start afresh; "
            + AFRESH,
            subject=str(half),
        )
    key.settle(folder, seal)
    return seal


def _damaged(path: Path, how: str = "is damaged") -> DataLoss:
    return DataLoss(
        f"the agent's database {path} {how}",
        fix="bring it back from a backup together with its key, or move the folder away to "
        f"start afresh; {AFRESH}",
        subject=str(path),
    )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        raise _translate(path, name) from error
    except UnicodeDecodeError as error:  # SQLite quotes what it found in its complaint
        raise _damaged(path) from error


def _translate(path: Path, name: str) -> SottovoceError:
    if name.startswith("SQLITE_FULL"):
        return QuotaExceeded(
            f"the disk is full at {path.parent}",
            fix="free some space, then try again; nothing is lost or charged twice",
            subject="disk",
        )
    if name in _NOT_TAKEN:
        return QuotaExceeded(
            f"the disk takes nothing more at {path.parent} ({name})",
            fix="free some space or quota there, then try again; if there is enough, see what the "
            "system's log says of the disk; nothing is lost or charged twice",
            subject="disk",
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Unavailable(
            f"{path} is held by another process", fix="try again when it has finished"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return ConfigError(
            f"{path} cannot be written", fix="mend its owner and mode", subject=str(path)
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR")):
        return _damaged(path)
    return SottovoceError(f"the agent's database {path} refused ({name or 'no reason given'})")
