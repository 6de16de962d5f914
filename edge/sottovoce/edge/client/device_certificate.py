"""This device's key, and its certificate from the cloud: two files in the state.

A token can be copied off a device. The key is made here and leaves in no message, and the
certificate is worthless without it. Every use of the certificate reads the file, so the next call
shows a certificate that another process has fetched.

Each cloud has separate files. A key identifies its device, so no other cloud may see it, even after
a change of settings.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sottovoce.core.errors import ConfigError, DataLoss, Unavailable
from sottovoce.core.platform.files import atomic, disk, open_to_others, private_folder
from sottovoce.core.rpc.address import split_address

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["DeviceCertificate", "Held"]

_MARK: Final = 16
"""Hexadecimal digits of a SHA-256, which tell clouds apart in file names."""


@dataclass(frozen=True, slots=True)
class Held:
    """A certificate and its key, as PEM; times in seconds since 1970."""

    certificate: bytes
    key: bytes = field(repr=False)
    begins: float
    ends: float

    @property
    def until(self) -> datetime:
        """The end of the certificate's life."""
        return datetime.fromtimestamp(self.ends, UTC)

    def left(self) -> float:
        """Return the share of its life that is left, by this device's clock.

        It is 1 at the beginning, and 0 or less after the end.
        """
        return (self.ends - time.time()) / (self.ends - self.begins)


class DeviceCertificate:
    """The key and the certificate for one cloud.

    Args:
        state: the folder of the files.
        address: the cloud's address.
    """

    # The library for certificates is imported late, because most devices have none.

    def __init__(self, state: Path, address: str) -> None:
        host, port = split_address(address)
        mark = hashlib.sha256(f"{host.lower()} {port}".encode()).hexdigest()[:_MARK]
        self._file, self._key_file = state / f"device-{mark}.pem", state / f"device-{mark}.key"
        self._held: Held | None = None
        self._lock = threading.Lock()

    @property
    def files(self) -> tuple[Path, Path]:
        """The paths of the certificate and of the key."""
        return self._file, self._key_file

    def held(self) -> Held | None:
        """Return the certificate to show, which may have expired.

        Returns:
            The certificate; None if there is none, or none for this key.

        Raises:
            ConfigError, DataLoss: others can read the key, the agent cannot, or it is damaged.
        """
        try:
            with _readable(self._file):
                pem = self._file.read_bytes()
        except FileNotFoundError:
            return None
        if self._held is None or self._held.certificate != pem:
            self._held = self._parsed(pem)
        return self._held

    def request(self) -> bytes:
        """Return the request for a certificate (PKCS #10, DER).

        The key is made if there is none.

        Raises:
            ConfigError, DataLoss, QuotaExceeded: the key cannot be written, others can read it, or
                it is damaged.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization

        try:
            secret = self._key_bytes()
        except FileNotFoundError:
            secret = self._made_key()
        nameless = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
        signed = nameless.sign(self._key(secret), hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.DER)

    def keep(self, der: bytes) -> Held:
        """Store the certificate that the cloud has signed.

        Raises:
            Unavailable: it is not a certificate for this device's key.
            ConfigError: it is not valid by this device's clock, or it cannot be written.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding

        try:
            pem = x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)
        except ValueError:
            pem = b""
        held = self._parsed(pem)
        if held is None:
            raise Unavailable(
                "what the cloud sent is no certificate for this device's key", fix="try again"
            )
        if not held.begins <= time.time() < held.ends:
            raise ConfigError(
                f"this device's clock says {_told(time.time())}, and the cloud, which has just "
                f"signed a certificate, gives it from {_told(held.begins)} to {_told(held.ends)}",
                fix="set this device's clock (`timedatectl set-ntp true`); if it is right, tell "
                "the provider",
                subject="clock",
            )
        with self._lock, atomic(self._file) as file:
            file.write(pem)
        return held

    def forget(self, refused: Held) -> None:
        """Delete a refused certificate, so that the device asks for another.

        A newer certificate stays.

        Raises:
            ConfigError: the file cannot be removed.
        """
        with self._lock, disk(self._file), suppress(FileNotFoundError):
            if self._file.read_bytes() == refused.certificate:
                self._file.unlink()

    def forget_key(self) -> None:
        """Delete the key and the certificate, so that a new key is made.

        The key is deleted first. A certificate without its key counts as missing, but a key without
        its certificate would be used again.

        Raises:
            ConfigError: the files cannot be removed.
        """
        for file in (self._key_file, self._file):
            with self._lock, disk(file):
                file.unlink(missing_ok=True)

    def _made_key(self) -> bytes:
        """Make a key and return it, or return the key that another process just made."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        private_folder(self._key_file.parent)
        form, secret = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        made = ec.generate_private_key(ec.SECP256R1())
        with atomic(self._key_file, once=True) as file:
            file.write(made.private_bytes(serialization.Encoding.PEM, form, secret))
        try:
            return self._key_bytes()
        except FileNotFoundError as error:
            raise Unavailable(f"{self._key_file} was just removed", fix="try again") from error

    def _parsed(self, pem: bytes) -> Held | None:
        from cryptography import x509

        try:
            read = x509.load_pem_x509_certificate(pem)
            secret = self._key_bytes()
        except (ValueError, FileNotFoundError):  # damaged, or without its key: request a new one
            return None
        if read.public_key() != self._key(secret).public_key():
            return None
        begins, ends = read.not_valid_before_utc, read.not_valid_after_utc
        return Held(pem, secret, begins.timestamp(), ends.timestamp())

    def _key_bytes(self) -> bytes:
        with _readable(self._key_file):
            if open_to_others(self._key_file):
                raise ConfigError(
                    f"other users can read the key {self._key_file}",
                    fix=f"chmod 600 {self._key_file}",
                    subject=str(self._key_file),
                )
            return self._key_file.read_bytes()

    def _key(self, pem: bytes) -> EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(pem, None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, EllipticCurvePrivateKey):
            raise DataLoss(
                f"the key {self._key_file} is damaged",
                fix="bring it back; or remove it, ask the provider for a code, and run "
                "`sotto enroll CODE`",
                subject=str(self._key_file),
            )
        return key


def _told(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="minutes")


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Turn an OSError into an error that names the fix, except FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(
            f"cannot read {file}: {error.strerror}",
            fix="give it to the user that the agent runs as (`chown`), and its folder, too",
            subject=str(file),
        ) from error
