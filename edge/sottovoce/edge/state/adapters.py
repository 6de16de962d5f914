"""Adapters on this device: folders of versions, and lists of those in use.

A new version must replace the old one completely or not at all, so the list is replaced in one
step. The old version must stay available for a rollback. Folders are named after the cloud's id of
the adapter, and files after the hash of their content. The owner's names are nowhere on the disk.
Only the owner may read the files, but a thief of the device can read them too.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sottovoce.core.bundle.manifest import sha256
from sottovoce.core.errors import DataLoss, InvalidInput, NotReady
from sottovoce.core.platform.files import atomic, disk, private_folder, sweep, sync_folder
from sottovoce.core.rpc.limits import NAME
from sottovoce.edge.state.database import locked

ADAPTERS: Final = "adapters"
"""The folder of adapters, inside the folder of the agent's state."""

KEPT: Final = 3
"""Number of versions of an adapter that stay on the disk."""

FOLLOWED: Final = "followed"
"""A file in an adapter's folder: the daemon fetches new versions by itself."""

_LIST = "versions.json"
_SUFFIX = ".safetensors"
_VERSION = re.compile(r"[0-9a-f]{64}")


class AdapterFolder:
    """The versions of one adapter.

    Raises:
        InvalidInput: ``adapter_id`` is not a valid name.
    """

    def __init__(self, folder: Path, adapter_id: str) -> None:
        if not NAME.fullmatch(adapter_id):
            raise InvalidInput(
                "that is no adapter's name",
                fix="name one as `sotto status` shows it",
                subject="adapter",
            )
        self._folder = folder / adapter_id

    @property
    def current(self) -> Path | None:
        """The file in use; its name is its version."""
        used = self._list()[1]
        return self.file(used) if used else None

    def versions(self) -> list[str]:
        """Return all versions that are kept, the newest first."""
        return self._list()[0]

    def file(self, version: str) -> Path:
        """Return the path of a version, which need not exist."""
        return self._folder / f"{version}{_SUFFIX}"

    def check(self, file: Path) -> None:
        """Refuse a version that differs from the fetched file in any byte."""
        if not self.intact(file):
            raise DataLoss(
                f"the adapter's file {file.name} is missing or was altered",
                fix="fetch it again with `sotto fetch`, or go back with `sotto fetch --roll-back`",
                subject="adapter",
            )

    def intact(self, file: Path) -> bool:
        """Return whether a version equals the fetched file, byte for byte."""
        return file.is_file() and sha256(file) == file.stem

    def partial(self) -> tuple[Path, str]:
        """Return the file of a partly fetched version, and that version.

        The version is empty if none is partly fetched.
        """
        found = next(iter(sorted(self._folder.glob(f".partial-*{_SUFFIX}"))), None)
        if found is None:
            return self.begun(""), ""
        return found, found.stem.removeprefix(".partial-")

    def begun(self, version: str) -> Path:
        """Return the path where a version is collected while it arrives."""
        return self._folder / f".partial-{version}{_SUFFIX}"

    def install(self, arrived: Path, version: str) -> None:
        """Make an arrived file the version in use, in one step.

        `prune` removes the oldest versions.
        """
        with disk(arrived):
            before = self.versions()
            if not before:  # so that a crash after the rename does not look like a lost list
                self._note([], "")
            versions = [version, *(old for old in before if old != version)]
            arrived.rename(self.file(version))
            sync_folder(self._folder)
            self._note(versions, version)

    def prune(self) -> None:
        """Remove the oldest versions beyond `KEPT`, except the version in use.

        If the disk does not accept the shorter list now, the next call removes them.
        """
        versions, used = self._list()
        kept = [version for version in versions if version in (*versions[:KEPT], used)]
        with suppress(OSError):
            if kept != versions:
                self._note(kept, used)
                for old in set(versions) - set(kept):
                    self.file(old).unlink(missing_ok=True)

    @contextmanager
    def undone(self) -> Iterator[None]:
        """If the block raises, restore the version in use and delete the new files."""
        versions, used = self._list()
        try:
            yield
        except BaseException:
            self.partial()[0].unlink(missing_ok=True)
            if self._list() != (versions, used):
                for added in set(self.versions()) - set(versions):
                    self.file(added).unlink(missing_ok=True)  # first, as the disk may be full
                self._note(versions, used)
            raise

    @property
    def followed(self) -> bool:
        """Whether the daemon fetches new versions by itself."""
        return (self._folder / FOLLOWED).exists()

    def follow(self, on: bool) -> None:
        """Set whether the daemon fetches new versions by itself."""
        if on:
            with disk(self._folder):
                (self._folder / FOLLOWED).touch(0o600)
        else:
            (self._folder / FOLLOWED).unlink(missing_ok=True)

    def roll_back(self) -> str:
        """Put the previous version in place of the version in use, and return it.

        The daemon no longer follows the adapter, because it would fetch the newest version again at
        once.

        Raises:
            NotReady: there is no earlier version. DataLoss: the earlier version is damaged.
        """
        versions, used = self._list()
        later = versions.index(used) + 1 if used else 0
        if later == len(versions):
            raise NotReady(
                "there is no earlier version of this adapter on the device",
                fix="see `sotto fetch NAME --versions`",
                subject="adapter",
            )
        self.check(self.file(versions[later]))
        self.follow(False)
        self._note(versions, versions[later])
        return versions[later]

    def remove(self) -> None:
        """Delete all versions; a process that has loaded one may still finish with it."""
        with disk(self._folder):
            if self._folder.is_dir():
                shutil.rmtree(self._folder)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from changing this adapter during the block."""
        private_folder(self._folder.parent)
        private_folder(self._folder)
        busy = NotReady(
            "another `sotto fetch` of this adapter is at work",
            fix="wait until it has finished",
            subject="adapter",
        )
        with locked(self._folder / ".lock", busy):
            sweep(self._folder)
            yield

    def _list(self) -> tuple[list[str], str]:
        """Return the versions, the newest first, and the version in use.

        Both are empty if there is no list.
        """
        try:
            noted = json.loads((self._folder / _LIST).read_bytes())
            versions, used = list(noted["versions"]), str(noted["in_use"])
            known = used in versions or not (versions or used)
            if not known or not all(map(is_version, versions)):
                raise ValueError(used)
        except FileNotFoundError as error:
            if any(is_version(file.stem) for file in self._folder.glob(f"*{_SUFFIX}")):
                raise self._lost() from error
            return [], ""
        except (ValueError, KeyError, TypeError) as error:
            raise self._lost() from error
        return versions, used

    def _lost(self) -> DataLoss:
        return DataLoss(
            f"the list of an adapter's versions, {_LIST}, is missing or was altered",
            fix=f"remove the folder {self._folder}, then fetch the adapter again",
            subject="adapter",
        )

    def _note(self, versions: list[str], used: str) -> None:
        with atomic(self._folder / _LIST) as file:
            file.write(json.dumps({"versions": versions, "in_use": used}).encode())


def any_held(folder: Path) -> bool:
    """Return whether ``folder`` holds a version of any adapter."""
    return any(is_version(file.stem) for file in folder.glob(f"*/*{_SUFFIX}"))


def is_version(name: str) -> bool:
    """Return whether ``name`` is a SHA-256 in 64 lowercase hexadecimal digits."""
    return _VERSION.fullmatch(name) is not None
