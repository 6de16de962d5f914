"""Secrets that the daemon makes, by which who can read its state folder proves it.

Why it is here: the doorway and the socket each have one, and both files want the same care: read
by their owner alone, and no link followed. The doorway's stays, as people put it into settings; the
socket's is made at each start, so that whoever has got one has it of this run alone.
"""

from __future__ import annotations

import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sottovoce.core.errors import ConfigError
from sottovoce.core.system.files import atomic, disk

__all__ = ["OWNER", "OwnSecret"]

_LONGEST: Final = 1_024


@dataclass(frozen=True, slots=True)
class OwnSecret:
    """A secret in the state folder.

    Attributes:
        file: its name there.
        what: it is, for people.
        prefix: of every such secret, so that people and programs know one when they see it.
        made_by: what makes one.
        subject: of errors.
    """

    file: str
    what: str
    prefix: str
    made_by: str
    subject: str

    def renew(self, state: Path) -> str:
        """Another secret, in the place of the one that was there.

        Raises:
            ConfigError: it cannot be written. QuotaExceeded: the disk is full.
        """
        secret = f"{self.prefix}{secrets.token_urlsafe(32)}"
        with atomic(state / self.file) as file:
            file.write(f"{secret}\n".encode())
        return secret

    def read(self, state: Path, *, make: bool = False) -> str:
        """The secret.

        Args:
            state: the daemon's state folder.
            make: make one where there is none.

        Raises:
            ConfigError: there is none, others can read it, or it cannot be read or written.
        """
        path = state / self.file
        if make and not path.exists():
            self.renew(state)
        with disk(path):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            except OSError as error:
                raise ConfigError(
                    f"cannot read {self.what} {path}",
                    fix=f"start {self.made_by}, which makes one",
                    subject=self.subject,
                ) from error
            with os.fdopen(descriptor, "rb") as file:
                if os.fstat(descriptor).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                    raise ConfigError(
                        f"other users can read {self.what} {path}",
                        fix="delete it, and restart `sotto serve`, which makes another",
                        subject=self.subject,
                    )
                secret = file.read(_LONGEST).decode("ascii", "replace").strip()
        if len(secret) < 16 or not secret.isascii() or not secret.isprintable():
            raise ConfigError(
                f"{path} holds no key",
                fix="delete it, and restart `sotto serve`, which makes another",
                subject=self.subject,
            )
        return secret


OWNER: Final = OwnSecret(
    "owner.token", "the owner's token", "sotto-owner-", "`sotto serve`", "agent.apps"
)
"""By which the ``sotto`` command tells an agent that asks for tokens whose it is."""
