"""Certificates made for one test."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificate:
    """A certificate that is its own authority, as PEM."""

    key: bytes
    certificate: bytes

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Its files ``certificate`` and ``key`` in a folder."""
        certificate, key = folder / "certificate", folder / "key"
        certificate.write_bytes(self.certificate)
        key.write_bytes(self.key)
        return certificate, key

    @classmethod
    def make(
        cls, host: str = "127.0.0.1", *, days: tuple[int, int] = (-1, 1), rsa_bits: int = 0
    ) -> Certificate:
        """One for an address, valid between two days counted from now."""
        key = (
            rsa.generate_private_key(65537, rsa_bits)
            if rsa_bits
            else ec.generate_private_key(ec.SECP256R1())
        )
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        now = datetime.datetime.now(datetime.UTC)
        address = x509.IPAddress(ipaddress.ip_address(host))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=days[0]))
            .not_valid_after(now + datetime.timedelta(days=days[1]))
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        return cls(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
            certificate.public_bytes(pem),
        )
