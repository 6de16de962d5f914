"""The device's secret key: seals stored data, and gives documents keyed names.

Released texts keep some words in the clear, so they are encrypted at rest. So is the noise key. A
repeated document must be recognised although the document is not stored. One 32-byte key in a file
of mode 0600 serves both, through a derived key for each purpose.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sottovoce.core.errors import DataLoss
from sottovoce.core.platform.files import disk, read_secret, sync_folder

__all__ = ["AFRESH", "BYTES", "Seal"]

AFRESH = "a fresh ledger starts at 0, so note what was spent"

BYTES = 32
_NONCE = 12


class Seal:
    """AES-256-GCM and HMAC-SHA256 under keys derived from one secret of 32 bytes."""

    def __init__(self, secret: bytes) -> None:
        self._cipher = AESGCM(hmac.digest(secret, b"sottovoce seal v1", hashlib.sha256))
        self._names = hmac.digest(secret, b"sottovoce names v1", hashlib.sha256)
        self.mark = self.name(b"mark")
        """32 bytes that tell this key from any other; stored with the sealed data."""

    @classmethod
    def make(cls, path: Path) -> Seal:
        """Make a new key in a file of mode 0600; it is on disk when this returns."""
        secret = secrets.token_bytes(BYTES)
        with disk(path):
            path.unlink(missing_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secret)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(path.parent)
        return cls(secret)

    @classmethod
    def read(cls, path: Path) -> Seal:
        """Return the key in the file.

        Raises:
            DataLoss: there is no key, or its length is wrong.
            ConfigError: others can read it.
        """
        try:
            with disk(path):
                secret = read_secret(path)
        except FileNotFoundError as error:
            raise DataLoss(
                f"the key {path} is gone, and what it sealed cannot be read",
                fix=f"bring the file back, or move {path.parent} away to start afresh; {AFRESH}",
                subject=str(path),
            ) from error
        if len(secret) != BYTES:
            raise DataLoss(
                f"the key {path} is damaged",
                fix=f"bring the file back, or move {path.parent} away to start afresh; {AFRESH}",
                subject=str(path),
            )
        return cls(secret)

    def seal(self, data: bytes, place: bytes) -> bytes:
        """Return `data` encrypted for a place.

        It opens only with the same `place`, so rows cannot be swapped.
        """
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._cipher.encrypt(nonce, data, place)

    def new_secret(self, place: bytes) -> bytes:
        """Return 32 random bytes, sealed for ``place`` before any caller sees them."""
        return self.seal(secrets.token_bytes(BYTES), place)

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        """Return the decrypted data.

        Raises:
            DataLoss: it was altered, or sealed for another place or with another key.
        """
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], place)
        except (InvalidTag, ValueError) as error:
            raise DataLoss(
                "the agent's stored state was altered or belongs to another key",
                fix="bring back the key file and the database from the same backup",
                subject="state",
            ) from error

    def name(self, *parts: bytes) -> bytes:
        """Return 32 bytes that stand for `parts`, and reveal nothing without the key."""
        mac = hmac.new(self._names, digestmod=hashlib.sha256)
        for part in parts:
            mac.update(len(part).to_bytes(8, "big"))
            mac.update(part)
        return mac.digest()
