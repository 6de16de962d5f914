"""The provider's keys that encrypt examples.

Each job's examples have a key; destroying the key deletes the examples.

Deleted rows survive in a server's pages and log, in replicas and in backups, for an unknown time.
So examples are encrypted before the database sees them, under a separate key for each job. Deleting
a job destroys its key. The key must lie where deletion is real. With a database server, keys lie
among the objects. A SQLite file overwrites deleted data, so it keeps them in rows. Either way the
provider's master key encrypts each job key. So neither the database nor the objects alone reveal
anything.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sottovoce.cloud.store.objects import Objects, one_by_one
from sottovoce.core.errors import ConfigError, DataLoss, QuotaExceeded, Unavailable
from sottovoce.core.platform.files import atomic, disk, read_secret, sweep
from sottovoce.core.rpc.streams import padded_size

if TYPE_CHECKING:
    from sottovoce.cloud.store.database import Database, Transaction

MASTER_KEY: Final = "master.key"
"""The master key's file in the state's folder."""
_BYTES: Final = 32
_NONCE: Final = 12
_KNOWN: Final = 256
"""Cached keys of jobs, where each has to be fetched."""

_log = logging.getLogger(__name__)


class Cipher:
    """AES-256-GCM under one key; ciphertexts are padded to a few sizes."""

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(key)

    def seal(self, values: Sequence[Any], place: str) -> bytes:
        """Encrypt JSON values, bound to one place."""
        data = json.dumps(values, ensure_ascii=False).encode()
        data += bytes(padded_size(len(data)) - len(data))
        return self.seal_bytes(data, place)

    def unseal(self, sealed: bytes, place: str) -> list[Any]:
        """Decrypt values sealed for this place, by this key; anything else is `DataLoss`."""
        values: list[Any] = json.loads(self.unseal_bytes(sealed, place).rstrip(b"\0"))
        return values

    def seal_bytes(self, data: bytes, place: str) -> bytes:
        """Encrypt bytes for one place, without padding."""
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._aead.encrypt(nonce, data, place.encode())

    def unseal_bytes(self, sealed: bytes, place: str) -> bytes:
        try:
            return self._aead.decrypt(sealed[:_NONCE], sealed[_NONCE:], place.encode())
        except (InvalidTag, ValueError) as error:
            raise DataLoss(
                "what the cloud holds of the examples is damaged",
                fix="customise again; the provider may have brought back half a backup",
                subject="examples",
            ) from error


class Keys:
    """The keys of the jobs in one database.

    Args:
        file: the master key's file, which is made with the first job.
        objects: where keys lie; None: in rows of the database.
    """

    def __init__(self, file: Path, objects: Objects | None = None) -> None:
        self._file = file
        self._objects = objects
        self._master: Cipher | None = None
        self._known: OrderedDict[str, Cipher] = OrderedDict()

    def check(self, database: Database) -> None:
        """Check at start that this process can decrypt the database's examples.

        Raises:
            ConfigError: other processes encrypted with a different master key.
        """
        sweep(self._file.parent, escape(self._file.name))
        with database.read() as transaction:
            if transaction.row("SELECT 1 FROM master") is not None:
                self._opened(transaction)

    def fetch(self, database: Database, job: str, *, make: bool = False) -> None:
        """Fetch a job's key before the transaction that needs it.

        Fetching a key from the objects may take a minute. A database server ends stalled
        transactions, and other transactions wait for their locks.

        Args:
            make: create a missing key, for a job that may still receive examples.

        Raises:
            DataLoss: it is damaged. Unavailable: see `make`.
        """
        if self._objects is None or job in self._known:
            return
        with database.read() as transaction:
            row = transaction.row("SELECT ended FROM keys WHERE job = :job", job=job)
        if row["ended"] if row is not None else not make:
            return
        with database.write() if make else database.read() as transaction:
            wrapping = self._wrapping(transaction, make=make)
        if row is None:
            self._put(self._objects, wrapping, job)
        elif (wrapped := self._objects.secret(job)) is not None:
            self._remember(job, wrapping.unseal_bytes(wrapped, job))

    def make(self, transaction: Transaction, job: str) -> Cipher:
        """Return a job's key, created if the job has none; see `fetch`.

        Raises:
            Unavailable: it cannot be stored now, or the master key is missing; see `check`.
        """
        if transaction.row("SELECT 1 FROM keys WHERE job = :job", job=job) is not None:
            return self.of(transaction, job)
        wrapped = b""
        if (cipher := self._known.get(job)) is None:
            wrapping = self._wrapping(transaction, make=True)
            if self._objects is not None:
                cipher = self._put(self._objects, wrapping, job)
            else:
                key = secrets.token_bytes(_BYTES)
                cipher, wrapped = Cipher(key), wrapping.seal_bytes(key, job)
        transaction.change(
            "INSERT INTO keys (job, wrapped) VALUES (:job, :wrapped)", job=job, wrapped=wrapped
        )
        return cipher

    def of(self, transaction: Transaction, job: str) -> Cipher:
        """Return the key of a job that has examples; see `fetch`.

        Raises:
            DataLoss: it is gone. Unavailable: see `make`.
        """
        row = transaction.row("SELECT wrapped FROM keys WHERE job = :job AND ended = 0", job=job)
        if row is None:
            raise _gone()
        if (known := self._known.get(job)) is not None:
            return known
        wrapped = row["wrapped"] if self._objects is None else self._objects.secret(job)
        if wrapped is None:
            raise _gone()
        key = self._wrapping(transaction).unseal_bytes(bytes(wrapped), job)
        return Cipher(key) if self._objects is None else self._remember(job, key)

    def destroy(self, database: Database) -> None:
        """Destroy the keys of ended jobs, if keys lie among the objects.

        A failed removal is repeated at the next call, by any process.
        """
        if (objects := self._objects) is None:
            return
        with database.read() as transaction:
            ended = [r["job"] for r in transaction.rows("SELECT job FROM keys WHERE ended = 1")]
        for job in ended:
            self._known.pop(job, None)

        def destroy(job: str) -> None:
            objects.destroy_secret(job)
            with database.write() as transaction:
                transaction.change("DELETE FROM keys WHERE job = :job AND ended = 1", job=job)

        one_by_one(objects, ((job, partial(destroy, job)) for job in ended))

    def _put(self, objects: Objects, wrapping: Cipher, job: str) -> Cipher:
        """Store a new key among the objects, or return the key that another process stored.

        The other process may have stalled or died before it wrote the row.
        """
        wrapped = wrapping.seal_bytes(secrets.token_bytes(_BYTES), job)
        return self._remember(job, wrapping.unseal_bytes(objects.put_secret(job, wrapped), job))

    def _remember(self, job: str, key: bytes) -> Cipher:
        cipher = self._known[job] = Cipher(key)
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return cipher

    def _wrapping(self, transaction: Transaction, *, make: bool = False) -> Cipher:
        if self._master is not None:
            return self._master
        try:
            if make and transaction.change(
                "INSERT INTO master (one, mark) VALUES (1, :none) ON CONFLICT (one) DO NOTHING",
                none=b"",
            ):
                return self._first(transaction)
            self._master = self._opened(transaction)
        except (ConfigError, QuotaExceeded) as error:  # for the provider to fix
            _log.error("%s", error)
            raise Unavailable(
                "the cloud cannot open its examples now", fix="send the same message again later"
            ) from error
        return self._master

    def _first(self, transaction: Transaction) -> Cipher:
        """Record the master key's mark, and create the key if needed.

        Other processes wait for the row, so only one creates a key. The key is cached after the
        commit.
        """
        with disk(self._file):
            there = self._file.exists()
        if not there:
            with atomic(self._file, once=True) as out:
                out.write(secrets.token_bytes(_BYTES))
        secret = self._read()
        transaction.change("UPDATE master SET mark = :mark", mark=_mark(secret))
        return _cipher(secret)

    def _opened(self, transaction: Transaction) -> Cipher:
        secret, row = self._read(), transaction.row("SELECT mark FROM master")
        if row is None or not hmac.compare_digest(bytes(row["mark"]), _mark(secret)):
            raise self._unusable("is not the one that this database's examples are sealed with")
        return _cipher(secret)

    def _read(self) -> bytes:
        try:
            secret = read_secret(self._file, subject="key_file")
        except OSError as error:
            raise self._unusable("cannot be read") from error
        if len(secret) != _BYTES:
            raise self._unusable("is no key")
        return secret

    def _unusable(self, what: str) -> ConfigError:
        return ConfigError(
            f"the master key {self._file} {what}",
            fix="bring the file back, or name the one that the first machine made, master.key in "
            "its --state, with --key-file",
            subject="key_file",
        )


def _mark(secret: bytes) -> bytes:
    """Return a value that identifies the key and reveals nothing else about it."""
    return hmac.digest(secret, b"sottovoce master key v1 mark", hashlib.sha256)


def _cipher(secret: bytes) -> Cipher:
    return Cipher(hmac.digest(secret, b"sottovoce master key v1", hashlib.sha256))


def _gone() -> DataLoss:
    return DataLoss(
        "the key of the job's examples is gone", fix="customise again", subject="examples"
    )
