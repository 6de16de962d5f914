"""The provider's certificate authority for devices.

Anyone who copies a token can use it. A certificate belongs to a key that never leaves the device.
It expires within days, so no revocation list is needed. It names only its key. The database records
which token belongs to that key.
"""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sottovoce.core.errors import ConfigError, InvalidInput
from sottovoce.core.platform.files import atomic, open_to_others, private_folder

__all__ = ["AUTHORITY", "AUTHORITY_KEY", "LARGEST_REQUEST", "Authority", "asked", "device"]

AUTHORITY, AUTHORITY_KEY = "authority.pem", "authority.key"
"""Files in the server's state: the public certificate, and the private key."""
LARGEST_REQUEST: Final = 4 << 10
"""Bytes."""
_YEARS: Final = datetime.timedelta(days=3653)
_EARLIER: Final = datetime.timedelta(minutes=5)
"""Allows for a device whose clock is a little behind."""
_PEM: Final = serialization.Encoding.PEM

Key = ec.EllipticCurvePublicKey


def device(key: Key) -> str:
    """Return a device's id: SHA-256 of its key, 64 digits."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).hexdigest()


def asked(request: bytes) -> Key:
    """Return the key of a certificate request (PKCS #10, DER), after checking its signature.

    Raises:
        InvalidInput: it is malformed, too large, has a key of another kind, or a wrong signature.
    """
    try:
        if len(request) > LARGEST_REQUEST:
            raise ValueError
        read = x509.load_der_x509_csr(request)
        key, digest = read.public_key(), read.signature_hash_algorithm
        signed = isinstance(digest, hashes.SHA256) and read.is_signature_valid
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _unfit(f"is no certificate request of {LARGEST_REQUEST} bytes at most") from error
    if not isinstance(key, Key) or not isinstance(key.curve, ec.SECP256R1):
        raise _unfit("is for a key of another kind than P-256")
    if not signed:
        raise _unfit("is not signed with the key it is for, by ECDSA with SHA-256")
    return key


@dataclass(frozen=True, slots=True)
class Authority:
    """A signing key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        """The certificate."""
        return self.certificate.public_bytes(_PEM)

    @classmethod
    def make(cls, state: Path) -> Authority:
        """Create an authority in a folder; concurrent calls all return the first one.

        Raises:
            InvalidInput: an authority exists. ConfigError: it cannot be written.
        """
        if (state / AUTHORITY).exists():
            raise InvalidInput(
                f"{state} has an authority",
                fix=f"keep it; to begin another, move {AUTHORITY} and {AUTHORITY_KEY} away, and "
                "start the servers again: devices get new certificates with their tokens",
                subject=AUTHORITY,
            )
        private_folder(state)
        with atomic(state / AUTHORITY_KEY, once=True) as file:
            form, secret = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            file.write(ec.generate_private_key(ec.SECP256R1()).private_bytes(_PEM, form, secret))
        key = _key(state / AUTHORITY_KEY)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Sottovoce devices")])
        now = datetime.datetime.now(datetime.UTC)
        named = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = (
            _builder(key.public_key(), name, name, now - _EARLIER, now + _YEARS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(sign_certificates=True), critical=True)
            .add_extension(named, critical=False)
            .sign(key, hashes.SHA256())
        )
        with atomic(state / AUTHORITY, once=True) as file:
            file.write(certificate.public_bytes(_PEM))
        return cls.read(state)

    @classmethod
    def read(cls, state: Path) -> Authority:
        """Read the authority in a folder.

        Raises:
            ConfigError: it does not exist, a file is missing, damaged or does not match, others can
                read the key, or it has expired.
        """
        file = state / AUTHORITY
        if not file.exists():
            raise ConfigError(
                f"there is no authority for devices in {state}",
                fix="make one with `sotto-cloud authority init`, or bring its files there",
                subject=str(file),
            )
        key = _key(state / AUTHORITY_KEY)
        try:
            certificate = x509.load_pem_x509_certificate(file.read_bytes())
            certificate.verify_directly_issued_by(certificate)
            ours = certificate.public_key() == key.public_key()
        except (OSError, ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
            raise _unusable(file, "is no certificate of an authority") from error
        if not ours:
            raise _unusable(file, f"does not fit {AUTHORITY_KEY}")
        if certificate.not_valid_after_utc <= datetime.datetime.now(datetime.UTC):
            raise _unusable(file, "has ended")
        return cls(key, certificate)

    def sign(self, key: Key, days: float, now: datetime.datetime | None = None) -> bytes:
        """Return a certificate for a device's key, in DER.

        Args:
            days: lifetime from now on, limited by the authority's own certificate.
            now: replaces the current time.
        """
        now = now or datetime.datetime.now(datetime.UTC)
        own = self.certificate
        ends = min(now + datetime.timedelta(days=days), own.not_valid_after_utc)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, device(key))])
        clients = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        by = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return (
            _builder(key, name, own.subject, now - _EARLIER, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign_certificates=False), critical=True)
            .add_extension(clients, critical=True)
            .add_extension(by, critical=False)
            .sign(self.key, hashes.SHA256())
            .public_bytes(serialization.Encoding.DER)
        )


def _builder(
    key: Key,
    subject: x509.Name,
    issuer: x509.Name,
    begins: datetime.datetime,
    ends: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key(file: Path) -> ec.EllipticCurvePrivateKey:
    try:
        if open_to_others(file):
            raise ConfigError(
                f"other users can read the key {file}", fix=f"chmod 600 {file}", subject=str(file)
            )
        key = serialization.load_pem_private_key(file.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unusable(file, "is no private key that can be read") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise _unusable(file, "is no private key on a curve")
    return key


def _unusable(file: Path, how: str) -> ConfigError:
    return ConfigError(
        f"{file} {how}",
        fix=f"bring {AUTHORITY} and {AUTHORITY_KEY} back from one backup, or move both away and "
        "run `sotto-cloud authority init`: devices get new certificates with their tokens",
        subject=str(file),
    )


def _unfit(how: str) -> InvalidInput:
    return InvalidInput(
        f"what was sent {how}",
        fix="make a key on P-256, and a request with it, in DER (`sotto` does)",
        subject="csr",
    )
