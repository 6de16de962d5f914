"""Authentication of a tenant's call by its token and its connection's certificate.

The TLS handshake shows that an authority of ``--client-ca`` signed the certificate, and that it was
valid at that time. The token and the expiry are checked for each call, because a resumed session
does not send its certificate again, and a connection outlives its certificate.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final

import grpc
from cryptography import x509
from cryptography.x509.oid import NameOID

from sottovoce.cloud.store.database import when
from sottovoce.cloud.tenants.tenants import Tenants
from sottovoce.core.errors import Unauthenticated
from sottovoce.core.rpc.channels import TENANTS_ONLY, host
from sottovoce.core.rpc.interceptors import Handler, Interceptor, within

__all__ = ["Certified", "shown", "whose"]

_REMEMBERED: Final = 4096
_LONGEST: Final = 256
"""Characters of a certificate's name."""


class Certified(Interceptor):
    """Authenticates tenants, and refuses client streams without a valid tenant.

    For calls with one request, the doorkeeper asks this object. It goes inside the doorkeeper,
    which turns every call into a stream of requests. Outside, it would check such calls twice.

    Args:
        tenants: knows tokens and the names of the certificates that they belong to.
    """

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants

    def tenant(self, context: grpc.ServicerContext) -> str:
        """Return the tenant of a call.

        Raises:
            Unauthenticated, PermissionDenied: see `Tenants.authenticate`.
            Unauthenticated: the certificate has expired, or has no name.
        """
        found = shown(context)
        if found is not None:
            _check(*found)
        return self._tenants.authenticate(context.invocation_metadata(), found[0] if found else "")

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        if service not in TENANTS_ONLY or not handler.request_streaming:
            return handler
        return within(handler, self._known)

    @contextmanager
    def _known(self, context: grpc.ServicerContext) -> Iterator[None]:
        self.tenant(context)
        yield


def whose(context: grpc.ServicerContext) -> str:
    """Return the caller's identity for limits: the certificate's name, else the host.

    The host identifies callers only without a certificate, because all calls through a balancer
    come from one host.
    """
    found = shown(context)
    return found[0] if found and found[0] else host(context.peer())


def _check(name: str, ends: float) -> None:
    if ends <= time.time():
        raise Unauthenticated(
            f"this device's certificate ended at {when(ends)}",
            fix="have it renewed on the device (`step ca renew`, for example), and call again",
            subject="certificate",
        )
    if not name:
        raise Unauthenticated(
            "this device's certificate has no name that a token could belong to",
            fix="have the authority sign one with a DNS name, a URI or a common name, of "
            f"{_LONGEST} printable ASCII characters at most",
            subject="certificate",
        )


def shown(context: grpc.ServicerContext) -> tuple[str, float] | None:
    """Return the name in a connection's certificate, if any, and the certificate's end.

    The name is "" if the certificate has none. The end is in seconds since 1970.
    """
    found = iter(context.auth_context().get("x509_pem_cert", ()))
    pem = next(found, None)
    return None if pem is None else _read(bytes(pem))


@lru_cache(_REMEMBERED)
def _read(pem: bytes) -> tuple[str, float]:
    certificate = x509.load_pem_x509_certificate(pem)
    return _name(certificate), certificate.not_valid_after_utc.timestamp()


def _name(certificate: x509.Certificate) -> str:
    """Return the first DNS name or URI; the common name only without any (RFC 9525, 6).

    The kind goes in front. An authority that checks DNS names may leave the common name unchecked.
    """
    names = [
        f"CN:{each.value!s}"
        for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    ]
    try:
        others = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        kinds = (x509.DNSName, x509.UniformResourceIdentifier)
        better = [each for each in others if isinstance(each, kinds)]
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        better = []
    if better:
        dns = isinstance(better[0], x509.DNSName)
        names = [f"DNS:{better[0].value.lower()}" if dns else f"URI:{better[0].value}"]
    name = names[0] if names else ""
    return name if name.isascii() and name.isprintable() and len(name) <= _LONGEST else ""
