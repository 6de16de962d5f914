"""Limits on open calls, in total and for each tenant, and on failed attempts.

An open call holds a thread of the server for its whole duration. Without a limit for each tenant,
one tenant could hold all threads, and other tenants would be refused before authentication. A few
tenants must not exhaust the server together either. So a tenant gets no more calls once its open
calls equal the calls that are still free. Later tenants then still find free threads (dynamic
thresholds, Choudhury and Hahne 1998).

`FailedAttemptLimiter` protects the codes of the enrolment service, which strangers may call,
against guessing from one address.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import grpc

from sottovoce.cloud.api.authentication import shown
from sottovoce.cloud.tenants.codes import Codes
from sottovoce.cloud.tenants.credentials import Scope
from sottovoce.core.errors import InvalidInput, Overloaded, Unauthenticated
from sottovoce.core.rpc.channels import host
from sottovoce.v1 import enrollment_pb2 as wire
from sottovoce.v1 import enrollment_pb2_grpc


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
