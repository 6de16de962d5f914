"""Keys of devices, what they ask to have signed, and connections that show what was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

OWN = (("grpc.use_local_subchannel_pool", 1),)


def key(curve: ec.EllipticCurve | None = None) -> ec.EllipticCurvePrivateKey:
    """A new one."""
    return ec.generate_private_key(curve or ec.SECP256R1())


def pem(secret: Any) -> bytes:
    """The private key."""
    return bytes(secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def request(
    secret: Any, *attributes: x509.NameAttribute, digest: Any = None, extensions: Any = ()
) -> bytes:
    """A certificate request (PKCS #10, DER), signed with the key."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(list(attributes)))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=True)
    return builder.sign(secret, digest or hashes.SHA256()).public_bytes(Encoding.DER)


@contextmanager
def shown(address: str, roots: bytes, secret: Any, *ders: bytes) -> Iterator[grpc.Channel]:
    """A connection of its own that shows a chain of certificates, or without one none."""
    chain = b"".join(x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM) for der in ders)
    credentials = grpc.ssl_channel_credentials(roots, pem(secret) if chain else None, chain or None)
    with grpc.secure_channel(address, credentials, OWN) as channel:
        yield channel
