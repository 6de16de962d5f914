"""Who may call: tenants are authenticated, and open calls and failed attempts are limited.

An open call holds a thread of the server for its whole duration. Without a limit for each tenant,
one tenant could hold all threads, and other tenants would be refused before authentication. A few
tenants must not exhaust the server together either. So a tenant gets no more calls once its open
calls equal the calls that are still free. Later tenants then still find free threads (dynamic
thresholds, Choudhury and Hahne 1998).

A few silent streams could hold all of a tenant's threads for ever. Also, a stream is authenticated
only at its start. A tenant that renews a stolen token must also lose the streams opened with the
old token. So streams that are idle, or whose callers lost access, are ended.

The TLS handshake shows that an authority of ``--client-ca`` signed the certificate, and that it was
valid at that time. A call's token and the expiry are checked for each call, because a resumed
session does not send its certificate again, and a connection outlives its certificate.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Final

import grpc
from cryptography import x509
from cryptography.x509.oid import NameOID

from sottovoce.cloud.store.database import when
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.tenants.credentials import Codes, Scope
from sottovoce.core.errors import InvalidInput, Overloaded, SottovoceError, Unauthenticated
from sottovoce.core.rpc.channels import TENANTS_ONLY, Handler, Interceptor, host, within
from sottovoce.core.rpc.error_status import kind_and_place
from sottovoce.core.rpc.streams import Stream, StreamTracker
from sottovoce.v1 import enrollment_pb2 as wire
from sottovoce.v1 import enrollment_pb2_grpc

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


class Admission:
    """Counts open calls.

    Args:
        calls: the most open calls in total.
        per_tenant: the most open calls of one tenant; fewer while many are open.
    """

    def __init__(self, *, calls: int, per_tenant: int) -> None:
        self._calls, self._per_tenant = calls, per_tenant
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def admitted(self, tenant: str) -> Iterator[None]:
        """Admit one call of ``tenant`` for the duration of the block.

        Raises:
            Overloaded: too many calls are open, in total or for this tenant.
        """
        with self._lock:
            if self._open[tenant] >= self._per_tenant:
                raise Overloaded(
                    f"{self._per_tenant} calls of this tenant are open already",
                    fix="end one, or send more on a stream that is open",
                    subject="calls",
                )
            if self._open[tenant] >= self._calls - self._open.total():
                raise Overloaded(
                    "the cloud has too many calls open",
                    fix="send the same message again later",
                    subject="calls",
                )
            self._open[tenant] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[tenant] -= 1
                if not self._open[tenant]:
                    del self._open[tenant]


MOST: Final = 10
SECONDS: Final = 60.0
_HOSTS: Final = 4096


class FailedAttemptLimiter:
    """Counts failures by host: `MOST` in `SECONDS`, including attempts in progress.

    Args:
        clock: a monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counted: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """By host: the start of its count, and the count; oldest first."""
        self._lock = threading.Lock()

    @contextmanager
    def one(self, peer: str) -> Iterator[None]:
        """Run the block as one attempt, which counts against the host if it fails.

        Raises:
            Overloaded: the host has no attempts left.
        """
        name = host(peer)
        self._add(name, 1)
        try:
            yield
        except (InvalidInput, Unauthenticated):
            raise
        except BaseException:
            self._add(name, -1)
            raise
        self._add(name, -1)

    def _add(self, name: str, change: int) -> None:
        with self._lock:
            now = self._clock()
            while self._counted and (
                next(iter(self._counted.values()))[0] <= now - SECONDS
                or len(self._counted) > _HOSTS
            ):
                self._counted.popitem(last=False)
            since, count = self._counted.get(name, (now, 0))
            if count + change > MOST:
                raise Overloaded(
                    "too many codes from this address were wrong", fix="try again in a minute"
                )
            if name in self._counted or change > 0:
                self._counted[name] = since, max(count + change, 0)


_SCOPES: Final = {
    Scope.ALL: wire.TOKEN_SCOPE_ALL,
    Scope.TRAIN: wire.TOKEN_SCOPE_TRAIN,
    Scope.PREDICT: wire.TOKEN_SCOPE_PREDICT,
}


class EnrollmentService(enrollment_pb2_grpc.EnrollmentServiceServicer):
    """Enrols devices by the provider's codes; callers may be strangers."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._guesses = FailedAttemptLimiter()

    def RedeemCode(  # noqa: N802 - the wire's name
        self, request: wire.RedeemCodeRequest, context: grpc.ServicerContext
    ) -> wire.RedeemCodeResponse:
        """Enrol the device.

        Raises:
            Unauthenticated, InvalidInput, PermissionDenied: see `Codes.redeem`.
            Overloaded: too many wrong codes from this address.
        """
        certificate = shown(context)
        with self._guesses.one(context.peer()):
            done = self._codes.redeem(
                request.code, request.token_sha256, certificate[0] if certificate else ""
            )
        answer = wire.RedeemCodeResponse(
            tenant=done.tenant, name=done.name, scope=_SCOPES[done.scope]
        )
        if done.ends is not None:
            answer.end_time.FromMicroseconds(round(done.ends * 1e6))
        return answer
