"""Certificates made for one test."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, as PEM."""

    key: bytes
    certificate: bytes

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Its files ``certificate`` and ``key`` in a folder."""
        certificate, key = folder / "certificate", folder / "key"
        certificate.write_bytes(self.certificate)
        key.touch(0o600)
        key.write_bytes(self.key)
        return certificate, key

    @classmethod
    def make(
        cls, host: str = "127.0.0.1", *, days: tuple[float, float] = (-1, 1), rsa_bits: int = 0
    ) -> Certificate:
        """One for an address, valid between two days counted from now; its own authority."""
        key = (
            rsa.generate_private_key(65537, rsa_bits)
            if rsa_bits
            else ec.generate_private_key(ec.SECP256R1())
        )
        address = x509.IPAddress(ipaddress.ip_address(host))
        return _signed(key, host, [address], days, None)

    def sign(
        self,
        name: str | None,
        others: Sequence[x509.GeneralName] = (),
        days: tuple[float, float] = (-1, 1),
    ) -> Certificate:
        """A client's, signed with this one's key: its common name, and its other names."""
        return _signed(ec.generate_private_key(ec.SECP256R1()), name, others, days, self)


def _signed(
    key: Any,
    name: str | None,
    others: Sequence[x509.GeneralName],
    days: tuple[float, float],
    by: Certificate | None,
) -> Certificate:
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])
    issuer = x509.load_pem_x509_certificate(by.certificate).subject if by else subject
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=days[0]))
        .not_valid_after(now + datetime.timedelta(days=days[1]))
        .add_extension(
            x509.BasicConstraints(ca=by is None, path_length=None if by else 0), critical=True
        )
    )
    if others:
        made = made.add_extension(x509.SubjectAlternativeName(others), critical=False)
    if by:
        clients = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        made = made.add_extension(clients, critical=False)
    secret: Any = serialization.load_pem_private_key(by.key, None) if by else key
    form, open_ = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = made.sign(secret, hashes.SHA256()).public_bytes(_PEM)
    return Certificate(key.private_bytes(_PEM, form, open_), pem)
