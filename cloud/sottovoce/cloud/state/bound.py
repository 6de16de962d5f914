"""What objects of either kind have in common: whose they are, and keys of jobs beside them.

Why it is here: that something is not there is believed only beside the id, whatever is looked for,
and of several who write under one name the first counts. A kind of objects says how a name is read
and how it is written once, and what its failures are called; the rest is the same for all.
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
"""Under what the id lies."""
KEYS: Final = "keys"
"""Under what keys of jobs lie, each by the job's name."""


class BoundObjects(ABC):
    """A half of `Objects`; as text, where they lie."""

    failures: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """With which they say that they are away."""
    fix: ClassVar[str]
    """What is to be done then."""

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
        """See `Objects.leave`. Another who took them with us may have left them, too."""
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
        """What lies under a name; None if nothing does."""

    @abstractmethod
    def _put_once(self, name: str, data: bytes) -> None:
        """Has it lie there, where nothing does yet."""

    @abstractmethod
    def _destroy(self, name: str) -> None:
        """Has nothing lie there, for good as far as that can be."""

    @abstractmethod
    def _check(self) -> None:
        """Raises ConfigError if they cannot do what is asked of them."""

    def _said(self, error: Exception) -> str:
        """What a failure says, without names of anything."""
        return getattr(error, "strerror", "") or "no answer"

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Around all that asks for what lies there."""
        try:
            with full_disk_is_unavailable():
                yield
        except self.failures as error:
            # Not chained: what a store says may name keys and accounts.
            raise self._away(self._said(error)) from None

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """The same, beside the id: below a mount point may be another folder, and a bucket may be
        made anew, or be another's."""
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
    """Whether an id is an owner's."""
    return found is not None and f"{found.decode(errors='replace')}.".startswith(f"{owner}.")
