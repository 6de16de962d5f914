"""The server process: wires the parts together, opens the port, ends in order."""

from __future__ import annotations

import gc
import logging
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
import torch
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from sottovoce.cloud.config import STORE_VARIABLE, Settings
from sottovoce.cloud.jobs.ending import keep_room
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.models import backbone, decoder
from sottovoce.cloud.server.attendant import Attendant
from sottovoce.cloud.server.bundles_service import BundlesService
from sottovoce.cloud.server.downloads import CALLS as ADAPTERS
from sottovoce.cloud.server.downloads import Downloads
from sottovoce.cloud.server.generation_service import (
    TEXTS,
    GenerationService,
    Write,
    from_decoder,
)
from sottovoce.cloud.server.inference_service import CALLS, InferenceService
from sottovoce.cloud.server.metrics import CallCounter, JobsCollector, expose
from sottovoce.cloud.server.training_service import UPLOADS, WATCHES, TrainingService
from sottovoce.cloud.serving.embedder import Embedder
from sottovoce.cloud.serving.generator import Generator
from sottovoce.cloud.serving.model_thread import ModelThread, numbers
from sottovoce.cloud.serving.predictor import Predictor
from sottovoce.cloud.serving.upstream import Upstream
from sottovoce.cloud.state.opening import open_database
from sottovoce.cloud.state.signing import SIGNING_KEY, signature_of
from sottovoce.cloud.state.tenants import Tenants
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import BundleMismatch, ConfigError
from sottovoce.core.system.signals import Ending
from sottovoce.core.wire.certificates import check_certificate
from sottovoce.core.wire.doorkeeper import Doorkeeper
from sottovoce.core.wire.open_streams import OpenStreams
from sottovoce.core.wire.reflection import serve_reflection
from sottovoce.core.wire.status import ErrorInterceptor
from sottovoce.v1 import (
    bundles_pb2,
    bundles_pb2_grpc,
    generation_pb2,
    generation_pb2_grpc,
    inference_pb2,
    inference_pb2_grpc,
    training_pb2,
    training_pb2_grpc,
)

__all__ = ["Server", "WorkerProcess", "serve"]

STREAMS = 64  # of callers who need not say who they are: downloads, health, reflection
WAITING = 128  # calls whose request has not arrived
PATIENCE = 60.0, 10.0  # seconds with a tenant's, and with those of nobody in particular
IDLE, TOKENS_AGAIN = 300.0, 5.0  # seconds: of a stream without messages, between looks at tokens
# What is open holds one, what is short the rest.
THREADS = CALLS + TEXTS + UPLOADS + WATCHES + ADAPTERS + STREAMS + WAITING + 64
QUEUED_CALLS = 256  # beyond the threads, until one is free to answer or refuse them
DTYPES = {"auto": None, "float32": torch.float32, "bfloat16": torch.bfloat16}
RESTART_SECONDS, LONGEST_PAUSE = 1.0, 60.0
STEADY_SECONDS = 60.0

_log = logging.getLogger(__name__)
_SERVICES = tuple(
    module.DESCRIPTOR.services_by_name[name].full_name
    for module, name in (
        (bundles_pb2, "Bundles"),
        (training_pb2, "Training"),
        (inference_pb2, "Inference"),
        (generation_pb2, "Generation"),
    )
)
_TENANTS_ONLY = frozenset(name for name in _SERVICES if not name.endswith(".Bundles"))
_OPTIONS = (
    ("grpc.max_concurrent_streams", 256),  # of one connection; what is more waits there
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.so_reuseport", 0),  # a second server on the port is an error, not a twin
)


class WorkerProcess:
    """Keeps one worker running beside the server, and starts it again if it dies: after a pause
    that doubles as long as it dies at once, for starting costs seconds of a processor."""

    def __init__(self, settings: Settings, parent: int) -> None:
        self._command = [
            sys.executable, "-m", "sottovoce.cloud.training.worker",
            "--state", str(settings.state),
            "--objects", settings.objects,
            "--backbone", settings.backbone,
            "--decoder", settings.decoder,
            "--threads", str(settings.training_threads),
            "--training-seconds", str(settings.limits.training_seconds),
            "--parent", str(parent),
            # One at a time: who comes after a worker that died goes on with its job at once.
            "--owner", secrets.token_hex(8),
            *(part for folder in settings.bundles for part in ("--bundle", str(folder))),
        ]  # fmt: skip
        # Not on the command line, which all users of the machine can read.
        self._environment = {**os.environ, STORE_VARIABLE: settings.store}
        self._grace = settings.grace_seconds
        self._ending = threading.Event()
        self._process = self._start()
        self._thread = threading.Thread(target=self._watch, name="worker-watch", daemon=True)
        self._thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._environment)

    @property
    def pid(self) -> int:
        """Process id of the worker running now."""
        return self._process.pid

    def _watch(self) -> None:
        pause, began = RESTART_SECONDS, time.monotonic()
        while not self._ending.wait(RESTART_SECONDS):
            code = self._process.poll()
            if code is None:
                continue
            at_once = time.monotonic() - began < STEADY_SECONDS
            pause = min(2 * pause, LONGEST_PAUSE) if at_once else RESTART_SECONDS
            _log.warning("the worker ended with code %d; another starts in %g s", code, pause)
            if self._ending.wait(pause):
                return
            self._process, began = self._start(), time.monotonic()

    def stop(self) -> None:
        """Has the worker write its checkpoint and end."""
        self._ending.set()
        self._thread.join()
        self._process.terminate()
        try:
            self._process.wait(self._grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Server:
    """The gRPC server over one state folder; the worker is not its business.

    Raises:
        ConfigError: the port is taken, no bundle is given, or a TLS file unreadable.
        BundleMismatch: a bundle was made from another backbone.
        NotFound, InvalidInput: no such decoder, or one that cannot be served.
    """

    def __init__(self, settings: Settings) -> None:
        torch.set_num_threads(settings.threads)
        loaded = backbone.load(settings.backbone)
        dtype = numbers(DTYPES[settings.precision])
        self.decoder = decoder.load(settings.decoder, dtype=dtype) if settings.decoder else None
        upstream = _upstream(settings)
        self.bundles = _open_bundles(settings, loaded.sha256)
        self.database = open_database(settings.state, settings.store, settings.objects)
        self.signatures = {
            identity: signature_of(bundle, settings.state / SIGNING_KEY)
            for identity, bundle in self.bundles.items()
        }
        self.jobs = Jobs(self.database, settings.limits)
        keep_room(settings.state)
        self.tenants = Tenants(self.database)
        self._grace = settings.grace_seconds
        self.metrics = Metrics()
        self.metrics.registry.register(JobsCollector(self.jobs))
        self._health = health.HealthServicer()
        self._calls = ThreadPoolExecutor(THREADS, thread_name_prefix="rpc")
        self._doorkeeper = Doorkeeper(
            most=WAITING,
            seconds=PATIENCE,
            tenants_only=_TENANTS_ONLY,
            authenticate=self.tenants.authenticate,
        )
        self._attendant = Attendant(
            _TENANTS_ONLY, self.tenants.authenticate, idle=IDLE, again=TOKENS_AGAIN
        )
        self._server = grpc.server(
            self._calls,
            interceptors=[
                CallCounter(self.metrics),
                ErrorInterceptor(),
                self._doorkeeper,
                OpenStreams(STREAMS, lambda service: service not in _TENANTS_ONLY),
                self._attendant,
            ],
            options=[
                *_OPTIONS,
                ("grpc.max_receive_message_length", settings.limits.message),
                ("grpc.max_send_message_length", settings.limits.message),
            ],
            maximum_concurrent_rpcs=THREADS + QUEUED_CALLS,
        )
        self.address = self._bind(settings)
        self._stop_metrics = self._expose(settings)
        self.thread = ModelThread(loaded, dtype=dtype, metrics=self.metrics)
        self.predictor = Predictor(
            self.thread,
            bundles=self.bundles,
            noise_tables=settings.state / "noise",
            memory=settings.adapter_memory,
        )
        self.embedder = Embedder(self.thread, self.bundles)
        bundles_pb2_grpc.add_BundlesServicer_to_server(  # type: ignore[no-untyped-call]
            BundlesService(self.bundles, self.signatures), self._server
        )
        training_pb2_grpc.add_TrainingServicer_to_server(  # type: ignore[no-untyped-call]
            TrainingService(
                self.jobs,
                self.tenants,
                self.bundles,
                loaded,
                self.decoder,
                Downloads(self.database, self.thread.encoder, settings.hand_out_adapters),
            ),
            self._server,
        )
        inference_pb2_grpc.add_InferenceServicer_to_server(  # type: ignore[no-untyped-call]
            InferenceService(
                self.database,
                self.tenants,
                self.bundles,
                self.predictor,
                self.embedder,
                settings.limits,
            ),
            self._server,
        )
        generation_pb2_grpc.add_GenerationServicer_to_server(  # type: ignore[no-untyped-call]
            GenerationService(self.tenants, self._write(upstream, settings)), self._server
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        serve_reflection(self._server, (*_SERVICES, health.SERVICE_NAME))

    def _write(self, upstream: Upstream | None, settings: Settings) -> Write | None:
        """What writes texts here, if anything does."""
        if upstream is not None:
            return upstream.write
        if self.decoder is None:
            return None
        generator = Generator(
            self.thread,
            self.decoder,
            adapters=settings.adapter_memory,
            memory=settings.generation_memory,
        )
        return from_decoder(self.database, generator)

    def _bind(self, settings: Settings) -> str:
        try:
            if settings.tls_cert and settings.tls_key:
                pair = (settings.tls_key.read_bytes(), settings.tls_cert.read_bytes())
                check_certificate(pair[1], "--tls-cert")
                credentials = grpc.ssl_server_credentials([pair])
                port = self._server.add_secure_port(settings.listen, credentials)
            else:
                port = self._server.add_insecure_port(settings.listen)
        except ConfigError:
            self.database.close()
            raise
        except (OSError, RuntimeError) as error:
            self.database.close()
            raise ConfigError(
                f"cannot listen on {settings.listen}",
                fix="choose a free address with --listen, and check the TLS files if there are any",
            ) from error
        if settings.listen.startswith("unix:"):
            return settings.listen
        return f"{settings.listen.rpartition(':')[0]}:{port}"

    def _expose(self, settings: Settings) -> Callable[[], None]:
        if not settings.metrics:
            return lambda: None
        try:
            return expose(self.metrics, settings.metrics)
        except ConfigError:
            self._server.stop(None)
            self.database.close()
            raise

    def start(self) -> None:
        """Opens for business."""
        self._server.start()
        self._doorkeeper.start()
        self._attendant.start()
        for name in ("", *_SERVICES):
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def stop(self) -> None:
        """Turns callers away, lets calls in progress end, frees everything."""
        self._health.enter_graceful_shutdown()
        self._server.stop(self._grace).wait()
        self._calls.shutdown(wait=False)  # which grpc leaves to us
        self._doorkeeper.close()
        self._attendant.close()
        self.thread.close()
        self._stop_metrics()
        self.database.close()


def _upstream(settings: Settings) -> Upstream | None:
    if (given := settings.upstream) is None:
        return None
    return Upstream(given.url, given.model, key=given.key(), adapters=given.by_tenant())


def _open_bundles(settings: Settings, sha256: str) -> dict[str, Bundle]:
    if not settings.bundles:
        raise ConfigError("no bundle to serve", fix="give --bundle DIR")
    bundles: dict[str, Bundle] = {}
    for folder in settings.bundles:
        bundle = Bundle.open(folder)
        if bundle.manifest.backbone.sha256 != sha256:
            raise BundleMismatch(
                f"the bundle at {folder} was made from another backbone than "
                f"{backbone.public_name(settings.backbone)}",
                fix="build it again with `sotto-cloud build-bundle`, or give its --backbone",
                subject="bundle",
            )
        bundles[bundle.id] = bundle
    return bundles


def serve(settings: Settings, on_ready: Callable[[Server], None], parent: int) -> None:
    """Runs server and worker, if it is to have one, until SIGTERM or SIGINT.

    Args:
        on_ready: called once calls are answered.
        parent: this process's id, for the worker to watch.
    """
    ending = Ending()
    server = Server(settings)
    worker = WorkerProcess(settings, parent) if settings.trainer else None
    # What starting made, a million objects, stays: to look through it for garbage would hold up
    # every call for a third of a second, again and again.
    gc.freeze()
    try:
        server.start()
        on_ready(server)
        ending.wait()
        _log.info("stopping")
    finally:
        if worker is not None:
            worker.stop()
        server.stop()
