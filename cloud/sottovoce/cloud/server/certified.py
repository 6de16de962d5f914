"""Who a tenant's call comes from: its token, and the certificate that its connection shows.

Why it is here: the handshake tells that a certificate is our authority's and was valid when the
connection began. Whose token a call then carries, and what the time is, each call says anew; a
resumed session is not even asked for its certificate again. And a process that has no port for
certificates is to refuse a token alone all the same, where they are required.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import grpc
from cryptography import x509

from sottovoce.cloud.state.authority import Key, device
from sottovoce.cloud.state.database import when
from sottovoce.cloud.state.tenants import Tenants
from sottovoce.core.errors import Unauthenticated
from sottovoce.core.wire.interception import Handler, Interceptor, within
from sottovoce.core.wire.peer import host
from sottovoce.core.wire.tenancy import TENANTS_ONLY

__all__ = ["Certified", "shown", "whose"]

_REMEMBERED = 4096


class Certified(Interceptor):
    """Tells whose call it is, and refuses streams of requests that are nobody's; of calls with one
    request the doorkeeper asks it. Goes inside the doorkeeper, to whose callers every call brings a
    stream of requests, and would be asked about twice.

    Args:
        tenants: who knows which token belongs to which key, and whether there must be one.
    """

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants

    def tenant(self, context: grpc.ServicerContext) -> str:
        """The tenant that a call comes from.

        Raises:
            Unauthenticated, PermissionDenied: see `Tenants.authenticate`.
            Unauthenticated: the certificate has ended.
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
    """Who is one caller, whatever he calls: the device whose certificate is shown, and its host
    only where none is, as all that a balancer passes on comes from one."""
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
    """Which device the certificate names that a call's connection shows, if any, and when it
    ends, in seconds since 1970."""
    found = iter(context.auth_context().get("x509_pem_cert", ()))
    pem = next(found, None)
    return None if pem is None else _read(bytes(pem))


@lru_cache(_REMEMBERED)
def _read(pem: bytes) -> tuple[str, float]:
    certificate = x509.load_pem_x509_certificate(pem)
    key = certificate.public_key()
    assert isinstance(key, Key)  # the authority signs no other
    return device(key), certificate.not_valid_after_utc.timestamp()
