"""The owner's files that identify this device: tokens, keys, and the certificate for the cloud.

A program such as step-ca's or cert-manager renews the certificate's files. They are read again when
they change, so a renewal needs no restart.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from sottovoce.core.errors import ConfigError
from sottovoce.core.platform.files import open_to_others, read_secret
from sottovoce.core.rpc.address import matching_pair

__all__ = ["ClientCertificate", "SecretFile", "Shown"]

_log = logging.getLogger(__name__)
_LARGEST: Final = 1 << 20
"""Most bytes of a certificate with its chain."""
_Identity = tuple[tuple[int, int, int], ...]


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


@dataclass(frozen=True, slots=True)
class Shown:
    """A certificate with its chain, and its key, both as PEM; ``ends`` is the certificate's end."""

    certificate: bytes
    key: bytes = field(repr=False)
    ends: datetime


class ClientCertificate:
    """The pair in two files.

    Args:
        certificate: PEM of the certificate, then of its chain.
        key: PEM of the private key.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self.files = (certificate, key)
        self._seen: _Identity = ()
        self._shown: Shown | None = None

    def read(self) -> Shown:
        """Return the pair; read the files only if they changed.

        A renewal may replace the two files one after the other. While they do not match, the
        earlier pair is returned.

        Raises:
            ConfigError: a file cannot be read, the two do not match, or others can read the key;
                and there is no earlier pair.
        """
        try:
            found = tuple(_identity(file) for file in self.files)
        except OSError as error:
            return self._earlier(_unreadable(error))
        if self._shown is not None and found == self._seen:
            return self._shown
        try:
            shown = self._read()
        except ConfigError as error:
            return self._earlier(error)
        self._seen, self._shown = found, shown
        return shown

    def _read(self) -> Shown:
        try:
            certificate = _bytes(self.files[0])
            key = read_secret(self.files[1], subject="cloud.certificate_key")
        except OSError as error:
            raise _unreadable(error) from error
        ends = matching_pair(certificate, key, "cloud.certificate", "cloud.certificate_key")
        return Shown(certificate, key, ends)

    def _earlier(self, error: ConfigError) -> Shown:
        if self._shown is None:
            raise error
        _log.warning("the earlier certificate stays in use: %s", error.problem)
        return self._shown


def _identity(file: Path) -> tuple[int, int, int]:
    found = os.stat(file)
    return found.st_ino, found.st_size, found.st_mtime_ns


def _bytes(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_LARGEST)


def _unreadable(error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot read {error.filename}: {error.strerror}",
        fix="set cloud.certificate and cloud.certificate_key to files that the agent's user can "
        "read",
        subject="cloud.certificate",
    )
