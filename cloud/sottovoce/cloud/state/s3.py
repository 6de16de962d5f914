"""Objects in a bucket of an S3 store, for machines without a shared folder.

A folder of files becomes keys under its name. The key written last lists the others with their
digests, so an incomplete object counts as missing. Fetched files lie in ``fetched/`` of the
machine's own folder while they are used.

A bucket that keeps old versions is refused at each write, and every process writes at start.
Nothing is ever really deleted in a versioned bucket.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from sottovoce.cloud.state.bound import BoundObjects
from sottovoce.cloud.state.fetched import clear, own_folder
from sottovoce.cloud.state.s3_url import S3Place
from sottovoce.core.errors import ConfigError, DataLoss, Unavailable

if TYPE_CHECKING:
    from obstore.store import S3Config

__all__ = ["S3Objects"]

_FILES: Final = "files.json"
_PROBE: Final = "objects.probe"
"""An empty key, for testing the store's features."""
_PART: Final = 8 << 20
"""Bytes of one request, so that its time is bounded."""
_PARTS: Final = 4
"""Parts of a file sent at once."""
_FETCHES: Final = 8
"""Objects of a process on its disk at once; further ones wait."""
_PATIENCE: Final = 120.0
"""The longest wait for a free place, in seconds."""
_REQUEST: Final = timedelta(seconds=60)
_CONNECT: Final = timedelta(seconds=10)
_RETRIES: Final = 3
_CODE: Final = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_STATUS: Final = re.compile(r"status code: ([1-5]\d\d)")


class S3Objects(BoundObjects):
    """Objects in a bucket; see `Objects`. Safe to share between threads.

    Args:
        place: the bucket and prefix.
        state: the folder of this machine's files.
    """

    failures = (BaseError, OSError)
    fix = (
        "ask the provider to see to the bucket of --objects, its credentials, the network and the "
        "folder of --state; it then goes on"
    )

    def __init__(self, place: S3Place, state: Path) -> None:
        super().__init__()
        self._place = place
        self._home = state / "fetched"
        self._slots = threading.BoundedSemaphore(_FETCHES)
        try:
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
        except (BaseError, ValueError):
            raise ConfigError(
                "the store of --objects cannot be asked with what is set for it",
                fix="mend --objects, and what begins with AWS_ in the environment: a secret beside "
                "each id, for one",
                subject="objects",
            ) from None  # the library's error may quote them
        clear(self._home)

    def __str__(self) -> str:
        return str(self._place)

    def place(self, name: str) -> None:
        """See `Objects.place`: None, because every object is fetched."""

    def put(self, source: Path, name: str) -> None:
        """See `Objects.put`."""
        with self._reached():
            self._clear(name)  # left by an earlier attempt of this caller
            files = {}
            for file in sorted(source.iterdir()):
                files[file.name] = _digest(file)
                self._put(f"{name}/{file.name}", file)
            self._put(f"{name}/{_FILES}", json.dumps(files).encode())

    @contextmanager
    def at(self, name: str) -> Iterator[Path]:
        """See `Objects.at`."""
        if not self._slots.acquire(timeout=_PATIENCE):
            raise self._away("too many of them are fetched at once")
        with ExitStack() as held:
            held.callback(self._slots.release)
            with self._reached():
                folder = held.enter_context(own_folder(self._home)) / "files"
                self._fetch(name, folder)
            yield folder

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
        # List each key, because stores built on folders also list empty folders.
        with self._reached():
            rests = (key.removeprefix(f"{name}/") for key in self._keys(name))
            return sorted({rest.partition("/")[0] for rest in rests})

    def put_file(self, source: Path, name: str) -> None:
        """See `Objects.put_file`. S3 shows a key only once it is complete."""
        with self._reached():
            self._put(name, source)

    def size(self, name: str) -> int | None:
        """See `Objects.size`."""
        with self._reached(), suppress(FileNotFoundError):
            return obstore.head(self._store, name)["size"]
        return None

    def pieces(self, name: str, offset: int) -> Iterator[bytes]:
        """See `Objects.pieces`. Each range is a separate request, for files of any size."""
        with self._reached(), suppress(FileNotFoundError), ExitStack() as held:
            reader = obstore.open_reader(self._store, name, buffer_size=_PART)
            held.enter_context(closing(reader))
            reader.seek(offset)
            while data := reader.read(_PART):
                yield bytes(data)

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
            obstore.delete(self._store, key)  # so that the next attempt does not find it
            raise Unavailable(
                "the bucket of --objects keeps old versions, so nothing in it is ever deleted",
                fix="ask the provider to suspend versioning there, or to give an address with "
                "versions=kept if they are gone in time by themselves",
            )

    def _read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return bytes(obstore.get(self._store, name).bytes())
        return None

    def _put_once(self, name: str, data: bytes) -> None:
        with suppress(AlreadyExistsError):
            self._put(name, data, once=True)

    def _destroy(self, name: str) -> None:
        """Delete the key; the store decides when to overwrite the bytes."""
        with suppress(FileNotFoundError):
            obstore.delete(self._store, name)

    def _check(self) -> None:
        """Check again for versioning, and for a bucket that has moved."""
        self._put(_PROBE, b"probe")
        try:
            self._put(_PROBE, b"probe", once=True)
        except AlreadyExistsError:
            return
        raise ConfigError(
            "the store of --objects overwrites what is to be put once only, such as keys of jobs",
            fix="use a store, or a version of this one, that heeds If-None-Match",
            subject="objects",
        )

    def _fetch(self, name: str, to: Path) -> None:
        """Fetch the object's files, if any, into the new folder ``to``."""
        listed = self._read(f"{name}/{_FILES}")
        if listed is None:
            return
        to.mkdir()
        for file, digest in _names(listed, name).items():
            try:
                # Each range is a separate request, for files of any size.
                reader = obstore.open_reader(self._store, f"{name}/{file}", buffer_size=_PART)
                with closing(reader), (to / file).open("wb") as out:
                    while data := reader.read(_PART):
                        out.write(data)
            except FileNotFoundError:
                raise _damaged(name) from None
            if _digest(to / file) != digest:
                raise _damaged(name)

    def _keys(self, name: str) -> Iterator[str]:
        """Yield all keys that begin with ``name/``."""
        for chunk in obstore.list(self._store, name):
            yield from (each["path"] for each in chunk)

    def _clear(self, name: str) -> None:
        for chunk in obstore.list(self._store, name):
            obstore.delete(self._store, [each["path"] for each in chunk])

    def _said(self, error: Exception) -> str:
        said = _CODE.search(str(error)) or _STATUS.search(str(error))
        return f"the store says {said[1]}" if said else super()._said(error)


def _names(listed: bytes, name: str) -> dict[str, str]:
    """Return an object's file names with their digests, refusing other paths."""
    try:
        files = json.loads(listed)
        if all(not {"/", "\0"} & set(f) and f not in ("", ".", "..") for f in files):
            return {file: str(digest) for file, digest in files.items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        pass
    raise _damaged(name)


def _damaged(name: str) -> DataLoss:
    return DataLoss(
        f"what the cloud keeps as {name} is damaged, or a part of it is gone",
        fix="customise again",
        subject="objects",
    )


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
