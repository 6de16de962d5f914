"""Where adapters and checkpoints lie: folders of files under names that are given once.

Why it is here: one machine keeps them in a folder, many in a store that all of them reach. Either
way an object is written under a new name, and is of no consequence until a row of the database
names it; so nothing is ever changed in place, and whoever dies in between leaves only litter.

Where nothing is found, the whole store may be away: a disk that is not mounted leaves an empty
folder. So it is known by an id that lies in it, and that is looked for before anything else is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from sottovoce.cloud.disk import full_disk_is_unavailable
from sottovoce.core.errors import ConfigError, Unavailable
from sottovoce.core.system.files import in_place_of, sync_folder

__all__ = ["OBJECTS_ID", "FileObjects", "Objects", "copy_files", "strangers"]

OBJECTS_ID: Final = "objects.id"
"""Under what the id lies."""


class Objects(Protocol):
    """Folders of files by name, such as ``jobs/4f2a/1/adapter``; files lie in them directly.

    Whatever is asked of them, but for `place`, raises Unavailable while they cannot be reached, are
    not those that were bound, or the disk is full.
    """

    def place(self, name: str) -> Path | None:
        """Where the object lies; None if it has to be fetched, by `at`."""
        ...

    def bind(self, owner: str, *, take: bool = False) -> None:
        """Has these be the objects of one database from now on, and no others that come to lie in
        their place.

        Args:
            owner: the database's id.
            take: begin to be, if they are nobody's yet.

        Raises:
            ConfigError: they are another's.
        """
        ...

    def reach(self) -> None:
        """Raises Unavailable, or nothing."""
        ...

    def put(self, source: Path, name: str) -> None:
        """Keeps the files of the folder ``source``, which stays, under a name that is new. All of
        it lasts when this returns."""
        ...

    def at(self, name: str) -> AbstractContextManager[Path]:
        """A folder with the object's files, to be read only, for as long as the block. Without
        files where there is no such object."""
        ...

    def remove(self, name: str) -> None:
        """Removes all whose names begin with ``name/``; there may be none. Raises Unavailable, too,
        if something is left."""
        ...

    def within(self, name: str) -> list[str]:
        """What stands next in the names that begin with ``name/``."""
        ...

    def put_secret(self, job: str, secret: bytes) -> bytes:
        """Keeps a few bytes of a job apart from all else, until they are destroyed. Gives what is
        kept: of several that were put, the first."""
        ...

    def secret(self, job: str) -> bytes | None:
        """What was kept; None if it was not, or is destroyed."""
        ...

    def destroy_secret(self, job: str) -> None:
        """Removes it, for good as far as the store can; there may be none."""
        ...

    def secrets(self) -> list[tuple[str, str]]:
        """What lies there by `put_secret`, half put too: jobs, and what `destroy_secret` takes."""
        ...


class FileObjects:
    """Objects in a folder of this machine, or of one that all machines share.

    Args:
        root: the folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._owner = ""

    def place(self, name: str) -> Path:
        """See `Objects.place`."""
        return self.root / name

    def bind(self, owner: str, *, take: bool = False) -> None:
        """See `Objects.bind`."""
        with self._reached():
            if take:
                _make(self.root, self.root)
                with in_place_of(self.root / OBJECTS_ID, once=True) as aside:
                    aside.write_text(owner)
            found = self._found()
        if found != owner:
            raise strangers(str(self.root), str(self.root / OBJECTS_ID), taken=take)
        self._owner = owner

    def reach(self) -> None:
        """See `Objects.reach`."""
        with self._reached():
            pass

    def put(self, source: Path, name: str) -> None:
        """See `Objects.put`. Files that lie on the same disk are not copied."""
        target = self.root / name
        with self._reached():
            _make(target.parent, self.root)
            with in_place_of(target) as aside:
                copy_files(source, aside)
                shutil.rmtree(target, ignore_errors=True)  # what this very caller began before

    @contextmanager
    def at(self, name: str) -> Iterator[Path]:
        """See `Objects.at`."""
        with self._reached():
            yield self.root / name

    def remove(self, name: str) -> None:
        """See `Objects.remove`."""
        with self._reached():
            shutil.rmtree(self.root / name, ignore_errors=True)
            with suppress(FileNotFoundError):
                (self.root / name).lstat()
                raise _stuck()

    def within(self, name: str) -> list[str]:
        """See `Objects.within`."""
        with self._reached(), suppress(FileNotFoundError):
            return sorted(os.listdir(self.root / name))
        return []

    def put_secret(self, job: str, secret: bytes) -> bytes:
        """See `Objects.put_secret`."""
        file = self._secret(job)
        with self._reached():
            _make(file.parent, self.root)
            with in_place_of(file, once=True) as aside:
                aside.touch(mode=0o600)
                aside.write_bytes(secret)
            return file.read_bytes()

    def secret(self, job: str) -> bytes | None:
        """See `Objects.secret`."""
        with self._reached(), suppress(FileNotFoundError):
            return self._secret(job).read_bytes()
        return None

    def destroy_secret(self, job: str) -> None:
        """See `Objects.destroy_secret`. It is overwritten where it lies before its name goes."""
        file = self._secret(job)
        with self._reached(), suppress(FileNotFoundError):
            with file.open("r+b") as opened:
                opened.write(bytes(os.fstat(opened.fileno()).st_size))
                opened.flush()
                os.fsync(opened.fileno())
            file.unlink()
            sync_folder(file.parent)

    def secrets(self) -> list[tuple[str, str]]:
        """See `Objects.secrets`."""
        return [(name.removeprefix(".").partition(".")[0], name) for name in self.within("keys")]

    def _secret(self, job: str) -> Path:
        return self.root / "keys" / job

    def _found(self) -> str:
        try:
            return (self.root / OBJECTS_ID).read_text()
        except FileNotFoundError:
            return ""

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Around all that looks at files: a share answers with any error when it is away, and what
        lies below its mount point may be another folder."""
        try:
            with full_disk_is_unavailable():
                if self._owner and self._found() != self._owner:
                    raise _away("their objects.id is not there")
                yield
        except OSError as error:
            raise _away(error.strerror or "no answer") from error


def strangers(place: str, where: str, *, taken: bool) -> ConfigError:
    """For objects in ``place`` that are another database's, as what lies at ``where`` says."""
    return ConfigError(
        f"the objects in {place} are another database's"
        if taken
        else "this is not where the cloud's checkpoints and adapters lie",
        fix="give the --store or --state of that one, or another --objects; or remove "
        f"{where} if no other cloud uses them"
        if taken
        else "give the --objects that its other processes have, or none if they have none "
        "and share --state",
        subject="objects",
    )


def _away(how: str) -> Unavailable:
    return Unavailable(
        f"the cloud cannot reach its objects: {how}",
        fix="ask the provider to mend or mount the folder of --objects; it then goes on",
    )


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
