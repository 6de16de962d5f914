"""The port of any process that serves devices, with limits, call counts and shutdown.

A server, a replica and a front offer different services. Limits, authentication, metrics and
shutdown are the same for all three.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from sottovoce.cloud.api.authentication import Certified, IdleStreamReaper, whose
from sottovoce.cloud.config import Settings
from sottovoce.cloud.metrics import CallMetrics, expose
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import Tenants
from sottovoce.core.errors import ConfigError
from sottovoce.core.platform import memory
from sottovoce.core.platform.threads import (
    DAEMON_FILES,
    Ending,
    Threads,
    room_for_files,
    room_for_threads,
)
from sottovoce.core.rpc.address import check_certificate, matching_pair
from sottovoce.core.rpc.channels import (
    TENANTS_ONLY,
    Handler,
    Interceptor,
    PendingCallLimiter,
    serve_reflection,
    within,
)
from sottovoce.core.rpc.error_status import ErrorInterceptor
from sottovoce.core.rpc.streams import OpenStreams
from sottovoce.core.rpc.telemetry import Traced
from sottovoce.v1 import bundles_pb2, enrollment_pb2, generation_pb2, inference_pb2, training_pb2


class CallCounter(Interceptor):
    """Goes outside the error interceptor."""

    def __init__(self, metrics: CallMetrics) -> None:
        self._calls = metrics.calls

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        return within(handler, lambda context: self._counted(method, context))

    @contextmanager
    def _counted(self, method: str, context: Any) -> Iterator[None]:
        try:
            yield
        finally:
            left = grpc.StatusCode.OK if context.is_active() else grpc.StatusCode.CANCELLED
            self._calls.labels(method, (context.code() or left).name).inc()


STREAMS = 64  # of unauthenticated callers: downloads, health, reflection
WAITING = 128  # calls whose request has not arrived
PATIENCE = 60.0, 10.0  # seconds for tenants' calls, and for unauthenticated ones
IDLE, TOKENS_AGAIN = 300.0, 5.0  # seconds: idle limit of a stream, time between token checks
QUEUED_CALLS = 256  # calls that wait for a thread to serve or refuse them

BUNDLES, ENROLLMENT, TRAINING, INFERENCE, GENERATION = (
    module.DESCRIPTOR.services_by_name[name].full_name
    for module, name in (
        (bundles_pb2, "BundlesService"),
        (enrollment_pb2, "EnrollmentService"),
        (training_pb2, "TrainingService"),
        (inference_pb2, "InferenceService"),
        (generation_pb2, "GenerationService"),
    )
)
_log = logging.getLogger(__name__)
_OPTIONS = (
    ("grpc.max_concurrent_streams", 256),  # per connection; further calls wait in the client
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.so_reuseport", 0),  # a second server on the port is an error
)


class Listener:
    """A gRPC server on ``settings.listen``.

    Services are added to ``server`` before it starts. ``address`` has the actual port.

    Args:
        services: the names of its services, for health checks.
        calls: the most open calls of tenants; each holds a thread.
        news: see `IdleStreamReaper`.

    Raises:
        ConfigError: the port is taken, or a TLS file is unreadable.
    """

    def __init__(
        self,
        settings: Settings,
        tenants: Tenants,
        metrics: CallMetrics,
        services: Collection[str],
        calls: int,
        news: Callable[[], int],
    ) -> None:
        self._services = tuple(services)
        self._grace = settings.grace_seconds
        self._health = health.HealthServicer()
        # Long calls hold one thread each; the other threads serve short calls.
        threads = calls + STREAMS + WAITING + 64
        self._calls = Threads(threads, "rpc")
        certified = Certified(tenants)
        self._doorkeeper = PendingCallLimiter(
            most=WAITING, seconds=PATIENCE, tenants_only=TENANTS_ONLY, authenticate=certified.tenant
        )
        self._attendant = IdleStreamReaper(
            TENANTS_ONLY, certified.tenant, idle=IDLE, again=TOKENS_AGAIN, news=news
        )
        self.server = grpc.server(
            self._calls,
            interceptors=[
                CallCounter(metrics),
                Traced(),
                ErrorInterceptor(),
                self._doorkeeper,
                certified,
                OpenStreams(STREAMS, lambda service: service not in TENANTS_ONLY, whose),
                self._attendant,
            ],
            options=[
                *_OPTIONS,
                ("grpc.max_receive_message_length", settings.limits.message),
                ("grpc.max_send_message_length", settings.limits.message),
            ],
            maximum_concurrent_rpcs=threads + QUEUED_CALLS,
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.server)
        serve_reflection(self.server, (*self._services, health.SERVICE_NAME))
        self.address = self._bind(settings)
        self._stop_metrics = self._expose(settings, metrics)

    def _bind(self, settings: Settings) -> str:
        listen = settings.listen
        try:
            if settings.tls_cert and settings.tls_key:
                files = _TlsFiles(settings.tls_cert, settings.tls_key, settings.client_ca)
                port = self.server.add_secure_port(listen, files.credentials())
            else:
                port = self.server.add_insecure_port(listen)
        except (OSError, RuntimeError) as error:
            raise ConfigError(
                f"cannot listen on {listen}",
                fix="choose a free address with --listen, and check the TLS files if there are any",
            ) from error
        if listen.startswith("unix:"):
            return listen
        return f"{listen.rpartition(':')[0]}:{port}"

    def _expose(self, settings: Settings, metrics: CallMetrics) -> Callable[[], None]:
        if not settings.metrics:
            return lambda: None
        try:
            return expose(metrics, settings.metrics)
        except ConfigError:
            self.server.stop(None)
            raise

    def start(self) -> None:
        self.server.start()
        self._doorkeeper.start()
        self._attendant.start()
        for name in ("", *self._services):
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def stop(self) -> None:
        """Refuse new calls and let open calls end. Metrics stay available until `close`."""
        self._health.enter_graceful_shutdown()
        self.server.stop(self._grace).wait()
        self._calls.shutdown(wait=False)  # grpc leaves this to its caller
        self._doorkeeper.close()
        self._attendant.close()

    def close(self) -> None:
        """Stop the metrics endpoint."""
        self._stop_metrics()


class _TlsFiles:
    """The server's certificate, its key, and the authorities of clients.

    Files that change are read again, so a renewal needs no restart. Open connections go on, and new
    ones get the new certificate.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        self._files = (certificate, key) if client_ca is None else (certificate, key, client_ca)
        self._seen: list[tuple[int, int, int]] = []

    def credentials(self) -> grpc.ServerCredentials:
        self._seen = self._identities()
        return grpc.dynamic_ssl_server_credentials(
            self._read(),
            self._changed,  # type: ignore[arg-type] # None is allowed
            require_client_authentication=len(self._files) == 3,
        )

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the new files; None if they did not change or cannot be used.

        gRPC asks before each handshake. The earlier files then stay in use.
        """
        try:
            found = self._identities()
            if found == self._seen:
                return None
            read = self._read()
        except (OSError, ConfigError) as error:
            _log.error("the earlier TLS files stay in use: %s", error)
            return None
        self._seen = found
        _log.info("the renewed TLS files are in use")
        return read

    def _identities(self) -> list[tuple[int, int, int]]:
        found = [os.stat(file) for file in self._files]
        return [(each.st_ino, each.st_size, each.st_mtime_ns) for each in found]

    def _read(self) -> grpc.ServerCertificateConfiguration:
        certificate, key, *authorities = (file.read_bytes() for file in self._files)
        check_certificate(certificate, "--tls-cert")
        matching_pair(certificate, key, "--tls-cert", "--tls-key")
        for pem in authorities:
            check_certificate(pem, "--client-ca")
        return grpc.ssl_server_certificate_configuration(
            [(key, certificate)], authorities[0] if authorities else None
        )


_LARGE, _ARENAS = 4 << 20, 2
"""Size in bytes from which a freed block returns to the system, and the number of shared heaps.

Otherwise short-lived memory of a pass lies among lasting memory, and the process grows for hours:
by 61 MB in an hour of mixed use (docs/lab_notes.md)."""


class _Stoppable(Protocol):
    def stop(self) -> None: ...


class _Server(_Stoppable, Protocol):
    database: Database

    def start(self) -> None: ...


_S = TypeVar("_S", bound=_Server)


def until_told(
    opened: Callable[[], _S],
    on_ready: Callable[[_S], None],
    beside: Callable[[], _Stoppable] | None = None,
) -> None:
    """Run a server until SIGTERM or SIGINT, and end it in order.

    Args:
        on_ready: called once calls are answered.
        beside: starts a companion process, if any, which is stopped first.

    Raises:
        NotReady: files or threads are exhausted.
        DataLoss: the files of the database were replaced while it ran.
        KeyboardInterrupt: SIGINT ended it, after an orderly shutdown.
    """
    memory.bound_heap(_LARGE, _ARENAS)
    room_for_files(DAEMON_FILES)
    room_for_threads()
    ending = Ending()
    server = opened()
    server.database.lost = ending.set  # to close the database then raises DataLoss
    other = beside() if beside is not None else None
    try:
        server.start()
        on_ready(server)
        ended_by = ending.wait()
        _log.info("stopping")
    finally:
        if other is not None:
            other.stop()
        server.stop()
    if ended_by is signal.SIGINT:
        raise KeyboardInterrupt
