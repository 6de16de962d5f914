"""The registry of adapters: the files behind each adapter name of a tenant.

A name moves to new files in the transaction that ends the training job. So a power cut cannot leave
the job ended and the name unchanged, or the reverse.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

from sottovoce.cloud.store.database import Database, Transaction
from sottovoce.cloud.store.objects import Objects
from sottovoce.core.errors import DataLoss, NotFound

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AdapterFiles:
    """An adapter's folder, and the `digest` of its contents.

    A retrained adapter under the same name is a different object, so this object can be a cache
    key.

    With ``objects``, the store to fetch it from, ``folder`` is a placeholder path.
    """

    folder: Path
    sha256: str
    objects: Objects | None = field(default=None, compare=False, repr=False)

    def name(self, objects: Objects) -> str:
        """Return the adapter's name in the store."""
        root = objects.place("")
        return (self.folder if root is None else self.folder.relative_to(root)).as_posix()

    @property
    def gone(self) -> bool:
        """Return whether the local files are missing; for fetched files, fetching shows this."""
        return self.objects is None and not self.folder.exists()

    @classmethod
    def of(cls, folder: Path) -> Self:
        return cls(folder, digest(folder))

    @contextmanager
    def opened(self) -> Iterator[Path]:
        """Yield a local folder with the files, for the duration of the block.

        The files are always hashed, because one of them maps outputs to labels.

        Raises:
            Unavailable: their store cannot be reached.
            DataLoss: they are missing, or differ from those stored.
        """
        if self.objects is None:
            yield self._whole(self.folder)
            return
        with self.objects.at(self.folder.as_posix()) as folder:
            yield self._whole(folder)

    def _whole(self, folder: Path) -> Path:
        """Return ``folder`` if its contents match the digest."""
        with suppress(OSError):
            if digest(folder) == self.sha256:
                return folder
        raise damaged()


def damaged() -> DataLoss:
    """Return the error for an adapter with missing or altered files."""
    return DataLoss(
        "the adapter's files are damaged",
        fix="customise again under the same name",
        subject="adapter",
    )


def digest(folder: Path) -> str:
    """Return SHA-256 in hex over names and contents of the files in ``folder``."""
    held = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        with file.open("rb") as opened:
            held.update(hashlib.file_digest(opened, "sha256").digest())
        held.update(f" {file.name}\n".encode())
    return held.hexdigest()


def locate(database: Database, tenant: str, name: str) -> AdapterFiles:
    """Return the files behind a tenant's adapter name.

    Raises:
        NotFound: the tenant has no such adapter.
    """
    with database.read() as transaction:
        found = transaction.row(
            "SELECT folder, sha256 FROM adapters WHERE tenant = :tenant AND name = :name",
            tenant=tenant,
            name=name,
        )
    if found is None:
        raise NotFound(
            "no such adapter for this tenant",
            fix="train one with `sotto customize NAME`, or see `sotto list` for those there are",
            subject="adapter",
        )
    return stored(database.objects, found["folder"], found["sha256"])


def stored(objects: Objects, name: str, sha256: str) -> AdapterFiles:
    folder = objects.place(name)
    return AdapterFiles(folder or Path(name), sha256, None if folder else objects)


def with_files(database: Database, tenant: str, name: str, use: Callable[[AdapterFiles], T]) -> T:
    """Call ``use`` on the files behind a tenant's adapter name, and return its result.

    If the files are replaced meanwhile, call it again on the new ones.

    Raises:
        NotFound: the tenant has no such adapter. Unavailable: the objects cannot be reached.
        Errors of ``use`` pass through.
    """
    located = locate(database, tenant, name)
    try:
        return use(located)
    except DataLoss:
        # Damaged, or deleted or retrained since it was located?
        now = locate(database, tenant, name)
        if now == located:
            database.objects.reach()
            raise
        return use(now)


def versions(database: Database, tenant: str, names: Collection[str]) -> dict[str, str]:
    """Return each adapter name's `digest`, leaving out missing names."""
    with database.read() as transaction:
        found = transaction.rows(
            "SELECT name, sha256 FROM adapters WHERE tenant = :tenant", tenant=tenant
        )
    return {row["name"]: row["sha256"] for row in found if row["name"] in names}


def install(
    transaction: Transaction, tenant: str, name: str, *, job: str, folder: str, sha256: str
) -> None:
    """Install the result of ``job`` as the tenant's adapter ``name``."""
    transaction.change(
        "INSERT INTO adapters (tenant, name, job, folder, sha256, created) "
        "VALUES (:tenant, :name, :job, :folder, :sha256, :now) "
        "ON CONFLICT (tenant, name) DO UPDATE SET job = excluded.job, folder = excluded.folder, "
        "sha256 = excluded.sha256, created = excluded.created",
        tenant=tenant,
        name=name,
        job=job,
        folder=folder,
        sha256=sha256,
        now=transaction.now(),
    )


def uninstall(transaction: Transaction, job: str) -> None:
    """Remove the name if it still stands for the adapter that ``job`` trained."""
    transaction.change("DELETE FROM adapters WHERE job = :job", job=job)
