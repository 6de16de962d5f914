"""The process that serves models: builds its parts, opens the port, and ends in order.

A *server* answers all calls. A *replica* answers only calls that need a model; a front answers the
other training calls.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch

from sottovoce.cloud.config import Settings
from sottovoce.cloud.jobs.disposal import clear
from sottovoce.cloud.jobs.ending import keep_room
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.jobs.overview import JobsCollector
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.models import backbone, decoder
from sottovoce.cloud.server.bundles_service import BundlesService, open_bundles
from sottovoce.cloud.server.downloads import CALLS as ADAPTERS
from sottovoce.cloud.server.downloads import Downloads
from sottovoce.cloud.server.enrollment_service import EnrollmentService
from sottovoce.cloud.server.generation_service import (
    TEXTS,
    GenerationService,
    Write,
    from_decoder,
)
from sottovoce.cloud.server.inference_service import CALLS, InferenceService
from sottovoce.cloud.server.listener import (
    BUNDLES,
    ENROLLMENT,
    GENERATION,
    INFERENCE,
    TRAINING,
    Listener,
)
from sottovoce.cloud.server.models_service import ModelsService
from sottovoce.cloud.server.running import until_told
from sottovoce.cloud.server.training_service import UPLOADS, WATCHES, TrainingService
from sottovoce.cloud.server.watching import FOLLOWERS
from sottovoce.cloud.server.worker_process import WorkerProcess
from sottovoce.cloud.serving.embedder import Embedder
from sottovoce.cloud.serving.generator import Generator
from sottovoce.cloud.serving.model_thread import ModelThread, numbers
from sottovoce.cloud.serving.predictor import Predictor
from sottovoce.cloud.serving.upstream import Upstream
from sottovoce.cloud.state import bundle_copies, quotas
from sottovoce.cloud.state.authority import Authority
from sottovoce.cloud.state.codes import Codes
from sottovoce.cloud.state.opening import open_database
from sottovoce.cloud.state.pairing import check_objects
from sottovoce.cloud.state.signing import SIGNING_KEY, signature_of
from sottovoce.cloud.state.tenants import Tenants
from sottovoce.v1 import (
    bundles_pb2_grpc,
    enrollment_pb2_grpc,
    generation_pb2_grpc,
    inference_pb2_grpc,
    training_pb2_grpc,
)

__all__ = ["Server", "serve"]

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
        folders = bundle_copies.folders(self.database, settings.bundles)
        self.bundles = open_bundles(folders, (loaded.name, loaded.sha256))
        clear(settings.state, Queue(self.database))
        self.signatures = {
            identity: signature_of(bundle, settings.state / SIGNING_KEY)
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
            self.metrics.registry.register(JobsCollector(self.database))
            calls += UPLOADS + WATCHES + FOLLOWERS
        services = (BUNDLES, ENROLLMENT, TRAINING, INFERENCE, GENERATION)
        authority = Authority.read(settings.state) if settings.devices_listen else None
        if settings.require_certificates is not None:
            self.tenants.require_certificates(required=settings.require_certificates)
        self.listener = Listener(
            settings,
            self.tenants,
            self.metrics,
            services,
            calls,
            self.database.news,
            authority.pem if authority else b"",
        )
        self.address = self.listener.address
        self.devices_address = self.listener.devices_address
        bound = int(self.devices_address.rpartition(":")[2] or 0)
        self.thread = ModelThread(loaded, dtype=dtype, metrics=self.metrics)
        self.predictor = Predictor(self.thread, memory=settings.adapter_memory)
        self.embedder = Embedder(self.thread, self.bundles)
        models = ModelsService(
            self.jobs,
            self.tenants,
            self.bundles,
            loaded,
            self.decoder,
            Downloads(self.database, self.thread.encoder, settings.hand_out_adapters),
        )
        server = self.listener.server
        bundles_pb2_grpc.add_BundlesServiceServicer_to_server(  # type: ignore[no-untyped-call]
            BundlesService(self.bundles, self.signatures), server
        )
        enrollment_pb2_grpc.add_EnrollmentServiceServicer_to_server(  # type: ignore[no-untyped-call]
            EnrollmentService(
                Codes(self.database),
                self.tenants,
                authority,
                days=settings.certificate_days,
                devices_port=settings.devices_port or bound,
            ),
            server,
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

    def _write(self, upstream: Upstream | None, settings: Settings) -> Write | None:
        """Return the text generator, if there is one."""
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
        """Start to accept calls."""
        self.listener.start()

    def stop(self) -> None:
        """Refuse new calls, let open calls end, and free everything."""
        self.listener.stop()
        self.thread.close()
        self.listener.close()
        self.database.close()


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
        # Exempt the million objects made at start from garbage collection, because scanning them
        # would
        # delay every call by a third of a second, again and again.
        gc.freeze()
        return server

    until_told(
        opened, on_ready, (lambda: WorkerProcess(settings, parent)) if settings.trainer else None
    )
