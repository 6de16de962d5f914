"""The process that serves models, with a worker process beside it.

A *server* answers all calls. A *replica* answers only calls that need a model; a front answers the
other training calls.
"""

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
from functools import partial

import torch

from sottovoce.cloud.api.authentication import EnrollmentService
from sottovoce.cloud.api.bundles_service import BundlesService, open_bundles
from sottovoce.cloud.api.generation_service import TEXTS, GenerationService, Write, from_decoder
from sottovoce.cloud.api.inference_service import CALLS, InferenceService
from sottovoce.cloud.api.listener import (
    BUNDLES,
    ENROLLMENT,
    GENERATION,
    INFERENCE,
    TRAINING,
    Listener,
    until_told,
)
from sottovoce.cloud.api.models_service import CALLS as ADAPTERS
from sottovoce.cloud.api.models_service import ModelsService
from sottovoce.cloud.api.training_service import FOLLOWERS, UPLOADS, WATCHES, TrainingService
from sottovoce.cloud.config import CONFIG_VARIABLE, STORE_VARIABLE, Settings
from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.ending import clear, keep_room
from sottovoce.cloud.jobs.queue import Queue, overview
from sottovoce.cloud.metrics import JobsCollector, Metrics
from sottovoce.cloud.models import backbone, decoder, methods
from sottovoce.cloud.models.adapters import to_local
from sottovoce.cloud.serving.generator import Generator
from sottovoce.cloud.serving.model_thread import ModelThread, numbers
from sottovoce.cloud.serving.predictor import Embedder, Predictor
from sottovoce.cloud.serving.upstream import Upstream
from sottovoce.cloud.store import bundles, check_objects, open_database
from sottovoce.cloud.store.adapters import AdapterFiles
from sottovoce.cloud.tenants import Tenants, quotas
from sottovoce.cloud.tenants.credentials import Codes
from sottovoce.core.bundle.adapter import LocalAdapter
from sottovoce.core.bundle.signature import SIGNING_KEY
from sottovoce.core.errors import Unavailable
from sottovoce.v1 import (
    bundles_pb2_grpc,
    enrollment_pb2_grpc,
    generation_pb2_grpc,
    inference_pb2_grpc,
    training_pb2_grpc,
)

RESTART_SECONDS, LONGEST_PAUSE = 1.0, 60.0
STEADY_SECONDS = 60.0

_log = logging.getLogger(__name__)


class WorkerProcess:
    """Keeps one worker running beside the server, and restarts it if it dies.

    The pause before a restart doubles while the worker dies at once, because starting costs seconds
    of a processor.
    """

    def __init__(self, settings: Settings, parent: int) -> None:
        self._command = [
            sys.executable, "-m", "sottovoce.cloud", "trainer",
            "--state", str(settings.state),
            "--objects", settings.objects,
            *(("--key-file", str(settings.key_file)) if settings.key_file else ()),
            "--backbone", settings.backbone,
            "--decoder", settings.decoder,
            "--threads", str(settings.training_threads),
            "--limit-training-seconds", str(settings.limits.training_seconds),
            "--parent", str(parent),
            # One worker at a time: a new worker resumes the dead worker's job at once.
            "--owner", secrets.token_hex(8),
            "--metrics", settings.trainer_metrics,
            "--log-format", settings.log_format,
            "--trace", settings.trace,
        ]  # fmt: skip
        # Not on the command line, which all users of the machine can read.
        self._environment = {**os.environ, STORE_VARIABLE: settings.store}
        self._environment.pop(CONFIG_VARIABLE, None)  # its options for a trainer are not meant
        self._grace = settings.grace_seconds
        self._ending = threading.Event()
        self._process = self._start()
        self._thread = threading.Thread(target=self._watch, name="worker-watch", daemon=True)
        self._thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._environment)

    @property
    def pid(self) -> int:
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
        """Stop the worker after it has written its checkpoint."""
        self._ending.set()
        self._thread.join()
        self._process.terminate()
        try:
            self._process.wait(self._grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


DTYPES = {"auto": None, "float32": torch.float32, "bfloat16": torch.bfloat16}


class Server:
    """The gRPC server over one state; it does not manage the worker.

    Raises:
        ConfigError: the port is taken, no bundle is given, or a TLS file is unreadable.
        BundleMismatch: a bundle was made from another backbone.
        NotFound, InvalidInput: the decoder is missing, or cannot be served.
    """

    def __init__(self, settings: Settings) -> None:
        torch.set_num_threads(settings.threads)
        loaded = backbone.load(settings.backbone)
        dtype = numbers(DTYPES[settings.precision])
        self.decoder = decoder.load(settings.decoder, dtype=dtype) if settings.decoder else None
        upstream = _upstream(settings)
        self.database = open_database(
            settings.state, settings.store, settings.objects, settings.key_file
        )
        check_objects(self.database)
        folders = bundles.folders(self.database, settings.bundles)
        self.bundles = open_bundles(folders, (loaded.name, loaded.sha256))
        clear(settings.state, Queue(self.database))
        self.signatures = {
            identity: bundles.signature_of(bundle, settings.state / SIGNING_KEY)
            for identity, bundle in self.bundles.items()
        }
        self.jobs = Jobs(self.database, settings.limits)
        self.tenants = Tenants(self.database)
        self.metrics = Metrics("serve" if settings.jobs else "replica")
        calls = CALLS + TEXTS + ADAPTERS
        if settings.jobs:
            self.database.keys.check(self.database)
            keep_room(settings.state)
            quotas.note(self.database, settings.limits, quotas.OF_SERVERS)
            self.metrics.registry.register(JobsCollector(partial(overview, self.database)))
            calls += UPLOADS + WATCHES + FOLLOWERS
        services = (BUNDLES, ENROLLMENT, TRAINING, INFERENCE, GENERATION)
        self.listener = Listener(
            settings, self.tenants, self.metrics, services, calls, self.database.news
        )
        self.address = self.listener.address
        self.thread = ModelThread(loaded, dtype=dtype, metrics=self.metrics)
        self.thread.on_device_loss = lambda: self.database.lost()
        self.predictor = Predictor(self.thread, memory=settings.adapter_memory)
        self.embedder = Embedder(self.thread, self.bundles)
        models = ModelsService(
            self.jobs,
            self.tenants,
            self.bundles,
            self._check,
            self._local,
            settings.hand_out_adapters,
        )
        server = self.listener.server
        bundles_pb2_grpc.add_BundlesServiceServicer_to_server(  # type: ignore[no-untyped-call]
            BundlesService(self.bundles, self.signatures), server
        )
        enrollment_pb2_grpc.add_EnrollmentServiceServicer_to_server(  # type: ignore[no-untyped-call]
            EnrollmentService(Codes(self.database)), server
        )
        training_pb2_grpc.add_TrainingServiceServicer_to_server(  # type: ignore[no-untyped-call]
            TrainingService(self.jobs, self.tenants, self.bundles, models)
            if settings.jobs
            else models,
            server,
        )
        inference_pb2_grpc.add_InferenceServiceServicer_to_server(  # type: ignore[no-untyped-call]
            InferenceService(
                self.database,
                self.tenants,
                self.bundles,
                self.predictor,
                self.embedder,
                settings.limits,
            ),
            server,
        )
        generation_pb2_grpc.add_GenerationServiceServicer_to_server(  # type: ignore[no-untyped-call]
            GenerationService(self.tenants, self._write(upstream, settings)), server
        )

    def _check(self, options: TrainingOptions) -> None:
        """Refuse options that the job's model cannot be trained with; see `methods.check`."""
        if not options.writes:
            methods.check(options, self.thread.backbone)
        elif self.decoder is None:
            raise decoder.no_decoder()
        else:
            methods.check(options, self.decoder.backbone)

    def _local(self, files: AdapterFiles) -> LocalAdapter:
        with files.opened() as folder:
            return to_local(folder, self.thread.encoder)

    def _write(self, upstream: Upstream | None, settings: Settings) -> Write | None:
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

    def start(self) -> None:
        self.listener.start()

    def stop(self) -> None:
        """Refuse new calls, let open calls end, and free everything.

        Raises:
            Unavailable: the GPU failed while it ran.
        """
        self.listener.stop()
        self.thread.close()
        self.listener.close()
        self.database.close()
        if self.thread.device_lost:
            raise Unavailable(
                "the GPU failed, and a process cannot open it again",
                fix="start the server again; a supervisor does that",
            )


def _upstream(settings: Settings) -> Upstream | None:
    if (given := settings.upstream) is None:
        return None
    return Upstream(given.url, given.model, key=given.key(), adapters=given.by_tenant())


def serve(settings: Settings, on_ready: Callable[[Server], None], parent: int) -> None:
    """Run the server, and its worker if configured, until SIGTERM or SIGINT.

    Args:
        on_ready: called once calls are answered.
        parent: this process's id, which the worker watches.
    """

    def opened() -> Server:
        server = Server(settings)
        # Exempt the million objects made at start from garbage collection. Scanning them would
        # delay calls by a third of a second, again and again.
        gc.freeze()
        return server

    until_told(
        opened, on_ready, (lambda: WorkerProcess(settings, parent)) if settings.trainer else None
    )
