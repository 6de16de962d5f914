"""This device's key and the certificate that the cloud gives it: two files in the agent's state.

Why it is here: who copies a token off a device has it; the key is made here, leaves in no message,
and without it the certificate is worth nothing. Whoever needs a certificate reads the file, so that
one which another process has fetched is shown from the next call on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sottovoce.core.errors import ConfigError, DataLoss, Unavailable
from sottovoce.core.system.files import atomic, open_to_others, private_folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["CERTIFICATE", "KEY", "DeviceCertificate", "Held"]

CERTIFICATE: Final = "device.pem"
KEY: Final = "device.key"


@dataclass(frozen=True, slots=True)
class Held:
    """A certificate and its key, as PEM; times in seconds since 1970."""

    certificate: bytes
    key: bytes = field(repr=False)
    begins: float
    ends: float

    @property
    def until(self) -> datetime:
        """Its end."""
        return datetime.fromtimestamp(self.ends, UTC)

    def left(self) -> float:
        """Of its life, by this device's clock: 1 at its beginning, 0 and less after its end."""
        return (self.ends - time.time()) / (self.ends - self.begins)


class DeviceCertificate:
    """Both files in a folder."""

    # What reads certificates is imported late: most devices have none.

    def __init__(self, state: Path) -> None:
        self._file, self._key_file = state / CERTIFICATE, state / KEY
        self._held: Held | None = None

    @property
    def files(self) -> tuple[Path, Path]:
        """The certificate's, and the key's."""
        return self._file, self._key_file

    def held(self) -> Held | None:
        """What to show; None where there is none, or none for this key. It may have ended.

        Raises:
            ConfigError, DataLoss: others can read the key, or it is damaged.
        """
        try:
            pem = self._file.read_bytes()
        except OSError:
            return None
        if self._held is None or self._held.certificate != pem:
            self._held = self._parsed(pem)
        return self._held

    def request(self) -> bytes:
        """What the cloud is to sign (PKCS #10, DER); the key is made where there is none.

        Raises:
            ConfigError, DataLoss, QuotaExceeded: it cannot be written, others can read it, or it is
                damaged.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        if not self._key_file.exists():
            private_folder(self._key_file.parent)
            form, secret = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            made = ec.generate_private_key(ec.SECP256R1())
            with atomic(self._key_file, once=True) as file:
                file.write(made.private_bytes(serialization.Encoding.PEM, form, secret))
        nameless = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
        signed = nameless.sign(self._key(self._key_bytes()), hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.DER)

    def keep(self, der: bytes) -> Held:
        """Takes what the cloud has signed.

        Raises:
            Unavailable: it is no certificate for this device's key.
            ConfigError: it is not valid by this device's clock; or it cannot be written.
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
        with atomic(self._file) as file:
            file.write(pem)
        return held

    def forget(self, *, key: bool = False) -> None:
        """Removes the certificate, so that another is asked for; and the key, so that one is made
        which no other cloud has seen."""
        self._file.unlink(missing_ok=True)
        if key:
            self._key_file.unlink(missing_ok=True)

    def _parsed(self, pem: bytes) -> Held | None:
        from cryptography import x509

        try:
            read = x509.load_pem_x509_certificate(pem)
            secret = self._key_bytes()
        except (ValueError, FileNotFoundError):  # damaged, or without its key: asked for again
            return None
        if read.public_key() != self._key(secret).public_key():
            return None
        begins, ends = read.not_valid_before_utc, read.not_valid_after_utc
        return Held(pem, secret, begins.timestamp(), ends.timestamp())

    def _key_bytes(self) -> bytes:
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
