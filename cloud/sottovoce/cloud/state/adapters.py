"""The registry of adapters: which files a tenant's name stands for.

A name changes hands in the transaction that ends the job which trained its adapter, so that no
power cut parts the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

from sottovoce.cloud.state.database import Database, Transaction
from sottovoce.cloud.state.objects import Objects
from sottovoce.core.errors import DataLoss, NotFound

__all__ = [
    "AdapterFiles",
    "digest",
    "install",
    "locate",
    "stored",
    "uninstall",
    "versions",
    "with_files",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AdapterFiles:
    """An adapter's folder and the `digest` of what it holds; one that is trained anew under the
    same name is another object, so whoever keeps adapters can know them by this.

    Attributes:
        folder: on this machine; or, with ``objects``, what takes its place there.
        sha256: its `digest`.
        objects: where it is fetched from.
    """

    folder: Path
    sha256: str
    objects: Objects | None = field(default=None, compare=False, repr=False)

    def name(self, objects: Objects) -> str:
        """Under which they are kept there."""
        root = objects.place("")
        return (self.folder if root is None else self.folder.relative_to(root)).as_posix()

    @property
    def gone(self) -> bool:
        """Whether they are known not to be there; of what is fetched that is seen then."""
        return self.objects is None and not self.folder.exists()

    @classmethod
    def of(cls, folder: Path) -> Self:
        """What is in ``folder`` now."""
        return cls(folder, digest(folder))

    @contextmanager
    def opened(self) -> Iterator[Path]:
        """A folder of this machine with the files, for as long as the block.

        They are hashed wherever they lie: what says which label is which is in a file like others.

        Raises:
            Unavailable: the store they are fetched from cannot be reached.
            DataLoss: they are not there, or others.
        """
        if self.objects is None:
            yield self._whole(self.folder)
            return
        with self.objects.at(self.folder.as_posix()) as folder:
            yield self._whole(folder)

    def _whole(self, folder: Path) -> Path:
        """``folder``, if it holds what was kept."""
        with suppress(OSError):
            if digest(folder) == self.sha256:
                return folder
        raise DataLoss(
            "the adapter's files are damaged",
            fix="customise again under the same name",
            subject="adapter",
        )


def digest(folder: Path) -> str:
    """SHA-256 in hex over names and contents of the files in ``folder``."""
    held = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        with file.open("rb") as opened:
            held.update(hashlib.file_digest(opened, "sha256").digest())
        held.update(f" {file.name}\n".encode())
    return held.hexdigest()


def locate(database: Database, tenant: str, name: str) -> AdapterFiles:
    """The files behind a tenant's adapter name.

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
    """The adapter that is kept as ``name``."""
    folder = objects.place(name)
    return AdapterFiles(folder or Path(name), sha256, None if folder else objects)


def with_files(database: Database, tenant: str, name: str, use: Callable[[AdapterFiles], T]) -> T:
    """What ``use`` makes of the files behind a tenant's adapter name; of those that took their
    place if they go meanwhile.

    Raises:
        NotFound: the tenant has no such adapter. Unavailable: the objects are away.
        And what ``use`` raises.
    """
    located = locate(database, tenant, name)
    try:
        return use(located)
    except DataLoss:
        # Damaged, or deleted or trained anew since it was located?
        now = locate(database, tenant, name)
        if now == located:
            database.objects.reach()
            raise
        return use(now)


def versions(database: Database, tenant: str, names: Collection[str]) -> dict[str, str]:
    """The `digest` behind each of a tenant's adapter names; those that are not there are left
    out."""
    with database.read() as transaction:
        found = transaction.rows(
            "SELECT name, sha256 FROM adapters WHERE tenant = :tenant", tenant=tenant
        )
    return {row["name"]: row["sha256"] for row in found if row["name"] in names}


def install(
    transaction: Transaction, tenant: str, name: str, *, job: str, folder: str, sha256: str
) -> None:
    """Makes what ``job`` trained the tenant's adapter ``name``, in place of another.

    Args:
        folder: the name of its object.
        sha256: its `digest`.
    """
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
    """Takes the name away if it still stands for what ``job`` trained."""
    transaction.change("DELETE FROM adapters WHERE job = :job", job=job)
