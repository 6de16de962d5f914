"""A file of the owner with one line: a token or key that identifies the device."""

from __future__ import annotations

import logging
from pathlib import Path

from sottovoce.core.errors import ConfigError
from sottovoce.core.platform.files import open_to_others

__all__ = ["SecretFile"]

_log = logging.getLogger(__name__)


class SecretFile:
    """A file that is read for each call, so that a renewed secret needs no restart.

    Args:
        path: the file's path.
        setting: the file's setting in the configuration.
        what: "token" or "key", for people.
    """

    def __init__(self, path: Path, setting: str, what: str) -> None:
        self._path, self._setting, self._what = path, setting, what
        self._warned = False

    def read(self) -> str:
        """Return the secret; log a warning once if others can read it.

        Raises:
            ConfigError: the file cannot be read, or holds no line of printable ASCII.
        """
        try:
            secret = self._path.read_bytes().decode("ascii", "replace").strip()
        except OSError as error:
            raise ConfigError(
                f"cannot read {self._path}: {error.strerror}",
                fix=f"set {self._setting} to a file you can read",
                subject=self._setting,
            ) from error
        if not secret or not secret.isascii() or not secret.isprintable():
            raise ConfigError(
                f"{self._path} holds no {self._what}",
                fix=f"write the {self._what} you were given into it",
                subject=self._setting,
            )
        if open_to_others(self._path) and not self._warned:
            self._warned = True
            _log.warning("other users can read the %s %s: chmod 600 it", self._what, self._path)
        return secret
