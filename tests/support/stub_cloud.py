"""The cloud's own services in this process, without torch: a stub trains and answers.

Bundles, codes, tenants, jobs and calls are the cloud's code over a real database. The stub's
adapters count words by label, so predictions depend on the uploads.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import grpc
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.cloud.api import bundles_service, models_service, training_service
from sottovoce.cloud.api.authentication import EnrollmentService
from sottovoce.cloud.api.bundles_service import BundlesService
from sottovoce.cloud.api.inference_service import InferenceService
from sottovoce.cloud.api.models_service import ModelsService
from sottovoce.cloud.api.training_service import TrainingService, job_message
from sottovoce.cloud.config import EVERY_TENANT, ServerLimits
from sottovoce.cloud.job import Job, Progress, State
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.ending import adapter_name, discard_left
from sottovoce.cloud.jobs.queue import Lease, LeaseLost, Queue
from sottovoce.cloud.store.adapters import AdapterFiles, digest, stored, with_files
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.tenants.credentials import FIRST, Codes, hashed
from sottovoce.core.bundle.adapter import LocalAdapter
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import MANIFEST, Manifest, bundle_id
from sottovoce.core.bundle.signature import Signature
from sottovoce.core.errors import BundleMismatch, SottovoceError, Unauthenticated, Unavailable
from sottovoce.core.rpc.channels import Handler, Interceptor, wrapped
from sottovoce.core.rpc.error_status import ErrorInterceptor
from sottovoce.v1 import (
    bundles_pb2_grpc,
    enrollment_pb2_grpc,
    inference_pb2_grpc,
    training_pb2,
    training_pb2_grpc,
)
from tests.support.agent import TOKEN
from tests.support.caller import credentials
from tests.support.plain_encoder import counted

CHUNK, POLL = 512, 0.01
MEMORY = Path("/dev/shm")  # noqa: S108 - where writes need no disk
Pairs = list[tuple[str, str]]


class StubCloud:
    """The server. Faults are switched on by setting attributes."""

    def __init__(self, bundle: Path | None, *, trains: bool = True) -> None:
        self.received: dict[str, list[Any]] = defaultdict(list)
        """Every message that arrived, repeats included, by the method's name."""
        self.refuses: dict[str, SottovoceError] = {}
        """Errors to raise, by the method's name."""
        self.break_after: int | None = None
        """Lose the connection once, after this many more upload messages."""
        self.bytes_left: int | None = None
        """Lose the connection once, after this many more bytes of files."""
        self.lose_queries = self.lose_answers = 0
        """Lose the connection at this many more queries, or answers about codes."""
        self.key: Ed25519PrivateKey | None = Ed25519PrivateKey.generate()
        """Signs the bundle; None leaves the signature out."""
        self.altered = ""
        """A bundle's file, or "adapter", whose bytes arrive altered."""
        self.fetched: Counter[str] = Counter()
        """Bytes sent of each bundle file, and of adapters."""
        self.seconds_left: dict[str, float] = {}
        """The time limit of each method's last call."""
        self.shown: list[bytes] = []
        """The certificate of each call that came with one (PEM)."""
        self.may_train = threading.Event()
        self.may_train.set()
        self.fail_training = ""
        self.learns: Callable[[Pairs], Pairs] = lambda pairs: pairs
        """Changes the texts and labels that an adapter learns."""
        self.address = ""
        self._bundles: dict[str, Bundle] = {}
        if bundle is not None:
            self.bundle = bundle
        self._folder = TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.database = SqliteDatabase(Path(self._folder.name))
        self.tenants = Tenants(self.database)
        self._jobs = Jobs(self.database)
        self._queue = Queue(self.database)
        self.enroll("t", TOKEN)
        self._stopping = threading.Event()
        self._trainer = threading.Thread(target=self._run)
        if trains:
            self._trainer.start()
        self._calls: ThreadPoolExecutor | None = None
        self._server: grpc.Server | None = None

    @property
    def bundle(self) -> Path:
        """The folder of the bundle that is served, unchecked."""
        return next(iter(self._bundles.values())).folder

    @bundle.setter
    def bundle(self, folder: Path) -> None:
        data = (folder / MANIFEST).read_bytes()
        self._bundles.clear()
        self._bundles[bundle_id(data)] = Bundle(folder, Manifest.from_json(data), bundle_id(data))

    def start(self, credentials: grpc.ServerCredentials | None = None) -> None:
        """Listen; after a stop, on the same port."""
        self._calls = ThreadPoolExecutor(16)
        server = grpc.server(
            self._calls,
            interceptors=[ErrorInterceptor(), _Line(self)],
            options=[("grpc.so_reuseport", 0)],
        )
        models = ModelsService(
            self._jobs,
            self.tenants,
            self._bundles,
            lambda options: None,
            self._local,
            (EVERY_TENANT,),
        )
        training = TrainingService(self._jobs, self.tenants, self._bundles, models)
        stub: Any = self
        answers = InferenceService(
            self.database, self.tenants, self._bundles, stub, _Means(self), ServerLimits()
        )
        codes = EnrollmentService(Codes(self.database))
        bundles = BundlesService(self._bundles, _Signatures(self))
        bundles_pb2_grpc.add_BundlesServiceServicer_to_server(bundles, server)
        enrollment_pb2_grpc.add_EnrollmentServiceServicer_to_server(codes, server)
        training_pb2_grpc.add_TrainingServiceServicer_to_server(training, server)
        inference_pb2_grpc.add_InferenceServiceServicer_to_server(answers, server)
        wanted = self.address or "127.0.0.1:0"
        if credentials is None:
            port = server.add_insecure_port(wanted)
        else:
            port = server.add_secure_port(wanted, credentials)
        self.address = self.address or f"127.0.0.1:{port}"
        server.start()
        self._server = server

    def stop(self) -> None:
        """Cut all connections."""
        if self._server is not None and self._calls is not None:
            self._server.stop(0).wait()
            self._calls.shutdown()
            self._server = None

    def close(self) -> None:
        """Stop, and remove everything."""
        self.stop()
        self._stopping.set()
        if self._trainer.ident is not None:
            self._trainer.join()
        self.database.close()
        self._folder.cleanup()

    @property
    def jobs(self) -> list[training_pb2.Job]:
        """All jobs that were not deleted, in the order of their creation."""
        return [job_message(job) for job in self._jobs.page(page_size=200)[0]][::-1]

    @property
    def adapters(self) -> list[str]:
        """The names of all tenants' adapters."""
        with self.database.read() as transaction:
            return [row["name"] for row in transaction.rows("SELECT name FROM adapters")]

    def examples(self, job: int = 0) -> list[training_pb2.PrivatizedExample]:
        """The examples uploaded for a job, by its place in `jobs`."""
        held: list[training_pb2.PrivatizedExample] = []
        for request in list(self.received["UploadExamples"]):
            if request.job_id == self.jobs[job].id:
                held[request.first_sequence :] = request.examples
        return held

    def texts(self, *methods: str) -> list[Any]:
        """The requests about texts that arrived by these methods, in a stream or alone."""
        return [getattr(each, "request", each) for name in methods for each in self.received[name]]

    @property
    def asked(self) -> list[Any]:
        """Every text to predict."""
        return self.texts("Predict", "PredictStream")

    @property
    def queries(self) -> list[Any]:
        """Every query to encode."""
        return self.texts("Encode", "EncodeStream")

    def enroll(self, tenant: str, token: str = "") -> str:
        """Add a tenant, with that token or a new one."""
        made = self.tenants.enroll(tenant)
        if token:
            with self.database.write() as transaction:
                transaction.change(
                    "UPDATE credentials SET token_sha256 = :hash WHERE tenant = :tenant "
                    "AND name = :name",
                    hash=hashed(token),
                    tenant=tenant,
                    name=FIRST,
                )
        return token or made

    def code(self, tenant: str, name: str) -> str:
        """Return a code for one device of a tenant; enrol the tenant if needed."""
        if tenant not in {each.name for each in self.tenants.all()}:
            self.enroll(tenant)
        return Codes(self.database).new(tenant, name)

    def admits(self, tenant: str, token: str) -> bool:
        """Whether the token is the tenant's."""
        with contextlib.suppress(Unauthenticated):
            return bool(self.tenants.authenticate(credentials(tenant, token)))
        return False

    def work(self) -> None:
        """Train all that is queued, in this thread."""
        while (claimed := self._queue.claim("stub")) is not None:
            self._train(*claimed)

    def submit(
        self, files: AdapterFiles, text: str, *, tenant: str, bundle_id: str
    ) -> Future[list[tuple[str, float]]]:
        """Answer as `Predictor.submit`: naive Bayes with add-one smoothing over the words."""
        trained_on, _, pairs = _read(files)
        if trained_on != bundle_id:
            raise BundleMismatch("another bundle", fix="customise again", subject="bundle_id")
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for learnt, label in pairs:
            counts[label].update(learnt.split())
        logs = {
            label: sum(math.log((words[word] + 1) / (words.total() + 100)) for word in text.split())
            for label, words in counts.items()
        }
        weights = {label: math.exp(value - max(logs.values())) for label, value in logs.items()}
        scores = [(label, weight / sum(weights.values())) for label, weight in weights.items()]
        return _done(sorted(scores, key=lambda score: -score[1]))

    def embedding(self, bundle_id: str, noisy: Any) -> Any:
        """The mean of the vectors, laid out over the backbone's width."""
        width = self._bundles[bundle_id].manifest.backbone.hidden_size
        mean = np.resize(noisy.mean(axis=0), width)
        return mean / np.linalg.norm(mean)

    def _local(self, files: AdapterFiles) -> LocalAdapter:
        trained_on, _, pairs = _read(files)
        return counted(pairs, self._bundles[trained_on].manifest.backbone.sha256)

    def _run(self) -> None:
        while not self._stopping.wait(POLL):
            self.work()

    def _train(self, job: Job, lease: Lease) -> None:
        with contextlib.suppress(LeaseLost):
            examples = self._queue.examples(job.id)
            self._queue.begin(lease, tuple(sorted({e.label for e in examples} - {""})))
            epochs = job.training.epochs or 3
            for epoch in range(epochs):
                self._queue.report(lease, Progress(epoch, epochs))
                while not self.may_train.wait(POLL) and not self._queue.stop_requested(lease):
                    if self._stopping.is_set():
                        return
            self._queue.report(lease, Progress(epochs, epochs, held_out_accuracy=0.875))
            if self._queue.stop_requested(lease):
                self._queue.finish(lease, State.CANCELLED)
            elif self.fail_training:
                self._queue.finish(lease, State.FAILED, self.fail_training)
            else:
                learnt = self.learns([(each.text, each.label) for each in examples])
                adapter, base = self._adapter(job, lease, learnt)
                self._queue.finish(lease, State.SUCCEEDED, "", adapter, base)
        discard_left(self._jobs)

    def _adapter(self, job: Job, lease: Lease, pairs: Pairs) -> tuple[AdapterFiles, str]:
        """Return the trained adapter and the hash of its predecessor."""
        base = ""
        if job.training.continues:
            _, base, before = with_files(self.database, job.tenant, job.adapter, _read)
            pairs = before + pairs
        name, objects = adapter_name(job.id, lease.token), self.database.objects
        with TemporaryDirectory(dir=self._folder.name) as folder:
            (Path(folder) / "pairs.json").write_text(json.dumps([job.release.bundle_id, pairs]))
            objects.put(Path(folder), name)
            return stored(objects, name, digest(Path(folder))), base

    def arrives(self, method: str, message: Any) -> None:
        """Note a message, or fail as the attributes say."""
        if method in self.refuses:
            raise self.refuses[method]
        self.received[method].append(message)
        if method.startswith("Encode") and self.lose_queries:
            self.lose_queries -= 1
            raise Unavailable("the connection is lost")

    def is_committed(self) -> None:
        """Lose the connection where `break_after` says so."""
        if self.break_after is not None:
            self.break_after -= 1
            if self.break_after == 0:
                self.break_after = None
                raise Unavailable("the connection is lost")

    def leaves(self, method: str, request: Any, answer: Any) -> Any:
        """An answer, counted or spoilt as the attributes say."""
        if method == "RedeemCode" and self.lose_answers:
            self.lose_answers -= 1
            raise Unavailable("the connection is lost")
        if method in ("FetchFile", "GetAdapter"):
            name = request.path if method == "FetchFile" else "adapter"
            if self.bytes_left is not None:
                self.bytes_left -= len(answer.chunk)
                if self.bytes_left < 0:
                    self.bytes_left = None
                    raise Unavailable("the connection is lost")
            self.fetched[name] += len(answer.chunk)
            if name == self.altered and answer.chunk:
                answer.chunk = bytes(byte ^ 1 for byte in answer.chunk)
        return answer


class _Line(Interceptor):
    """Shows every message to the stub."""

    def __init__(self, cloud: StubCloud) -> None:
        self._cloud = cloud

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        cloud = self._cloud

        def arriving(request: Any, context: grpc.ServicerContext) -> Any:
            cloud.seconds_left[method] = context.time_remaining()
            cloud.shown += context.auth_context().get("x509_pem_cert", ())
            if handler.request_streaming:
                return each(request)
            cloud.arrives(method, request)
            return request

        def each(requests: Iterator[Any]) -> Iterator[Any]:
            for request in requests:
                cloud.arrives(method, request)
                yield request
                cloud.is_committed()

        def unary(answer: Callable[..., Any]) -> Callable[..., Any]:
            def call(request: Any, context: grpc.ServicerContext) -> Any:
                answered = answer(arriving(request, context), context)
                return cloud.leaves(method, request, answered)

            return call

        def stream(answer: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
            def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
                for answered in answer(arriving(request, context), context):
                    yield cloud.leaves(method, request, answered)

            return call

        return wrapped(handler, unary, stream)


class _Signatures(dict[str, Signature]):
    """The signature of any bundle, by the stub's key of this moment."""

    def __init__(self, cloud: StubCloud) -> None:
        super().__init__()
        self._cloud = cloud

    def __missing__(self, identity: str) -> Signature:
        if self._cloud.key is None:
            return Signature(b"", b"")
        return Signature.make((self._cloud.bundle / MANIFEST).read_bytes(), self._cloud.key)


class _Means:
    """Encodes as `Embedder`."""

    def __init__(self, cloud: StubCloud) -> None:
        self._cloud = cloud

    def submit(self, bundle_id: str, noisy: Any, eta: float, *, tenant: str) -> Future[Any]:
        return _done(self._cloud.embedding(bundle_id, noisy))


def _read(files: AdapterFiles) -> tuple[str, str, Pairs]:
    """Return an adapter's bundle, hash and word counts."""
    with files.opened() as folder:
        trained_on, pairs = json.loads((folder / "pairs.json").read_text())
    return trained_on, files.sha256, [(text, label) for text, label in pairs]


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


@contextlib.contextmanager
def stub_cloud(
    bundle: Path | None = None,
    server_credentials: grpc.ServerCredentials | None = None,
    *,
    trains: bool = True,
) -> Iterator[StubCloud]:
    """A running cloud with small chunks and short waits. The real bundle would take long in these.

    Args:
        bundle: the folder of the bundle to serve.
        trains: whether queued jobs are trained at once; else `StubCloud.work` trains them.
    """
    size = sum(file.stat().st_size for file in bundle.rglob("*") if file.is_file()) if bundle else 0
    with (
        patch.object(bundles_service, "CHUNK", CHUNK if size < 1 << 21 else 1 << 16),
        patch.object(models_service, "CHUNK", CHUNK),
        patch.object(training_service, "POLL_SECONDS", POLL),
        patch.object(training_service, "_LOOK_SECONDS", 5 * POLL),
    ):
        cloud = StubCloud(bundle, trains=trains)
        cloud.start(server_credentials)
        try:
            yield cloud
        finally:
            cloud.close()
