"""Secrets of the daemon, which prove that a program can read its state folder.

The OpenAI endpoint and the socket have one secret each. Both files need the same care: only their
owner may read them, and no link is followed. The OpenAI endpoint's secret stays, because people put
it into settings. The socket's secret is new at each start, so a stolen one is useless after that
run.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sottovoce.core.errors import ConfigError
from sottovoce.core.platform.files import atomic, disk, read_secret

__all__ = ["OWNER", "OwnSecret"]


@dataclass(frozen=True, slots=True)
class OwnSecret:
    """A secret in the state folder.

    Attributes:
        file: its name in the folder.
        what: a description, for people.
        prefix: the start of every secret of this kind, so that people and programs recognise it.
        made_by: the command that makes it.
        subject: of errors.
    """

    file: str
    what: str
    prefix: str
    made_by: str
    subject: str

    def renew(self, state: Path) -> str:
        """Replace the secret by a new one, and return it.

        Raises:
            ConfigError: it cannot be written. QuotaExceeded: the disk is full.
        """
        secret = f"{self.prefix}{secrets.token_urlsafe(32)}"
        with atomic(state / self.file) as file:
            file.write(f"{secret}\n".encode())
        return secret

    def read(self, state: Path, *, make: bool = False) -> str:
        """Return the secret.

        Args:
            state: the daemon's state folder.
            make: make a secret if there is none.

        Raises:
            ConfigError: there is none, others can read it, or it cannot be read or written.
        """
        path = state / self.file
        if make and not path.exists():
            self.renew(state)
        with disk(path):
            try:
                found = read_secret(
                    path,
                    self.what,
                    fix="delete it, and restart `sotto serve`, which makes another",
                    subject=self.subject,
                    own=True,
                )
            except OSError as error:
                raise ConfigError(
                    f"cannot read {self.what} {path}",
                    fix=f"start {self.made_by}, which makes one",
                    subject=self.subject,
                ) from error
        secret = found.decode("ascii", "replace").strip()
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
"""The ``sotto`` command proves with this secret that it is the owner's.

An agent that asks apps for tokens checks it.
"""
