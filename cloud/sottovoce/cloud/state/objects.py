"""Where adapters and checkpoints lie: folders of files under names that are given once.

Why it is here: one machine keeps them in a folder, many in a store that all of them reach. Either
way an object is written under a new name, and is of no consequence until a row of the database
names it; so nothing is ever changed in place, and whoever dies in between leaves only litter.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

from sottovoce.cloud.disk import full_disk_is_unavailable
from sottovoce.core.errors import ConfigError, Unavailable
from sottovoce.core.system.files import in_place_of, sync_folder

__all__ = ["FileObjects", "Objects", "copy_files"]

_ID: Final = "objects.id"


class Objects(Protocol):
    """Folders of files by name, such as ``jobs/4f2a/1/adapter``; files lie in them directly.

    Attributes:
        remote: they are fetched for every use; else they lie at `place`.
    """

    remote: bool

    def place(self, name: str) -> Path:
        """Where the object lies: a path on this machine, or what takes the place of one."""
        ...

    def put(self, source: Path, name: str) -> None:
        """Keeps the files of the folder ``source``, which stays, under a name that is new. All of
        it lasts when this returns.

        Raises:
            Unavailable: the disk is full, or the store cannot be reached.
        """
        ...

    def at(self, name: str) -> AbstractContextManager[Path]:
        """A folder with the object's files, to be read only, for as long as the block. Without
        files where there is no such object.

        Raises:
            Unavailable: see `put`.
        """
        ...

    def remove(self, name: str) -> None:
        """Removes all whose names begin with ``name/``; there may be none.

        Raises:
            Unavailable: something is left.
        """
        ...

    def within(self, name: str) -> list[str]:
        """What stands next in the names that begin with ``name/``.

        Raises:
            Unavailable: see `put`.
        """
        ...

    def put_secret(self, job: str, secret: bytes) -> None:
        """Keeps a few bytes of a job apart from all else, until they are destroyed.

        Raises:
            Unavailable: see `put`.
        """
        ...

    def secret(self, job: str) -> bytes | None:
        """What was kept; None if it was not, or is destroyed.

        Raises:
            Unavailable: see `put`.
        """
        ...

    def destroy_secret(self, job: str) -> None:
        """Removes it, for good as far as the store can; there may be none.

        Raises:
            Unavailable: it may still be there.
        """
        ...

    def take(self) -> str:
        """Has the store be one database's, which is to remember the id that this gives.

        Raises:
            ConfigError: it is another's. Unavailable: see `put`.
        """
        ...

    def taken(self) -> str:
        """The id that was given; "" if none was."""
        ...


class FileObjects:
    """Objects in a folder of this machine, or of one that all machines share.

    Args:
        root: the folder.
    """

    remote = False

    def __init__(self, root: Path) -> None:
        self.root = root

    def place(self, name: str) -> Path:
        """See `Objects.place`."""
        return self.root / name

    def put(self, source: Path, name: str) -> None:
        """See `Objects.put`. Files that lie on the same disk are not copied."""
        target = self.root / name
        with full_disk_is_unavailable():
            _make(target.parent, self.root)
            with in_place_of(target) as aside:
                copy_files(source, aside)
                shutil.rmtree(target, ignore_errors=True)  # what this very caller began before

    @contextmanager
    def at(self, name: str) -> Iterator[Path]:
        """See `Objects.at`."""
        yield self.root / name

    def remove(self, name: str) -> None:
        """See `Objects.remove`."""
        shutil.rmtree(self.root / name, ignore_errors=True)
        if (self.root / name).exists():
            raise _stuck()

    def within(self, name: str) -> list[str]:
        """See `Objects.within`."""
        folder = self.root / name
        return sorted(os.listdir(folder)) if folder.is_dir() else []

    def put_secret(self, job: str, secret: bytes) -> None:
        """See `Objects.put_secret`."""
        file = self._secret(job)
        with full_disk_is_unavailable():
            _make(file.parent, self.root)
            with in_place_of(file) as aside:
                aside.touch(mode=0o600)
                aside.write_bytes(secret)

    def secret(self, job: str) -> bytes | None:
        """See `Objects.secret`."""
        try:
            return self._secret(job).read_bytes()
        except FileNotFoundError:
            return None

    def destroy_secret(self, job: str) -> None:
        """See `Objects.destroy_secret`. It is overwritten where it lies before its name goes."""
        file = self._secret(job)
        try:
            with file.open("r+b") as opened:
                opened.write(bytes(os.fstat(opened.fileno()).st_size))
                opened.flush()
                os.fsync(opened.fileno())
            file.unlink()
            sync_folder(file.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _stuck() from error

    def take(self) -> str:
        """See `Objects.take`."""
        if self.taken():
            raise ConfigError(
                f"the objects in {self.root} are another database's",
                fix="give the --store or --state of that one, or another --objects; or remove "
                f"{self.root / _ID} if no other cloud uses the folder",
                subject="objects",
            )
        made = secrets.token_hex(16)
        with full_disk_is_unavailable():
            _make(self.root, self.root)
            with in_place_of(self.root / _ID) as aside:
                aside.write_text(made)
        return made

    def taken(self) -> str:
        """See `Objects.taken`."""
        try:
            return (self.root / _ID).read_text()
        except FileNotFoundError:
            return ""

    def _secret(self, job: str) -> Path:
        return self.root / "keys" / job


def _stuck() -> Unavailable:
    return Unavailable(
        "files of the cloud cannot be removed", fix="mend the owner or mode of their folder"
    )


def _make(folder: Path, root: Path) -> None:
    """Makes a folder that survives a power cut, with those above it."""
    if not folder.is_dir():
        if folder != root:
            _make(folder.parent, root)
        folder.mkdir(exist_ok=True, mode=0o700)
        sync_folder(folder.parent)


def copy_files(source: Path, to: Path) -> None:
    """Makes a folder with the files of another: what training writes takes the place of a file and
    never changes one, so two names may stand for the same."""
    to.mkdir()
    for file in source.iterdir():
        try:
            os.link(file, to / file.name)
        except OSError:  # on another disk, or a disk that knows no links
            shutil.copyfile(file, to / file.name)
