"""Authenticate a tenant's calls, and end streams that are idle or whose callers lost access.

An open stream holds a thread, and each tenant may hold only a few threads. A few silent streams
could hold all of them for ever. Also, a stream is authenticated only at its start. A tenant that
renews a stolen token must also lose the streams opened with the old token.

The TLS handshake shows that an authority of ``--client-ca`` signed the certificate, and that it was
valid at that time. A call's token and the expiry are checked for each call, because a resumed
session does not send its certificate again, and a connection outlives its certificate.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Final

import grpc
from cryptography import x509
from cryptography.x509.oid import NameOID

from sottovoce.cloud.store.database import when
from sottovoce.cloud.tenants.tenants import Tenants
from sottovoce.core.errors import SottovoceError, Unauthenticated
from sottovoce.core.rpc.channels import TENANTS_ONLY, Handler, Interceptor, host, within
from sottovoce.core.rpc.status import kind_and_place
from sottovoce.core.rpc.streams import Stream, StreamTracker

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


_log = logging.getLogger(__name__)
_LAST_LOOK_SECONDS: Final = 5.0


class IdleStreamReaper(StreamTracker):
    """Ends idle and unauthorised streams.

    A stream without further requests is idle only while its caller does not read.

    Args:
        tenants_only: names of the services whose streams are watched.
        authenticate: returns the tenant of a call, or raises `Unauthenticated`.
        idle: seconds without a message after which a stream ends, if it waits for requests or for
            its caller to read.
        again: seconds between two checks of the tokens of open streams. A token's expiry announces
            nothing.
        news: returns a number that changes when a token may have been revoked, on any machine. A
            change triggers a check without delay.
    """

    def __init__(
        self,
        tenants_only: Collection[str],
        authenticate: Callable[[grpc.ServicerContext], str],
        *,
        idle: float,
        again: float,
        news: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(tenants_only.__contains__)
        self._authenticate = authenticate
        self._idle, self._again = idle, again
        self._news = news
        self._looked = time.monotonic()
        self._known: int | None = None
        self._closed = threading.Event()
        self._looking = threading.Thread(target=self._look, name="attendant", daemon=True)

    def start(self) -> None:
        self._looking.start()

    def close(self) -> None:
        """Stop the checks, so that the database can be closed."""
        self._closed.set()
        if self._looking.is_alive():
            self._looking.join(_LAST_LOOK_SECONDS)

    def _look(self) -> None:
        with suppress(Exception):  # on failure, assume that something changed
            self._known = self._news()
        while not self._closed.wait(min(1.0, self._idle, self._again)):
            try:
                self._look_once()
            except Exception as error:  # without this thread, no open stream would end
                _log.error("open streams are looked at again: %s", kind_and_place(error))

    def _look_once(self) -> None:
        now = time.monotonic()
        with self._lock:
            streams = [*self._open]
        for stream in streams:
            if (stream.listens or stream.unread) and stream.moved < now - self._idle:
                stream.context.cancel()
        news = self._news() if streams else self._known
        if now - self._looked >= self._again or news != self._known:
            for stream in self._forbidden(streams):
                stream.context.cancel()
            self._looked, self._known = now, news

    def _forbidden(self, streams: Collection[Stream]) -> list[Stream]:
        """Return streams of callers without access now; each caller is checked once."""
        callers: dict[Hashable, list[Stream]] = {}
        for stream in streams:
            said = frozenset((k, v) for k, v in stream.context.invocation_metadata())
            callers.setdefault((said, shown(stream.context)), []).append(stream)
        return [s for own in callers.values() if not self._permitted(own[0].context) for s in own]

    def _permitted(self, context: grpc.ServicerContext) -> bool:
        try:
            self._authenticate(context)
        except Unauthenticated:
            return False
        except SottovoceError:  # the database is busy: ask again soon
            return True
        except Exception as error:  # an error must not stop the check of other streams
            _log.error("a caller is asked about again: %s", kind_and_place(error))
            return True
        return True
