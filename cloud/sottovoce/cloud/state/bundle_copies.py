"""This machine's copies of published bundles: fetched once, then used as plain folders.

A bundle is mapped into memory while a process runs, so it lies on the machine's own disk. A copy is
complete or absent: files are collected in a separate folder, each is compared with the manifest,
and one rename publishes them. An interrupted fetch resumes where it stopped. A process that uses a
copy holds a lock until it ends, as in `fetched`. The copy of an unpublished bundle is removed once
no process uses it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sottovoce.cloud.state import bundles
from sottovoce.cloud.state.bundles import BundleState, PublishedBundle
from sottovoce.cloud.state.database import Database
from sottovoce.cloud.state.objects import Objects
from sottovoce.core.bundle.manifest import MANIFEST, Manifest, StoredFile, sha256
from sottovoce.core.bundle.signature import SIGNATURE
from sottovoce.core.errors import DataLoss, NotReady, QuotaExceeded
from sottovoce.core.platform.files import atomic, disk, sync_folder, sync_tree

__all__ = ["folders", "is_id"]

_HOME: Final = "fetched-bundles"
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
    bundles.shared(database)
    found = bundles.find(database, given)
    home = database.state / _HOME
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
        bundles.whole(folder, found.id)
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
    locks = {lock.stem: lock for lock in (database.state / _HOME).glob(f"*{_LOCK}")}
    if not locks:
        return
    there = {b.id for b in bundles.published(database) if b.state == BundleState.PUBLISHED}
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
