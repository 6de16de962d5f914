"""Calls over connections that show a device's certificate: it must be that of the token's device.

Why it is here: the handshake tells that a certificate is our authority's and was valid when the
connection began. Whose token a call then carries, and what the time is, each call says anew; a
resumed session is not even asked for its certificate again.
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

__all__ = ["Certified", "ended", "whose"]

_REMEMBERED = 4096


class Certified(Interceptor):
    """Refuses tenants' calls whose certificate does not fit; goes inside the error interceptor.

    Args:
        tenants: who knows which token belongs to which key.
        required: refuses them without a certificate, too.
    """

    def __init__(self, tenants: Tenants, *, required: bool) -> None:
        self._tenants = tenants
        self._required = required

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        return within(handler, self._checked) if service in TENANTS_ONLY else handler

    @contextmanager
    def _checked(self, context: grpc.ServicerContext) -> Iterator[None]:
        shown = _shown(context)
        if shown is not None:
            _check_time(shown[1])
            self._tenants.check_device(context.invocation_metadata(), shown[0])
        elif self._required:
            raise Unauthenticated(
                "this port lets devices enrol, and answers nothing else without a certificate",
                fix="set cloud.devices_port, which the provider knows, and go on with the same "
                "token: the device gets a certificate by itself",
                subject="devices_port",
            )
        yield


def ended(context: grpc.ServicerContext) -> bool:
    """Whether the certificate that a call's connection has shown, if any, is valid no longer."""
    shown = _shown(context)
    return shown is not None and shown[1] <= time.time()


def whose(context: grpc.ServicerContext) -> str:
    """Who is one caller, whatever he calls: the device whose certificate is shown, and its host
    only where none is, as all that a balancer passes on comes from one."""
    shown = _shown(context)
    return host(context.peer()) if shown is None else shown[0]


def _check_time(ends: float) -> None:
    if ends <= time.time():
        raise Unauthenticated(
            f"this device's certificate ended at {when(ends)}",
            fix="call again: the device asks for another first; if that fails, check its clock "
            "and its log",
            subject="certificate",
        )


def _shown(context: grpc.ServicerContext) -> tuple[str, float] | None:
    found = iter(context.auth_context().get("x509_pem_cert", ()))
    pem = next(found, None)
    return None if pem is None else _read(bytes(pem))


@lru_cache(_REMEMBERED)
def _read(pem: bytes) -> tuple[str, float]:
    """Which device it names, and when it ends."""
    certificate = x509.load_pem_x509_certificate(pem)
    key = certificate.public_key()
    assert isinstance(key, Key)  # the authority signs no other
    return device(key), certificate.not_valid_after_utc.timestamp()
