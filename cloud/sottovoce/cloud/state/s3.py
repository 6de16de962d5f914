"""Objects in a bucket of a store that speaks S3.

Why it is here: machines without a folder in common. A folder of files becomes keys under its name;
the last one written lists the others with their digests, so half of it is as good as none. What is
fetched lies in ``fetched/`` of the machine's own folder for as long as it is used.

A bucket that keeps old versions is refused at the first thing written: in it nothing is deleted.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from sottovoce.cloud.disk import full_disk_is_unavailable
from sottovoce.cloud.state.fetched import clear, own_folder
from sottovoce.cloud.state.objects import OBJECTS_ID, strangers
from sottovoce.cloud.state.s3_url import S3Place
from sottovoce.core.errors import DataLoss, Unavailable

if TYPE_CHECKING:
    from obstore.store import S3Config

__all__ = ["S3Objects"]

_FILES: Final = "files.json"
_PART: Final = 8 << 20
"""Bytes of one request, so that its time is bounded."""
_PARTS: Final = 4
"""Parts of a file that are sent at once."""
_FETCHES: Final = 8
"""Objects that a process holds on its disk at once; more wait."""
_PATIENCE: Final = 120.0
"""Seconds to wait for that."""
_REQUEST: Final = timedelta(seconds=60)
_CONNECT: Final = timedelta(seconds=10)
_RETRIES: Final = 3
_CODE: Final = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_STATUS: Final = re.compile(r"status code: ([1-5]\d\d)")


class S3Objects:
    """Objects in a bucket; see `Objects`. Safe to share between threads.

    Args:
        place: which.
        state: the folder of this machine's files.
    """

    def __init__(self, place: S3Place, state: Path) -> None:
        self._place = place
        self._home = state / "fetched"
        self._owner = ""
        self._slots = threading.BoundedSemaphore(_FETCHES)
        self._store = S3Store(
            place.bucket,
            prefix=place.prefix or None,
            config=cast("S3Config", place.settings()),
            client_options={
                "timeout": _REQUEST,
                "connect_timeout": _CONNECT,
                "allow_http": place.plaintext,
            },
            retry_config={"max_retries": _RETRIES, "retry_timeout": _REQUEST},
        )
        clear(self._home)

    def place(self, name: str) -> None:
        """See `Objects.place`: nowhere on this machine."""

    def bind(self, owner: str, *, take: bool = False) -> None:
        """See `Objects.bind`."""
        with self._reached():
            if take:
                with suppress(AlreadyExistsError):
                    self._put(OBJECTS_ID, owner.encode(), once=True)
            found = self._found()
        if found != owner:
            raise strangers(str(self._place), OBJECTS_ID, taken=take)
        self._owner = owner

    def reach(self) -> None:
        """See `Objects.reach`."""
        with self._reached():
            pass

    def put(self, source: Path, name: str) -> None:
        """See `Objects.put`."""
        with self._reached():
            self._clear(name)  # what this very caller began before
            files = {}
            for file in sorted(source.iterdir()):
                files[file.name] = _digest(file)
                self._put(f"{name}/{file.name}", file)
            self._put(f"{name}/{_FILES}", json.dumps(files).encode())

    @contextmanager
    def at(self, name: str) -> Iterator[Path]:
        """See `Objects.at`.

        Raises:
            DataLoss: what was fetched is not what was put.
        """
        if not self._slots.acquire(timeout=_PATIENCE):
            raise _away("too many of them are fetched at once")
        try:
            with full_disk_is_unavailable(), own_folder(self._home) as folder:
                with self._reached():
                    self._fetch(name, folder / "files")
                yield folder / "files"
        finally:
            self._slots.release()

    def remove(self, name: str) -> None:
        """See `Objects.remove`."""
        with self._reached():
            self._clear(name)
            if any(True for _ in self._keys(name)):
                raise Unavailable(
                    "objects of the cloud cannot be removed",
                    fix="let its credentials delete in the bucket, and lock nothing there",
                )

    def within(self, name: str) -> list[str]:
        """See `Objects.within`."""
        # Each key, in place of asking for the parts: stores made of folders have empty ones, too.
        with self._reached():
            rests = (key.removeprefix(f"{name}/") for key in self._keys(name))
            return sorted({rest.partition("/")[0] for rest in rests})

    def put_secret(self, job: str, secret: bytes) -> bytes:
        """See `Objects.put_secret`."""
        with self._reached():
            with suppress(AlreadyExistsError):
                self._put(f"keys/{job}", secret, once=True)
            return self._read(f"keys/{job}")

    def secret(self, job: str) -> bytes | None:
        """See `Objects.secret`."""
        with self._reached(), suppress(FileNotFoundError):
            return self._read(f"keys/{job}")
        return None

    def destroy_secret(self, job: str) -> None:
        """See `Objects.destroy_secret`. The store says when the bytes are overwritten."""
        with self._reached(), suppress(FileNotFoundError):
            obstore.delete(self._store, f"keys/{job}")

    def secrets(self) -> list[tuple[str, str]]:
        """See `Objects.secrets`."""
        return [(name, name) for name in self.within("keys")]

    def _put(self, key: str, data: bytes | Path, *, once: bool = False) -> None:
        put = obstore.put(
            self._store,
            key,
            data,
            mode="create" if once else "overwrite",
            chunk_size=_PART,
            max_concurrency=_PARTS,
        )
        if put["version"] not in (None, "null") and not self._place.versions:
            obstore.delete(self._store, key)  # so that it is not found there at the next try
            raise Unavailable(
                "the bucket of --objects keeps old versions, so nothing in it is ever deleted",
                fix="ask the provider to suspend versioning there, or to give an address with "
                "versions=kept if they are gone in time by themselves",
            )

    def _read(self, key: str) -> bytes:
        return bytes(obstore.get(self._store, key).bytes())

    def _fetch(self, name: str, to: Path) -> None:
        """Has the object's files be in the new folder ``to``, if it is there."""
        try:
            files: dict[str, str] = json.loads(self._read(f"{name}/{_FILES}"))
        except FileNotFoundError:
            return
        to.mkdir()
        for file, digest in files.items():
            # By ranges, each a request of its own, however large the file.
            reader = obstore.open_reader(self._store, f"{name}/{file}", buffer_size=_PART)
            with closing(reader), (to / file).open("wb") as out:
                while data := reader.read(_PART):
                    out.write(data)
            if _digest(to / file) != digest:
                raise DataLoss(
                    "what the cloud fetched of its objects is damaged",
                    fix="customise again",
                    subject="objects",
                )

    def _keys(self, name: str) -> Iterator[str]:
        """All that begin with ``name/``."""
        for chunk in obstore.list(self._store, name):
            yield from (each["path"] for each in chunk)

    def _clear(self, name: str) -> None:
        for chunk in obstore.list(self._store, name):
            obstore.delete(self._store, [each["path"] for each in chunk])

    def _found(self) -> str:
        try:
            return self._read(OBJECTS_ID).decode()
        except FileNotFoundError:
            return ""

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Around all that asks the store. That something is not there is believed only beside the
        id: a bucket may be made anew, or be another's."""
        try:
            with full_disk_is_unavailable():
                if self._owner and self._found() != self._owner:
                    raise _away("their objects.id is not there")
                yield
        except (BaseError, OSError) as error:
            # Not chained: what the store says may name keys and accounts.
            raise _away(_said(error)) from None


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _said(error: Exception) -> str:
    said = _CODE.search(str(error)) or _STATUS.search(str(error))
    return f"the store says {said[1]}" if said else "no answer"


def _away(how: str) -> Unavailable:
    return Unavailable(
        f"the cloud cannot reach its objects: {how}",
        fix="ask the provider to see to the bucket of --objects, its credentials and the network; "
        "it then goes on",
    )
