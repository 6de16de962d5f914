"""Storage for adapters, checkpoints and bundles: files under names that are used once.

One machine keeps objects in a folder; several machines use a shared store. Every object is written
under a new name, and has no effect until a database row names it. So no object changes in place,
and a process that dies midway leaves only unused files.

A missing object may mean that the whole store is away: an unmounted disk leaves an empty folder. So
the store holds an id, which is checked before a missing object is believed.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Final

from sottovoce.core.errors import ConfigError, Unavailable
from sottovoce.core.platform.files import full_disk_is_unavailable, in_place_of, sync_folder

OBJECTS_ID: Final = "objects.id"
"""The name of the id."""
KEYS: Final = "keys"
"""The folder of the jobs' keys, each under its job's id."""


class Objects(ABC):
    """Flat folders of files by name, for example ``jobs/4f2a/1/adapter``.

    Single files are supported too, because large files should not be fetched anew for each read.

    All methods but `place` raise Unavailable if the store cannot be reached, is not the one that
    was bound, or is full. The text form of the object is the store's location.
    """

    failures: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """The errors that mean the store cannot be reached."""
    fix: ClassVar[str]
    """The advice to give in that case."""

    def __init__(self) -> None:
        self._owner = b""

    def bind(self, owner: str, *, take: bool = False) -> str:
        """Bind these objects to one database, so that no other store can replace them.

        Args:
            owner: the database's id, or the complete id of these objects.

        Returns:
            Their id: the database's id, and a part that distinguishes them from other stores.

        Raises:
            ConfigError: they belong to another database, or lack a needed feature.
        """
        with self._asked():
            found = self._read(OBJECTS_ID)
            free = take and found is None
            if free or _is(found, owner):
                self._check()
            if free:
                self._put_once(OBJECTS_ID, f"{owner}.{secrets.token_hex(8)}".encode())
                found = self._read(OBJECTS_ID)
        if found is None or not _is(found, owner):
            raise self._strangers(taken=take)
        self._owner = found
        return found.decode(errors="replace")

    def leave(self) -> None:
        """Remove the binding to the database; another process may have removed it already."""
        with self._asked():
            if self._read(OBJECTS_ID) == self._owner:
                self._destroy(OBJECTS_ID)

    def reach(self) -> None:
        """Raise Unavailable if the store cannot be reached."""
        with self._reached():
            pass

    @abstractmethod
    def place(self, name: str) -> Path | None:
        """Return the object's local path; None if `at` has to fetch it."""

    @abstractmethod
    def put(self, source: Path, name: str) -> None:
        """Store the files of the folder ``source`` durably under a new name; ``source`` stays."""

    @abstractmethod
    def at(self, name: str) -> AbstractContextManager[Path]:
        """Yield a read-only folder with the object's files; empty if the object is missing.

        Raises:
            DataLoss: the files are known to differ from those stored.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove all objects below ``name/``, if any.

        Also raises Unavailable if something is left.
        """

    @abstractmethod
    def within(self, name: str) -> list[str]:
        """List the next path components below ``name/``."""

    @abstractmethod
    def put_file(self, source: Path, name: str) -> None:
        """Store a file durably; ``source`` stays.

        A name always stands for the same content, so concurrent calls do not disturb each other.
        """

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Return the size of a file from `put_file` in bytes; None while it is incomplete."""

    @abstractmethod
    def pieces(self, name: str, offset: int) -> Iterator[bytes]:
        """Yield a file's bytes from the offset; nothing if it is missing.

        The reader checks the content.
        """

    def put_secret(self, job: str, secret: bytes) -> bytes:
        """Store a job's secret until it is destroyed, and return the stored secret.

        If several were stored, the first one counts.
        """
        with self._reached():
            self._put_once(f"{KEYS}/{job}", secret)
            kept = self._read(f"{KEYS}/{job}")
        if kept is None:
            raise self._away("a key went while it was put")
        return kept

    def secret(self, job: str) -> bytes | None:
        """Return the job's secret; None if it was never stored, or is destroyed."""
        with self._reached():
            return self._read(f"{KEYS}/{job}")

    def destroy_secret(self, job: str) -> None:
        """Destroy a secret as thoroughly as the store can; it may be missing."""
        with self._reached():
            self._destroy(f"{KEYS}/{job}")

    def secrets(self) -> list[tuple[str, str]]:
        """List secrets, even half-written ones: jobs, and the argument for `destroy_secret`."""
        return [(name.removeprefix(".").partition(".")[0], name) for name in self.within(KEYS)]

    @abstractmethod
    def _read(self, name: str) -> bytes | None:
        """Return the bytes under a name; None if it is missing."""

    @abstractmethod
    def _put_once(self, name: str, data: bytes) -> None:
        """Store bytes under a name that does not exist yet."""

    @abstractmethod
    def _destroy(self, name: str) -> None:
        """Delete the bytes under a name as thoroughly as the store can."""

    @abstractmethod
    def _check(self) -> None:
        """Raise ConfigError if the store lacks a needed feature."""

    def _said(self, error: Exception) -> str:
        """Describe a failure, without names of keys or accounts."""
        return getattr(error, "strerror", "") or "no answer"

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Translate failures of any access to the store."""
        try:
            with full_disk_is_unavailable():
                yield
        except self.failures as error:
            # Not chained: a store's message may name keys and accounts.
            raise self._away(self._said(error)) from None

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Translate failures, and check the id of the store.

        Another folder may lie below a mount point, and a bucket may be recreated or belong to
        another database.
        """
        with self._asked():
            if self._owner and self._read(OBJECTS_ID) != self._owner:
                raise self._away("their objects.id is not there")
            yield

    def _away(self, how: str) -> Unavailable:
        return Unavailable(f"the cloud cannot reach its objects: {how}", fix=self.fix)

    def _strangers(self, *, taken: bool) -> ConfigError:
        return ConfigError(
            f"the objects in {self} are another database's"
            if taken
            else "this is not where the cloud's checkpoints and adapters lie",
            fix="give the --store or --state of that one, or another --objects; or remove "
            f"{OBJECTS_ID} there if no other cloud uses them"
            if taken
            else "give the --objects that its other processes have, or none if they have none "
            "and share --state",
            subject="objects",
        )


def _is(found: bytes | None, owner: str) -> bool:
    return found is not None and f"{found.decode(errors='replace')}.".startswith(f"{owner}.")


_PIECE: Final = 1 << 20
_log = logging.getLogger(__name__)


class FileObjects(Objects):
    """Objects in a local or shared folder; half-written files go with their job or bundle."""

    fix = "ask the provider to mend or mount the folder of --objects; it then goes on"

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def __str__(self) -> str:
        return str(self.root)

    def place(self, name: str) -> Path:
        return self.root / name

    def put(self, source: Path, name: str) -> None:
        """See `Objects.put`. Files on the same disk are linked, not copied."""
        target = self.root / name
        with self._reached():
            _make(target.parent, self.root)
            with in_place_of(target, alone=False) as aside:
                copy_files(source, aside)
                shutil.rmtree(target, ignore_errors=True)  # left by an earlier attempt

    @contextmanager
    def at(self, name: str) -> Iterator[Path]:
        self.within(name)
        try:
            yield self.root / name
        except OSError:  # from the folder, or from the caller's block?
            self.reach()
            raise

    def remove(self, name: str) -> None:
        with self._reached():
            shutil.rmtree(self.root / name, ignore_errors=True)
            with suppress(FileNotFoundError):
                (self.root / name).lstat()
                raise Unavailable(
                    "files of the cloud cannot be removed",
                    fix="mend the owner or mode of their folder",
                )

    def within(self, name: str) -> list[str]:
        with self._reached(), suppress(FileNotFoundError):
            return sorted(os.listdir(self.root / name))
        return []

    def put_file(self, source: Path, name: str) -> None:
        with self._reached():
            _make((self.root / name).parent, self.root)
            with in_place_of(self.root / name, alone=False) as aside:
                shutil.copyfile(source, aside)

    def size(self, name: str) -> int | None:
        with self._reached(), suppress(FileNotFoundError):
            return (self.root / name).stat().st_size
        return None

    def pieces(self, name: str, offset: int) -> Iterator[bytes]:
        with self._reached(), suppress(FileNotFoundError), (self.root / name).open("rb") as file:
            file.seek(offset)
            while data := file.read(_PIECE):
                yield data

    def _read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return (self.root / name).read_bytes()
        return None

    def _destroy(self, name: str) -> None:
        """Overwrite the file in place before removing its name."""
        file = self.root / name
        with suppress(FileNotFoundError):
            with file.open("r+b") as opened:
                opened.write(bytes(os.fstat(opened.fileno()).st_size))
                opened.flush()
                os.fsync(opened.fileno())
            file.unlink()
            sync_folder(file.parent)

    def _check(self) -> None:
        """Check for hard links, which the id needs."""

    def _put_once(self, name: str, data: bytes) -> None:
        file = self.root / name
        _make(file.parent, self.root)
        with in_place_of(file, once=True, alone=False) as aside:
            aside.touch(mode=0o666 if name == OBJECTS_ID else 0o600)
            aside.write_bytes(data)


def _make(folder: Path, root: Path) -> None:
    """Create a folder and its parents so that they survive a power cut."""
    if not folder.is_dir():
        if folder != root:
            _make(folder.parent, root)
        folder.mkdir(exist_ok=True, mode=0o700)
        sync_folder(folder.parent)


def copy_files(source: Path, to: Path) -> None:
    """Create a folder with another folder's files, linked where possible.

    Training replaces files and never changes them in place, so two names may share one file.
    """
    to.mkdir()
    for file in source.iterdir():
        try:
            os.link(file, to / file.name)
        except OSError:  # on another disk, or a disk without hard links
            shutil.copyfile(file, to / file.name)


def one_by_one(objects: Objects, acts: Iterable[tuple[str, Callable[[], object]]]) -> None:
    """Apply an action to each job's objects, and skip failures for a later attempt.

    Stop if the store is away, because each further attempt would wait in vain.
    """
    todo = list(acts)
    try:
        if todo:
            objects.reach()
        for job, act in todo:
            try:
                act()
            except Unavailable as error:
                _log.error("job %s: %s", job, error)
                objects.reach()
    except Unavailable as error:
        _log.error("what is left of jobs goes later: %s", error)
