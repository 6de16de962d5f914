"""Authentication of a tenant's call by its token and its connection's certificate.

The TLS handshake shows that our authority signed the certificate, and that it was valid at that
time. The token and the expiry are checked for each call, because a resumed session does not send
its certificate again. A process without a port for certificates must still refuse calls with a
token alone, if certificates are required.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import grpc
from cryptography import x509

from sottovoce.cloud.store.database import when
from sottovoce.cloud.tenants.authority import Key, device
from sottovoce.cloud.tenants.tenants import Tenants
from sottovoce.core.errors import Unauthenticated
from sottovoce.core.rpc.channels import TENANTS_ONLY, host
from sottovoce.core.rpc.interceptors import Handler, Interceptor, within

__all__ = ["Certified", "shown", "whose"]

_REMEMBERED = 4096


class Certified(Interceptor):
    """Authenticates tenants, and refuses client streams without a valid tenant.

    For calls with one request, the doorkeeper asks this object. It goes inside the doorkeeper,
    which turns every call into a stream of requests. Outside, it would check such calls twice.

    Args:
        tenants: knows tokens and device keys, and whether certificates are required.
    """

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants

    def tenant(self, context: grpc.ServicerContext) -> str:
        """Return the tenant of a call.

        Raises:
            Unauthenticated, PermissionDenied: see `Tenants.authenticate`.
            Unauthenticated: the certificate has expired.
        """
        name, ends = shown(context) or ("", None)
        if ends is not None:
            _check_time(ends)
        return self._tenants.authenticate(context.invocation_metadata(), name)

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        if service not in TENANTS_ONLY or not handler.request_streaming:
            return handler
        return within(handler, self._known)

    @contextmanager
    def _known(self, context: grpc.ServicerContext) -> Iterator[None]:
        self.tenant(context)
        yield


def whose(context: grpc.ServicerContext) -> str:
    """Return the caller's identity for limits: the certificate's device, else the host.

    The host identifies callers only without a certificate, because all calls through a balancer
    come from one host.
    """
    found = shown(context)
    return host(context.peer()) if found is None else found[0]


def _check_time(ends: float) -> None:
    if ends <= time.time():
        raise Unauthenticated(
            f"this device's certificate ended at {when(ends)}",
            fix="call again: the device asks for another first; if that fails, check its clock "
            "and its log",
            subject="certificate",
        )


def shown(context: grpc.ServicerContext) -> tuple[str, float] | None:
    """Return the device of a connection's certificate, if any, and the certificate's end.

    The end is in seconds since 1970.
    """
    found = iter(context.auth_context().get("x509_pem_cert", ()))
    pem = next(found, None)
    return None if pem is None else _read(bytes(pem))


@lru_cache(_REMEMBERED)
def _read(pem: bytes) -> tuple[str, float]:
    certificate = x509.load_pem_x509_certificate(pem)
    key = certificate.public_key()
    assert isinstance(key, Key)  # the authority signs no other keys
    return device(key), certificate.not_valid_after_utc.timestamp()
