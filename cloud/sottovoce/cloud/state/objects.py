"""Where adapters, checkpoints and bundles lie: files under names that are given once.

Why it is here: one machine keeps them in a folder, many in a store that all of them reach. Either
way an object is written under a new name, and is of no consequence until a row of the database
names it; so nothing is ever changed in place, and whoever dies in between leaves only litter.

Where nothing is found, the whole store may be away: a disk that is not mounted leaves an empty
folder. So it is known by an id that lies in it, and that is looked for before anything else is.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from sottovoce.cloud.state.bound import OBJECTS_ID, BoundObjects
from sottovoce.core.errors import Unavailable
from sottovoce.core.system.files import in_place_of, sync_folder

__all__ = ["FileObjects", "Objects", "copy_files", "one_by_one"]

_PIECE: Final = 1 << 20
_log = logging.getLogger(__name__)


class Objects(Protocol):
    """Folders of files by name, such as ``jobs/4f2a/1/adapter``; files lie in them directly. And
    single files, which are too large to be fetched anew whenever they are read.

    Whatever is asked of them, but for `place`, raises Unavailable while they cannot be reached, are
    not those that were bound, or the disk is full.
    """

    def place(self, name: str) -> Path | None:
        """Where the object lies; None if it has to be fetched, by `at`."""
        ...

    def bind(self, owner: str, *, take: bool = False) -> str:
        """Has these be the objects of one database from now on, and no others that come to lie in
        their place.

        Args:
            owner: the database's id, or the whole of theirs.
            take: begin to be, if they are nobody's yet.

        Returns:
            Their id: the database's, and what tells them from others that it could have taken.

        Raises:
            ConfigError: they are another's, or cannot do what is asked of them.
        """
        ...

    def leave(self) -> None:
        """Has them be nobody's again."""
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
        files where there is no such object.

        Raises:
            DataLoss: they are known not to be those that were put.
        """
        ...

    def remove(self, name: str) -> None:
        """Removes all whose names begin with ``name/``; there may be none. Raises Unavailable, too,
        if something is left."""
        ...

    def within(self, name: str) -> list[str]:
        """What stands next in the names that begin with ``name/``."""
        ...

    def put_file(self, source: Path, name: str) -> None:
        """Keeps a file, which stays where it is, under a name that has this content whoever puts
        it: of several at once none disturbs another. All of it lasts when this returns."""
        ...

    def size(self, name: str) -> int | None:
        """Bytes of what `put_file` keeps; None while it is not whole."""
        ...

    def pieces(self, name: str, offset: int) -> Iterator[bytes]:
        """Its bytes from there on; none if there is no such file. Whoever reads compares them."""
        ...

    def put_secret(self, job: str, secret: bytes) -> bytes:
        """Keeps a few bytes of a job apart from all else, until they are destroyed. Gives what is
        kept: of several that were put, the first."""
        ...

    def secret(self, job: str) -> bytes | None:
        """What was kept; None if it was not, or is destroyed."""
        ...

    def destroy_secret(self, job: str) -> None:
        """Removes it, for good as far as the objects can; there may be none."""
        ...

    def secrets(self) -> list[tuple[str, str]]:
        """What lies there by `put_secret`, half put too: jobs, and what `destroy_secret` takes."""
        ...


class FileObjects(BoundObjects):
    """Objects in a folder of this machine, or of one that all machines share: what is left half
    put goes with its job or bundle.

    Args:
        root: the folder.
    """

    fix = "ask the provider to mend or mount the folder of --objects; it then goes on"

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def __str__(self) -> str:
        return str(self.root)

    def place(self, name: str) -> Path:
        """See `Objects.place`."""
        return self.root / name

    def put(self, source: Path, name: str) -> None:
        """See `Objects.put`. Files that lie on the same disk are not copied."""
        target = self.root / name
        with self._reached():
            _make(target.parent, self.root)
            with in_place_of(target, alone=False) as aside:
                copy_files(source, aside)
                shutil.rmtree(target, ignore_errors=True)  # what this very caller began before

    @contextmanager
    def at(self, name: str) -> Iterator[Path]:
        """See `Objects.at`."""
        self.within(name)
        try:
            yield self.root / name
        except OSError:  # of the folder, or of what the caller does beside it?
            self.reach()
            raise

    def remove(self, name: str) -> None:
        """See `Objects.remove`."""
        with self._reached():
            shutil.rmtree(self.root / name, ignore_errors=True)
            with suppress(FileNotFoundError):
                (self.root / name).lstat()
                raise Unavailable(
                    "files of the cloud cannot be removed",
                    fix="mend the owner or mode of their folder",
                )

    def within(self, name: str) -> list[str]:
        """See `Objects.within`."""
        with self._reached(), suppress(FileNotFoundError):
            return sorted(os.listdir(self.root / name))
        return []

    def put_file(self, source: Path, name: str) -> None:
        """See `Objects.put_file`."""
        with self._reached():
            _make((self.root / name).parent, self.root)
            with in_place_of(self.root / name, alone=False) as aside:
                shutil.copyfile(source, aside)

    def size(self, name: str) -> int | None:
        """See `Objects.size`."""
        with self._reached(), suppress(FileNotFoundError):
            return (self.root / name).stat().st_size
        return None

    def pieces(self, name: str, offset: int) -> Iterator[bytes]:
        """See `Objects.pieces`."""
        with self._reached(), suppress(FileNotFoundError), (self.root / name).open("rb") as file:
            file.seek(offset)
            while data := file.read(_PIECE):
                yield data

    def _read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return (self.root / name).read_bytes()
        return None

    def _destroy(self, name: str) -> None:
        """It is overwritten where it lies before its name goes."""
        file = self.root / name
        with suppress(FileNotFoundError):
            with file.open("r+b") as opened:
                opened.write(bytes(os.fstat(opened.fileno()).st_size))
                opened.flush()
                os.fsync(opened.fileno())
            file.unlink()
            sync_folder(file.parent)

    def _check(self) -> None:
        """Where there are no hard links, the id cannot be put."""

    def _put_once(self, name: str, data: bytes) -> None:
        file = self.root / name
        _make(file.parent, self.root)
        with in_place_of(file, once=True, alone=False) as aside:
            aside.touch(mode=0o666 if name == OBJECTS_ID else 0o600)
            aside.write_bytes(data)


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


def one_by_one(objects: Objects, acts: Iterable[tuple[str, Callable[[], object]]]) -> None:
    """Does to the objects of each job what is to be done. What cannot be done now is passed over,
    for whoever tries again; all of it while they are away: each would be waited for, in vain."""
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
