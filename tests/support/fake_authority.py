"""What signs for devices where there is no real cloud: as that does, and as it never should."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

DAY = 86_400.0


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass
class FakeAuthority:
    """Signs any key for ``life``, which is counted in seconds from now."""

    life: tuple[float, float] = (-300.0, 7 * DAY)
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    @property
    def pem(self) -> bytes:
        """Its certificate."""
        return self._made(self.key.public_key(), "fake", (-DAY, DAY), ca=True).public_bytes(
            Encoding.PEM
        )

    def sign(self, csr: bytes) -> bytes:
        """In DER."""
        key = x509.load_der_x509_csr(csr).public_key()
        return self._made(key, "device", self.life, ca=False).public_bytes(Encoding.DER)  # type: ignore[arg-type]

    def _made(
        self, key: ec.EllipticCurvePublicKey, name: str, life: tuple[float, float], *, ca: bool
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        begins, ends = (now + datetime.timedelta(seconds=each) for each in life)
        return (
            x509.CertificateBuilder()
            .serial_number(x509.random_serial_number())
            .subject_name(_name(name))
            .issuer_name(_name("fake"))
            .public_key(key)
            .not_valid_before(begins)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )
