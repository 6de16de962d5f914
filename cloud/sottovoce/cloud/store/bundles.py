"""Published bundles: files among the objects, and a row that holds the manifest.

A cloud of many machines cannot copy folders between them. The bundle decides what devices draw
from, and the manifest's hashes protect all other files. So the manifest lies in the row, not among
the objects. An attacker with write access to the objects can damage a bundle, but cannot replace it
unnoticed.

A bundle becomes available once all its files are stored. Each publication has a unique name among
the objects. An interrupted publication can be resumed, because the row holds this name.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database, Row, Transaction
from sottovoce.cloud.store.objects import Objects
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import MANIFEST, Manifest, StoredFile, sha256
from sottovoce.core.bundle.signature import SIGNATURE, Signature, show_key, signing_key
from sottovoce.core.errors import (
    ConfigError,
    DataLoss,
    InvalidInput,
    NotFound,
    NotReady,
    QuotaExceeded,
)
from sottovoce.core.platform.files import atomic, disk, sync_folder, sync_tree

_ID: Final = 16
"""Digits of the hash that form the bundle's id, see `core.bundle.manifest.bundle_id`."""
_HOME: Final = "bundles"
_NAME: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}")
"""Prefixes of object names, as `publish` draws them."""
_KEY: Final = 32
"""Bytes of the public key at the start of a signature, see `Signature.to_bytes`."""
Progress = Callable[[str, int, int], None]
"""Called with the file's name, the bytes stored so far, and the bytes of the whole bundle."""


class BundleState(StrEnum):
    """Whether a bundle's files are complete."""

    UPLOADING = "UPLOADING"
    PUBLISHED = "PUBLISHED"
    DELETING = "DELETING"


@dataclass(frozen=True, slots=True)
class PublishedBundle:
    """A published bundle's row.

    ``manifest`` holds the manifest's exact bytes, and is left out where the caller does not need
    them. The row also has their SHA-256. ``signature`` is as in `Signature.to_bytes`, or empty.
    ``name`` is the prefix of its objects' names. ``size`` counts the bytes of all files but the
    manifest. ``created`` is in seconds since 1970 by the database's clock.
    """

    sha256: str
    name: str
    state: BundleState
    signature: bytes
    backbone: str
    language: str
    size: int
    created: float
    manifest: bytes = b""

    @property
    def id(self) -> str:
        return self.sha256[:_ID]

    @property
    def signer(self) -> str:
        """The public key that signed the bundle, in readable form; "" if unsigned."""
        return show_key(self.signature[:_KEY]) if self.signature else ""


_BRIEF: Final = ", ".join(f.name for f in fields(PublishedBundle) if f.name != "manifest")


def publish(
    database: Database, folder: Path, progress: Progress = lambda name, done, total: None
) -> tuple[PublishedBundle, int]:
    """Publish the bundle in ``folder``, so that other machines can fetch it.

    Returns the published bundle and the number of bytes sent. Files already stored are not sent
    again.

    Raises:
        NotFound: the folder holds no bundle.
        DataLoss: it is damaged, or its signature does not fit.
        NotReady: it was deleted meanwhile.
        ConfigError: the objects are not shared between machines. Unavailable: they cannot be
            reached.
    """
    shared(database)
    manifest, signature = _checked(folder)
    files = {**manifest.files, **manifest.optional}
    done, sent, total = 0, 0, sum(stored.bytes for stored in files.values())
    row = _begun(database, manifest, (folder / MANIFEST).read_bytes(), signature, total)
    for path, stored in files.items():
        if database.objects.size(f"{row.name}/{path}") != stored.bytes:
            database.objects.put_file(folder / path, f"{row.name}/{path}")
            sent += stored.bytes
        done += stored.bytes
        progress(path, done, total)
    return _ended(database, row), sent


def published(database: Database) -> list[PublishedBundle]:
    """Return all published bundles, oldest first, including incomplete ones."""
    with database.read() as transaction:
        rows = transaction.rows(f"SELECT {_BRIEF} FROM bundles ORDER BY created, sha256")
    return [_of(row) for row in rows]


def find(database: Database, given: str) -> PublishedBundle:
    """Return the published bundle with that id or unique id prefix, with its manifest.

    Raises:
        NotFound: no complete bundle matches. InvalidInput: several bundles match.
    """
    found = _one(given, [b for b in published(database) if b.state == BundleState.PUBLISHED])
    with database.read() as transaction:
        row = transaction.row("SELECT * FROM bundles WHERE sha256 = :sha256", sha256=found.sha256)
    if row is None:
        raise _unknown(given)
    return _of(row)


def delete(database: Database, given: str) -> PublishedBundle:
    """Delete a complete or incomplete bundle. Machines that fetched it keep their copy.

    Raises:
        NotFound: no bundle matches. InvalidInput: the ids of several begin so.
        Unavailable: its files cannot be removed now; it can no longer be fetched, and can be
            deleted again.
    """
    shared(database)
    found = _one(given, published(database))
    with database.write() as transaction:
        _set_state(transaction, found, BundleState.DELETING)
        audit_log.record(transaction, "bundle deleted", "", found.id)
    _remove(database, found)
    return found


def sweep(database: Database) -> None:
    """Remove bundle files without a row, left by a process killed while publishing.

    Files with other names are left alone.
    """
    # A row is created before its files and deleted after them. Names are never reused.
    there = [f"{_HOME}/{each}" for each in database.objects.within(_HOME) if _NAME.fullmatch(each)]
    known = {bundle.name for bundle in published(database)}
    for name in there:
        if name not in known:
            database.objects.remove(name)


def shared(database: Database) -> None:
    """Check that other machines can reach the objects.

    Raises:
        ConfigError: this cloud keeps its objects in its own folder.
    """
    if database.objects.place("") == database.state:
        raise ConfigError(
            "published bundles need objects that all machines reach, and these are in --state",
            fix="give --objects, such as file:///srv/sotto-objects or s3://bucket/prefix, or the "
            "bundle's folder to --bundle",
            subject="objects",
        )


def whole(folder: Path, expected: str | None = None) -> Manifest:
    """Check every file of a bundle, including optional ones, and return its manifest.

    Raises:
        NotReady, DataLoss, BundleMismatch: see `Bundle.open`.
    """
    manifest = Bundle.open(folder, expected=expected).manifest
    for path, stored in manifest.optional.items():
        if not (folder / path).is_file() or sha256(folder / path) != stored.sha256:
            raise DataLoss(f"bundle file {path} is missing or was altered", subject=path)
    return manifest


def _checked(folder: Path) -> tuple[Manifest, Signature | None]:
    """Return the folder's manifest and signature, after checking all files."""
    if not (folder / MANIFEST).is_file():
        raise NotFound(
            f"no bundle at {folder}",
            fix="give the folder that `sotto-cloud build-bundle` wrote",
            subject="bundle",
        )
    try:
        manifest = whole(folder)
        signature = Signature.read(folder)
        if signature is not None:
            signature.check((folder / MANIFEST).read_bytes())
    except DataLoss as error:
        raise DataLoss(
            error.problem,
            fix="build it again with `sotto-cloud build-bundle`, or copy it again from where it is "
            "whole",
            subject=error.subject,
        ) from error
    return manifest, signature


def _begun(
    database: Database, manifest: Manifest, data: bytes, signature: Signature | None, size: int
) -> PublishedBundle:
    """Return the row to complete, which may be new or of another publication."""
    digest = hashlib.sha256(data).hexdigest()
    while True:
        with database.write() as transaction:
            transaction.change(
                "INSERT INTO bundles (sha256, name, state, manifest, signature, backbone, "
                "language, size, created) VALUES (:sha256, :name, :state, :manifest, :signature, "
                ":backbone, :language, :size, :now) ON CONFLICT (sha256) DO NOTHING",
                sha256=digest,
                name=f"{_HOME}/{digest[:_ID]}-{secrets.token_hex(4)}",
                state=BundleState.UPLOADING.value,
                manifest=data,
                signature=b"",
                backbone=manifest.backbone.name,
                language=manifest.language,
                size=size,
                now=transaction.now(),
            )
            if signature is not None:  # a signature may be made or replaced after the bundle
                transaction.change(
                    "UPDATE bundles SET signature = :signature WHERE sha256 = :sha256",
                    signature=signature.to_bytes(),
                    sha256=digest,
                )
            row = _locked(transaction, "sha256", digest)
        if row is not None and row.state != BundleState.DELETING:
            return row
        if row is not None:
            _remove(database, row)


def _ended(database: Database, bundle: PublishedBundle) -> PublishedBundle:
    with database.write() as transaction:
        row = _locked(transaction, "name", bundle.name)
        if row is not None and row.state == BundleState.UPLOADING:
            _set_state(transaction, row, BundleState.PUBLISHED)
            audit_log.record(transaction, "bundle published", "", row.id)
    if row is None or row.state == BundleState.DELETING:
        database.objects.remove(bundle.name)  # removes files stored after the deletion listed them
        raise NotReady(
            "the bundle was deleted while it was published",
            fix="publish it again if it is to be there",
            subject="bundle",
        )
    return replace(row, state=BundleState.PUBLISHED)


def _remove(database: Database, bundle: PublishedBundle) -> None:
    """Remove the files, then the row, because the row records the files' name."""
    database.objects.remove(bundle.name)
    with database.write() as transaction:
        transaction.change("DELETE FROM bundles WHERE name = :name", name=bundle.name)


def _locked(transaction: Transaction, column: str, value: str) -> PublishedBundle | None:
    row = transaction.lock(f"SELECT {_BRIEF} FROM bundles WHERE {column} = :value", value=value)
    return None if row is None else _of(row)


def _set_state(transaction: Transaction, bundle: PublishedBundle, state: BundleState) -> None:
    transaction.change(
        "UPDATE bundles SET state = :state WHERE name = :name", state=state.value, name=bundle.name
    )


def _one(given: str, among: list[PublishedBundle]) -> PublishedBundle:
    found = [bundle for bundle in among if given and bundle.sha256.startswith(given)]
    if not found:
        raise _unknown(given)
    if len(found) > 1:
        raise InvalidInput(
            f"several published bundles begin with {given}",
            fix=f"write more of it: {', '.join(bundle.id for bundle in found)}",
            subject="bundle",
        )
    return found[0]


def _unknown(given: str) -> NotFound:
    return NotFound(
        f"no bundle is published as {given}",
        fix="publish its folder with `sotto-cloud bundles publish FOLDER`, or see `sotto-cloud "
        "bundles list` for those there are",
        subject="bundle",
    )


def _of(row: Row) -> PublishedBundle:
    return PublishedBundle(**{**row, "state": BundleState(row["state"])})


_COPIES: Final = "fetched-bundles"
"""Inside the folder of the machine's files."""
_LOCK: Final = ".lock"
_used: Final[list[int]] = []
"""Locks held until this process ends, because it may need the files until then."""
_log = logging.getLogger(__name__)


def is_id(given: Path) -> bool:
    """Return whether the path is the start of a bundle id, and not an existing folder."""
    text = str(given)
    return 4 <= len(text) <= 64 and not set(text) - set("0123456789abcdef") and not given.is_dir()


def folders(database: Database, given: Sequence[Path]) -> tuple[Path, ...]:
    """Return the bundles' local folders; fetch those given by id if needed.

    Raises:
        ConfigError: the objects are not shared between machines.
        NotFound, InvalidInput: see `bundles.find`.
        DataLoss: a file among the objects is damaged or missing.
        QuotaExceeded: the disk is full. Unavailable: the objects cannot be reached. In both cases,
            files fetched so far stay.
    """
    _clear(database)
    return tuple(_copy(database, str(each)) if is_id(each) else each for each in given)


def _copy(database: Database, given: str) -> Path:
    shared(database)
    found = find(database, given)
    home = database.state / _COPIES
    folder = home / found.id
    with disk(home):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        _used.append(_lock(home / f"{found.id}{_LOCK}", fcntl.LOCK_SH))
        with _alone(home):
            if not _sound(folder, found):
                _fetch(database.objects, found, folder)
            _sign(folder, found.signature)
    return folder


def _sound(folder: Path, found: PublishedBundle) -> bool:
    if not folder.is_dir():
        return False
    try:
        whole(folder, found.id)
    except (DataLoss, NotReady) as error:  # NotReady: the manifest is missing
        _log.warning("the copy of bundle %s is mended: %s", found.id, error.problem)
        return False
    return True


def _fetch(objects: Objects, found: PublishedBundle, folder: Path) -> None:
    """Fetch the whole bundle into ``folder``; the caller holds the lock."""
    manifest = Manifest.from_json(found.manifest)
    files = {**manifest.files, **manifest.optional}
    partial = _partial(folder)
    if folder.is_dir():  # a damaged copy; its good files are kept
        shutil.rmtree(partial, ignore_errors=True)
        folder.rename(partial)
    partial.mkdir(exist_ok=True, mode=0o700)
    _log.info("bundle %s is fetched, %.1f MB", found.id, found.size / 1e6)
    _make_room(partial, sum(stored.bytes for stored in files.values()))
    for path, stored in files.items():
        _complete(objects, f"{found.name}/{path}", partial / path, stored, found.id)
    (partial / MANIFEST).write_bytes(found.manifest)
    sync_tree(partial)
    partial.rename(folder)
    sync_folder(folder.parent)


def _complete(objects: Objects, name: str, file: Path, stored: StoredFile, identity: str) -> None:
    """Fetch the rest of a file, and verify it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    while True:
        begun = file.stat().st_size if file.exists() else 0
        with file.open("ab") as out:
            if begun < stored.bytes:
                for piece in objects.pieces(name, begun):
                    out.write(piece)
                    if out.tell() > stored.bytes:  # so that a wrong object cannot fill the disk
                        break
        if file.stat().st_size == stored.bytes and sha256(file) == stored.sha256:
            return
        file.unlink()
        if not begun:
            raise DataLoss(
                f"what the cloud keeps as {name} is damaged or gone",
                fix=f"`sotto-cloud bundles delete {identity}`, then publish its folder again",
                subject="objects",
            )


def _make_room(partial: Path, size: int) -> None:
    """Refuse a fetch that would fill the disk."""
    have = sum(file.stat().st_size for file in partial.rglob("*") if file.is_file())
    free = shutil.disk_usage(partial).free
    if size - have > free:
        raise QuotaExceeded(
            f"the bundle needs {(size - have) / 1e6:.1f} MB more, {free / 1e6:.1f} MB are free at "
            f"{partial.parent}",
            fix="free some space, or set --state to a larger disk; it then goes on",
            subject="disk",
        )


def _sign(folder: Path, signature: bytes) -> None:
    """Write the row's signature, because a signature may be made later than the bundle."""
    file = folder / SIGNATURE
    if not signature:
        file.unlink(missing_ok=True)
    elif not file.is_file() or file.read_bytes() != signature:
        with atomic(file) as out:
            out.write(signature)


def _clear(database: Database) -> None:
    """Remove unused copies of bundles that are no longer published."""
    locks = {lock.stem: lock for lock in (database.state / _COPIES).glob(f"*{_LOCK}")}
    if not locks:
        return
    there = {b.id for b in published(database) if b.state == BundleState.PUBLISHED}
    for identity in locks.keys() - there:
        with suppress(OSError):
            held = _lock(locks[identity], fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder = locks[identity].with_suffix("")
            for each in (folder, _partial(folder)):
                shutil.rmtree(each, ignore_errors=True)
            os.close(held)


def _partial(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.partial")


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Hold this machine's lock for the block; waits for other processes."""
    held = _lock(home / "fetching", fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(held)


def _lock(file: Path, how: int) -> int:
    """Lock a file, which then stays; a share (NFS) locks only files opened for writing."""
    held = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, how)
    except BaseException:
        os.close(held)
        raise
    return held


def signature_of(bundle: Bundle, file: Path) -> Signature:
    """Return the signature beside the manifest, or sign with the key in ``file``.

    Raises:
        DataLoss: the signature there does not fit. ConfigError: see `signing_key`.
    """
    manifest = (bundle.folder / MANIFEST).read_bytes()
    found = Signature.read(bundle.folder)
    if found is None:
        return Signature.make(manifest, signing_key(file))
    found.check(manifest)
    return found
