"""Common parts of both object stores: the owner's id, and the keys of jobs.

A missing object is believed only if the store's id is present. Of several writers under one name,
the first one counts. A subclass reads a name, writes a name once, and lists its failures. The rest
is shared.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from sottovoce.cloud.disk import full_disk_is_unavailable
from sottovoce.core.errors import ConfigError, Unavailable

__all__ = ["KEYS", "OBJECTS_ID", "BoundObjects"]

OBJECTS_ID: Final = "objects.id"
"""The name of the id."""
KEYS: Final = "keys"
"""The folder of the jobs' keys, each under its job's id."""


class BoundObjects(ABC):
    """A base class of `Objects`; its text form is the store's location."""

    failures: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """The errors that mean the store cannot be reached."""
    fix: ClassVar[str]
    """The advice to give in that case."""

    def __init__(self) -> None:
        self._owner = b""

    def bind(self, owner: str, *, take: bool = False) -> str:
        """See `Objects.bind`."""
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
        """See `Objects.leave`. A concurrent process may have removed the binding already."""
        with self._asked():
            if self._read(OBJECTS_ID) == self._owner:
                self._destroy(OBJECTS_ID)

    def reach(self) -> None:
        """See `Objects.reach`."""
        with self._reached():
            pass

    def put_secret(self, job: str, secret: bytes) -> bytes:
        """See `Objects.put_secret`."""
        with self._reached():
            self._put_once(f"{KEYS}/{job}", secret)
            kept = self._read(f"{KEYS}/{job}")
        if kept is None:
            raise self._away("a key went while it was put")
        return kept

    def secret(self, job: str) -> bytes | None:
        """See `Objects.secret`."""
        with self._reached():
            return self._read(f"{KEYS}/{job}")

    def destroy_secret(self, job: str) -> None:
        """See `Objects.destroy_secret`."""
        with self._reached():
            self._destroy(f"{KEYS}/{job}")

    def secrets(self) -> list[tuple[str, str]]:
        """See `Objects.secrets`."""
        return [(name.removeprefix(".").partition(".")[0], name) for name in self.within(KEYS)]

    @abstractmethod
    def within(self, name: str) -> list[str]:
        """See `Objects.within`."""

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
    """Return whether an id belongs to an owner."""
    return found is not None and f"{found.decode(errors='replace')}.".startswith(f"{owner}.")
