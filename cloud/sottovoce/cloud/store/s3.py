"""Objects in a bucket of an S3 store, for machines without a shared folder.

A folder of files becomes keys under its name. The key written last lists the others with their
digests, so an incomplete object counts as missing. Fetched files lie in ``fetched/`` of the
machine's own folder while they are used.

A bucket that keeps old versions is refused at each write, and every process writes at start.
Nothing is ever really deleted in a versioned bucket.
"""

from __future__ import annotations

import configparser
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from sottovoce.cloud.store.objects import Objects
from sottovoce.core.errors import ConfigError, DataLoss, Unavailable
from sottovoce.core.rpc.address import is_loopback

if TYPE_CHECKING:
    from obstore.store import S3Config

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_KNOWN: Final = {"endpoint", "region", "versions"}
_SECRETS: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_SENT: Final = (*(name.upper() for name in _SECRETS), "AWS_REGION", "AWS_DEFAULT_REGION")
"""Environment variables sent in request headers."""
_BUCKET: Final = re.compile(r"[\w.-]+", re.ASCII)
_VISIBLE: Final = re.compile(r"[!-~]*")
"""Permitted characters in a header: the library stops silently at any other."""


@dataclass(frozen=True, slots=True)
class S3Place:
    """The location of objects.

    Attributes:
        bucket: its name.
        prefix: the prefix of all keys; "" for none.
        endpoint: the store's address; "" for Amazon's.
        region: "" for the environment's.
        plaintext: whether its address begins with http.
        versions: whether a bucket that keeps old versions is accepted.
        secrets: credentials from a file, by name; empty if the environment has them.
    """

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    plaintext: bool = False
    versions: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, url: str, environment: Mapping[str, str] = os.environ) -> Self:
        """Parse ``s3://bucket/prefix?endpoint=https://...&region=...``.

        Raises:
            ConfigError: the URL is invalid, the address of another machine lacks TLS, or the file
                of credentials cannot be read.
        """
        try:
            parts = urlsplit(url)
            asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        except ValueError:
            raise _no_bucket() from None  # the original error quotes the URL
        prefix = unquote(parts.path).strip("/")
        if (
            parts.scheme != "s3"
            or not _BUCKET.fullmatch(parts.netloc)
            or not prefix.isprintable()
            or (prefix and not {"", ".", ".."}.isdisjoint(prefix.split("/")))
            or parts.fragment
            or not asked.keys() <= _KNOWN
            or asked.get("versions", "kept") != "kept"
            or not _VISIBLE.fullmatch(asked.get("region", ""))
        ):
            raise _no_bucket()
        endpoint = asked.get("endpoint") or next(
            (environment[name] for name in _ENDPOINTS if environment.get(name)), ""
        )
        return cls(
            bucket=parts.netloc,
            prefix=prefix,
            endpoint=endpoint.rstrip("/"),
            region=asked.get("region", ""),
            plaintext=_plaintext(endpoint, environment),
            versions="versions" in asked,
            secrets=_secrets(environment),
        )

    def settings(self) -> dict[str, str]:
        """Return the store's settings beyond the environment, in the library's terms."""
        told = {"aws_endpoint": self.endpoint, "aws_region": self.region, **self.secrets}
        return {name: value for name, value in told.items() if value}

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


def _no_bucket() -> ConfigError:
    return ConfigError(
        "--objects is no URL of a bucket",  # not quoted: it may hold a password
        fix="give one like s3://bucket/prefix, with ?endpoint=https://... for a store that "
        "is not Amazon's, and credentials in the environment (AWS_ACCESS_KEY_ID, "
        "AWS_SECRET_ACCESS_KEY) or in ~/.aws/credentials",
        subject="objects",
    )


def _plaintext(endpoint: str, environment: Mapping[str, str]) -> bool:
    """Return whether the connection is plaintext; refuse it where keys and weights would be
    exposed.
    """
    if not endpoint:
        return False
    host, parts = _host(endpoint), urlsplit(endpoint)
    if parts.scheme == "https":
        return False
    allowed = environment.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
    if allowed or is_loopback(host):
        return True
    raise ConfigError(
        "the store of --objects would be asked over plain HTTP",
        fix="give its endpoint with https://, or set AWS_ALLOW_HTTP=true on a network of yours",
        subject="objects",
    )


def _host(endpoint: str) -> str:
    """Return the host of an address.

    It holds no password, because the library's errors show the address.
    """
    try:
        parts = urlsplit(endpoint)
        host = parts.hostname if parts.port != 0 and _VISIBLE.fullmatch(endpoint) else None
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or set(endpoint) & set("@?#"):
        raise ConfigError(
            "the endpoint of --objects is no URL, or holds more than an address",
            fix="give one like https://s3.example.org, or none for Amazon's; credentials belong in "
            "the environment or in ~/.aws/credentials",
            subject="objects",
        ) from None
    return host


def _secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Read credentials from the file of Amazon's tools, which the library ignores."""
    for name in _SENT:
        if not _VISIBLE.fullmatch(environment.get(name, "")):
            raise ConfigError(
                f"{name} holds what cannot be sent",
                fix="set it without spaces, line ends and letters with accents",
                subject="objects",
            )
    if environment.get("AWS_ACCESS_KEY_ID"):
        return {}
    name = environment.get("AWS_SHARED_CREDENTIALS_FILE", "")
    profile = environment.get("AWS_PROFILE", "")
    found = configparser.RawConfigParser()
    try:
        with open(os.path.expanduser(name or "~/.aws/credentials"), encoding="utf-8") as file:
            found.read_file(file)
        secrets = {one: found.get(profile or "default", one, fallback="") for one in _SECRETS}
        broken = not all(map(_VISIBLE.fullmatch, secrets.values()))
    except FileNotFoundError:
        secrets, broken = {}, False
    except (OSError, ValueError, configparser.Error):
        secrets, broken = {}, True
    needed = all(secrets.get(one) for one in _SECRETS[:2])
    if broken or (not needed and (name or profile or any(secrets.values()))):
        raise ConfigError(
            "the file of the store's credentials cannot be read, or lacks the profile",
            fix="mend ~/.aws/credentials, or what AWS_SHARED_CREDENTIALS_FILE and AWS_PROFILE name",
            subject="objects",
        ) from None  # an unparsable value may be the secret
    return {one: secret for one, secret in secrets.items() if secret}


_LOCK: Final = ".lock"


@contextmanager
def own_folder(home: Path) -> Iterator[Path]:
    """Yield a new folder in ``home``, for the duration of the block.

    Raises:
        OSError: it cannot be made.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        held, name = tempfile.mkstemp(suffix=_LOCK, dir=home)
        lock, folder = Path(name), Path(name).with_suffix("")
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            if lock.exists():  # else `clear` removed it first
                folder.mkdir(mode=0o700)
                yield folder
                return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink(missing_ok=True)
            os.close(held)


def clear(home: Path) -> None:
    """Remove the folders in ``home`` that no process uses."""
    for lock in home.glob(f"*{_LOCK}"):
        with suppress(OSError), lock.open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink()
    for folder in home.glob("*/"):
        if not folder.with_suffix(_LOCK).exists():  # made first, removed last
            shutil.rmtree(folder, ignore_errors=True)


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


class S3Objects(Objects):
    """Objects in a bucket; see `Objects`. Safe to share between threads."""

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
        with self._reached():
            self._clear(name)  # left by an earlier attempt of this caller
            files = {}
            for file in sorted(source.iterdir()):
                files[file.name] = _digest(file)
                self._put(f"{name}/{file.name}", file)
            self._put(f"{name}/{_FILES}", json.dumps(files).encode())

    @contextmanager
    def at(self, name: str) -> Iterator[Path]:
        if not self._slots.acquire(timeout=_PATIENCE):
            raise self._away("too many of them are fetched at once")
        with ExitStack() as held:
            held.callback(self._slots.release)
            with self._reached():
                folder = held.enter_context(own_folder(self._home)) / "files"
                self._fetch(name, folder)
            yield folder

    def remove(self, name: str) -> None:
        with self._reached():
            self._clear(name)
            if any(True for _ in self._keys(name)):
                raise Unavailable(
                    "objects of the cloud cannot be removed",
                    fix="let its credentials delete in the bucket, and lock nothing there",
                )

    def within(self, name: str) -> list[str]:
        # List each key, because stores built on folders also list empty folders.
        with self._reached():
            rests = (key.removeprefix(f"{name}/") for key in self._keys(name))
            return sorted({rest.partition("/")[0] for rest in rests})

    def put_file(self, source: Path, name: str) -> None:
        """See `Objects.put_file`. S3 shows a key only once it is complete."""
        with self._reached():
            self._put(name, source)

    def size(self, name: str) -> int | None:
        with self._reached(), suppress(FileNotFoundError):
            return obstore.head(self._store, name)["size"]
        return None

    def pieces(self, name: str, offset: int) -> Iterator[bytes]:
        """See `Objects.pieces`. Each range is a separate request, for files of any size."""
        with self._reached(), suppress(FileNotFoundError):
            yield from self._from(name, offset)

    def _from(self, key: str, offset: int = 0) -> Iterator[bytes]:
        with closing(obstore.open_reader(self._store, key, buffer_size=_PART)) as reader:
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
                with (to / file).open("wb") as out:
                    out.writelines(self._from(f"{name}/{file}"))
            except FileNotFoundError:
                raise _damaged(name) from None
            if _digest(to / file) != digest:
                raise _damaged(name)

    def _keys(self, name: str) -> Iterator[str]:
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
