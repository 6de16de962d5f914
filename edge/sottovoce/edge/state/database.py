"""The agent's database: noise key, ledger and queued examples, sealed at rest.

A release must be charged before it is handed out, in one step that a power cut cannot split. SQLite
provides these transactions, both to the daemon and to commands that run without it. The only texts
of the user that are stored are the corrections that the owner asks to keep, and these are sealed.
Documents are stored as keyed hashes, and released texts are encrypted.

The database and its key are two halves of one state. If one is missing, or belongs to another
state, that is an error and never a fresh start. A fresh start would forget the spending and draw
noise a second time.

One daemon holds the lock on a state folder. Two daemons could both spend the same remaining budget.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sottovoce.core.errors import (
    ConfigError,
    DataLoss,
    NotReady,
    QuotaExceeded,
    SottovoceError,
    Unavailable,
)
from sottovoce.core.platform.files import (
    DatabaseFiles,
    disk,
    make_database,
    private_folder,
    sync_folder,
)
from sottovoce.edge.state.device_key import AFRESH, HALVES, DeviceKey, InFile, Seal, beginning

if TYPE_CHECKING:
    from sottovoce.core.privacy.noise import Key

_FILE: Final = "agent.lock"


@contextmanager
def locked(path: Path, busy: NotReady) -> Iterator[None]:
    """Hold the lock on a file; the kernel drops it however the process dies.

    Raises:
        NotReady: ``busy``, if another process holds the lock.
    """
    with disk(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise busy from error
        yield
    finally:
        os.close(descriptor)


def only_one(state: Path) -> AbstractContextManager[None]:
    """Hold the state's lock, or raise `NotReady` if another daemon holds it."""
    busy = NotReady(
        f"an agent is already running over {state}",
        fix="use it (`sotto status`), or stop it first",
        subject="agent",
    )
    return locked(private_folder(state) / _FILE, busy)


def is_held(state: Path) -> bool:
    """Return whether a daemon runs over this state.

    If none runs, this check can make a daemon that starts at the same instant fail. So call it only
    where some server has answered already.
    """
    try:
        descriptor = os.open(state / _FILE, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


VERSION: Final = 12
"""SQLite's ``user_version``. Versions below 12 were never released."""

SCHEMA: Final = """
CREATE TABLE seal (mark BLOB NOT NULL);
CREATE TABLE ledger (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    spent REAL NOT NULL,
    releases INTEGER NOT NULL,
    label_epsilon REAL NOT NULL,
    labels_randomized INTEGER NOT NULL,
    labels_as_they_are INTEGER NOT NULL,
    adapters_private INTEGER NOT NULL,
    adapter_epsilon REAL NOT NULL,
    adapter_delta REAL NOT NULL,
    mac BLOB                           -- keyed hash of the row
);
INSERT INTO ledger VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, NULL);
CREATE TABLE accounts (
    day INTEGER NOT NULL,              -- since 1970
    name BLOB NOT NULL,                -- keyed hash of the account's name
    sealed BLOB NOT NULL,              -- the account's name
    spent REAL NOT NULL,
    releases INTEGER NOT NULL,
    PRIMARY KEY (day, name)
) WITHOUT ROWID;
CREATE TABLE apps (
    key BLOB PRIMARY KEY,              -- keyed hash of its token
    sealed BLOB NOT NULL,              -- its name, limits, and what it hides
    day INTEGER NOT NULL,              -- since 1970
    spent REAL NOT NULL                -- on that day
) WITHOUT ROWID;
CREATE TABLE words (                   -- the owner's lists; no row until one has a word
    id INTEGER PRIMARY KEY CHECK (id = 1),
    sealed BLOB NOT NULL
);
CREATE TABLE noise_key (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER NOT NULL,            -- how many keys there were, this one included
    sealed BLOB NOT NULL               -- 32 bytes
);
CREATE TABLE charged (                 -- what the ledger was charged for, oldest first
    number INTEGER PRIMARY KEY,
    digest BLOB UNIQUE NOT NULL        -- of settings, bundle and document, under the noise key
);
CREATE TABLE labelled (                -- examples whose labels were charged, oldest first
    number INTEGER PRIMARY KEY,
    key BLOB UNIQUE NOT NULL,          -- keyed hash of words, label and set of labels
    epsilon REAL NOT NULL              -- the largest; infinity where the label left as it is
);
CREATE TABLE customizations (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT UNIQUE NOT NULL,
    request BLOB UNIQUE NOT NULL,      -- keyed hash of the caller's request id
    finished INTEGER NOT NULL,
    sealed BLOB NOT NULL,              -- Customization
    job BLOB NOT NULL,                 -- CreateJobRequest, sealed
    labels BLOB
);
CREATE TABLE outbox (
    customization TEXT NOT NULL,
    example BLOB NOT NULL,             -- its id, drawn at random: the order in which they leave
    sequence INTEGER,                  -- NULL until all have come and are charged: then it is ready
    label BLOB NOT NULL,               -- the one that leaves; until it is ready, the true one
    sealed BLOB NOT NULL,              -- PrivatizedExample without its label
    digest BLOB NOT NULL,              -- as in charged; like the rest, only until it is ready
    charge REAL NOT NULL,
    labelled BLOB NOT NULL,            -- keyed hash of the document's words and the true label
    PRIMARY KEY (customization, example)
) WITHOUT ROWID;
CREATE UNIQUE INDEX outbox_by_sequence ON outbox (customization, sequence);
CREATE TABLE conversations (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the last used has the largest
    name BLOB UNIQUE NOT NULL,         -- keyed hash of what it is known by
    day INTEGER NOT NULL,              -- of its last use, since 1970
    sealed BLOB NOT NULL               -- what its surrogates stand for, and answers as they came
);
CREATE TABLE answers (
    digest BLOB PRIMARY KEY,           -- keyed hash of an answer as it was shown
    conversation BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE corrections (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the newest has the largest
    adapter BLOB NOT NULL,             -- keyed hash of the owner's name
    text BLOB UNIQUE NOT NULL,         -- keyed hash of adapter and text
    sealed BLOB NOT NULL,              -- LabelledText
    taken TEXT                         -- by the customisation of this id, until it ends
);
CREATE INDEX corrections_by_adapter ON corrections (adapter, number);
"""


DATABASE = "agent.db"
LEDGER_FIGURES = (
    *("spent", "releases", "label_epsilon", "labels_randomized", "labels_as_they_are"),
    *("adapters_private", "adapter_epsilon", "adapter_delta"),
)
LEDGER_ROW = f"SELECT {', '.join(LEDGER_FIGURES)}, mac FROM ledger"
"""Selects the ledger's single row."""
_WAIT_SECONDS = 15
_LOST = "is gone or empty, and its key is still there"
_NOT_TAKEN = tuple(
    f"SQLITE_IOERR_{what}" for what in ("WRITE", "SHMSIZE", "FSYNC", "DIR_FSYNC", "TRUNCATE")
)
"""SQLite's errors where a disk refuses a write and its content is intact.

Examples: no room for the log's index, or a quota, which SQLite cannot tell from a fault.
"""


class Store:
    """One SQLite connection (WAL, synchronous=FULL), used by one thread at a time.

    FULL costs one disk flush a release. Without it, a power cut could lose the record of a release
    that was already handed out. The same document would then get noise a second time.

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
        self._path = folder / DATABASE
        self._files = DatabaseFiles(self._path)
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
        """Open the state in `folder`, which is created with mode 0700 if missing.

        Args:
            key: the place of its key; None: a file in the folder.
            lost: called when the files in the folder are no longer those in use; should end the
                process.

        Raises:
            DataLoss: the database or its key is damaged or missing.
            ConfigError: the folder cannot be used, the database has another version, or its key
                lies in two places or in another one.
            NotReady: the key cannot be read from this process.
            QuotaExceeded: the disk is full.
        """
        private_folder(folder)
        path = folder / DATABASE
        if _begun(folder) and not (path.exists() and path.stat().st_size):
            raise _damaged(path, _LOST)  # before SQLite creates an empty one
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
        """Run a write transaction: committed and on disk after the block, or undone.

        Raises:
            QuotaExceeded: the disk is full. Unavailable: another process holds the database.
            DataLoss: the database is damaged, or its files were replaced.
        """
        with self._lock, _explained(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._check()  # here, because BEGIN may wait seconds for another process
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite rolls back by itself on a full disk
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT.

        Raises:
            DataLoss: the database is damaged, or its files were replaced.
        """
        with self._lock, _explained(self._path):
            self._check()
            return self._connection.execute(query, values).fetchall()

    def overwrite(self) -> None:
        """Fold the write-ahead log into the database, which erases replaced data.

        Raises:
            Unavailable: another process is reading. DataLoss: see `rows`.
        """
        with self._lock, _explained(self._path):
            self._check()
            (busy, *_) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise Unavailable(
                "what was replaced is still on disk, as another process is reading",
                fix="try again when it has finished",
            )

    def overwrite_if_possible(self) -> None:
        """Do the same if possible now; otherwise the next fold of the log does it."""
        with suppress(SottovoceError):
            self.overwrite()

    def close(self) -> None:
        """Fold the write-ahead log into the database and close the connection.

        Raises:
            DataLoss: the files were replaced. Then nothing is folded, and the connection stays
                open.
        """
        with self._lock, _explained(self._path):
            self._files.close(self._connection)

    def _check(self) -> None:
        try:
            self._files.check()
        except DataLoss:
            self._lost()
            raise


def noise_place(epoch: int) -> bytes:
    """Return the place for which the noise key of an epoch is sealed."""
    return f"noise key {epoch}".encode()


class NoiseKeys:
    """The secret key of the device's noise, and its rotation.

    Anyone with this key can remove the noise from everything that was released under it. So the
    owner must be able to destroy the key without losing the ledger. The key is random and not
    derived from the sealing key, so a rotation re-encrypts nothing.

    Under another key, every text gets new noise and is charged again, because the ledger's digests
    depend on the key. A rotation also deletes the notes on conversations, which say what surrogates
    stand for. The key is read for each use, because another process may have rotated it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def epoch(self) -> int:
        """The number of keys so far, including the one in use."""
        ((epoch,),) = self._store.rows("SELECT epoch FROM noise_key")
        return int(epoch)

    def current(self) -> Key:
        """Return the key in use."""
        from sottovoce.core.privacy.noise import Key  # imports NumPy, which most commands avoid

        ((epoch, sealed),) = self._store.rows("SELECT epoch, sealed FROM noise_key")
        return Key(self._store.seal.unseal(sealed, noise_place(epoch)))

    def rotate(self) -> int:
        """Overwrite the key with a new one, irreversibly; return the new epoch.

        Raises:
            Unavailable: the new key is in use, but the old one could not be overwritten everywhere
                yet. For other errors see `Store.transaction`.
        """
        with self._store.transaction() as transaction:
            (epoch,) = transaction.execute("SELECT epoch + 1 FROM noise_key").fetchone()
            sealed = self._store.seal.new_secret(noise_place(epoch))
            transaction.execute("UPDATE noise_key SET epoch = ?, sealed = ?", (epoch, sealed))
            for table in ("charged", "conversations", "answers"):
                transaction.execute(f"DELETE FROM {table}")
        self._store.overwrite()
        return int(epoch)


def _begun(folder: Path) -> bool:
    """Return whether a key file exists, which means that a state was begun."""
    return any((folder / half).exists() for half in HALVES)


def _prepare(connection: sqlite3.Connection, folder: Path, key: DeviceKey) -> Seal:
    path = folder / DATABASE
    _is_made(connection, path)  # before the next statements alter the file
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA cache_size = -128")  # KiB; each row is read once, by key
    connection.execute("BEGIN IMMEDIATE")
    if not _is_made(connection, path):
        if _begun(folder):
            raise _damaged(path, _LOST)
        # The key gets its final name, below, once a database knows it. So a process that is killed
        # at any moment leaves no state, or a whole one.
        _make(connection, key.begin(folder))
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
    seal = _seal_of(connection, folder, key)
    for table in ("ledger", "noise_key"):
        if connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone() != (1,):
            raise _damaged(path)
    ledger_figures(connection.execute(LEDGER_ROW), seal)
    connection.execute("COMMIT")
    return seal


def _is_made(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the database has its tables; False for a new file.

    The migration of a released version will be called where this function refuses it.
    """
    ((version,),) = connection.execute("PRAGMA user_version")
    if version > VERSION:
        raise ConfigError(
            f"{path} was written by a newer agent: it has version {version}, and this agent knows "
            f"version {VERSION}",
            fix="update sottovoce-edge, or set another agent.state",
            subject=str(path),
        )
    if version not in (0, VERSION):
        raise ConfigError(
            f"{path} has version {version}, which is older than the first release; this agent "
            f"needs version {VERSION}",
            fix=f"move the folder {path.parent} away to start afresh; {AFRESH}",
            subject=str(path),
        )
    return bool(version)


def _make(connection: sqlite3.Connection, seal: Seal) -> None:
    for statement in SCHEMA.split(";\n"):
        connection.execute(statement)
    connection.execute("INSERT INTO seal VALUES (?)", (seal.mark,))
    secret = seal.new_secret(noise_place(1))
    connection.execute("INSERT INTO noise_key VALUES (1, 1, ?)", (secret,))
    sign_ledger(connection, seal)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _seal_of(connection: sqlite3.Connection, folder: Path, key: DeviceKey) -> Seal:
    """Return the key of the database, and give the key's file its final name."""
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
    except UnicodeDecodeError as error:  # SQLite's message quotes damaged data
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


def sign_ledger(transaction: sqlite3.Connection, seal: Seal) -> None:
    """Write the keyed hash of the ledger's current figures.

    SQLite does not notice a flipped bit in a number, and the ledger would then show a wrong sum.
    The hash does not stop an attacker with the key, or the return of a whole older database.
    """
    for *row, _ in transaction.execute(LEDGER_ROW).fetchall():
        write_ledger(transaction, seal, row)


def write_ledger(transaction: sqlite3.Connection, seal: Seal, figures: Sequence[float]) -> None:
    """Write the ledger's figures, in the order of `LEDGER_FIGURES`, and their keyed hash."""
    transaction.execute(_WRITE_LEDGER, (*figures, _mac(seal, figures)))


_WRITE_LEDGER: Final = f"UPDATE ledger SET {' = ?, '.join(LEDGER_FIGURES)} = ?, mac = ?"


def ledger_figures(rows: Iterable[Sequence[Any]], seal: Seal) -> list[Any]:
    """Return the ledger's figures in the result of `LEDGER_ROW`."""
    for *row, mac in rows:
        if mac == _mac(seal, row):
            return row
    raise DataLoss(
        "the privacy ledger in the agent's database was altered",
        fix="bring the database and its key back from the same backup, or move their folder "
        f"away to start afresh; {AFRESH}",
        subject="ledger",
    )


def _mac(seal: Seal, row: Sequence[float]) -> bytes:
    return seal.name(b"ledger", *(repr(figure).encode() for figure in row))
