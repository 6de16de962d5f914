"""A fake cloud for the device's tests: a real server that keeps everything in memory.

These tests run where there is no torch, so the real cloud cannot be started; this one keeps its
rules (idempotent calls, sequence numbers, tenants, error details) over real sockets, and its
"training" counts words by label, so that predictions depend on what was uploaded.
`tests/contract/protos` holds both to the same claims.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.core.bundle.manifest import Manifest, bundle_id
from sottovoce.core.bundle.signature import Signature
from sottovoce.core.errors import (
    BundleMismatch,
    InvalidInput,
    NotFound,
    NotReady,
    OutOfRange,
    SottovoceError,
    Unauthenticated,
    Unavailable,
)
from sottovoce.core.privacy.token_embedding import TokenEmbedding, unpack
from sottovoce.core.rpc.limits import LARGEST_MESSAGE
from sottovoce.core.rpc.status import ErrorInterceptor
from sottovoce.core.rpc.streams import check_padding
from sottovoce.v1 import bundles_pb2 as bundles
from sottovoce.v1 import bundles_pb2_grpc as bundles_grpc
from sottovoce.v1 import inference_pb2 as inference
from sottovoce.v1 import inference_pb2_grpc as inference_grpc
from sottovoce.v1 import training_pb2 as training
from sottovoce.v1 import training_pb2_grpc as training_grpc
from tests.support.agent import TOKEN
from tests.support.fake_codes import FakeCodes
from tests.support.fake_downloads import FakeDownloads
from tests.support.fake_jobs import FakeJob, FakeJobs, check_name

_parsed = functools.lru_cache(Manifest.from_json)

CHUNK = 512
LONGEST_ID = 128


class FakeCloud(
    FakeCodes,
    FakeDownloads,
    bundles_grpc.BundlesServiceServicer,
    training_grpc.TrainingServiceServicer,
    inference_grpc.InferenceServiceServicer,
):
    """The server. Faults are switched on by setting attributes."""

    def __init__(self, bundle: Path | None = None) -> None:
        self.bundle = bundle
        self.tenants = {"t": TOKEN}
        """Token of each tenant."""
        self.adapters: dict[tuple[str, str], FakeJob] = {}
        """By tenant and name."""
        self.uploads: list[training.UploadExamplesRequest] = []
        """Every message of examples that arrived, repeats included."""
        self.sequences: list[int] = []
        """First sequence number of each message that arrived, repeats included."""
        self.break_after: int | None = None
        """Lose the connection after so many more upload messages, once."""
        self.key: Ed25519PrivateKey | None = Ed25519PrivateKey.generate()
        """Signs the bundle; None leaves the signature out."""
        self.bytes_left: int | None = None
        """Lose the connection after so many more bundle bytes, once."""
        self.altered = ""
        """A bundle file whose bytes arrive altered."""
        self.watched: list[list[str]] = []
        """Adapters of each stream of versions that was opened."""
        self.fetched: Counter[str] = Counter()
        """Bytes sent of each bundle file."""
        self.may_train = threading.Event()
        self.may_train.set()
        self.fail_training = ""
        self.refuses: dict[str, SottovoceError] = {}
        """What CreateJob, UploadExamples and ListJobs raise, by name."""
        self.queries: list[inference.EncodeRequest] = []
        """Every query that arrived, repeats included."""
        self.asked: list[inference.InferenceServicePredictRequest] = []
        """Every text that arrived, in a stream or alone."""
        self.predictions: list[inference.InferenceServicePredictStreamRequest] = []
        """Every text of a stream that arrived, repeats included."""
        self.lose_queries = 0
        """Lose the connection at so many more queries, instead of answering."""
        self.address = ""
        self._jobs = FakeJobs(self._served)
        self._lock = self._jobs.lock
        self._trainers: list[threading.Thread] = []
        self._calls: ThreadPoolExecutor | None = None
        self._server: grpc.Server | None = None

    @property
    def jobs(self) -> dict[str, FakeJob]:
        """All jobs there ever were, by id."""
        return self._jobs.held

    def start(self, credentials: grpc.ServerCredentials | None = None) -> None:
        """Listens, again on the same port after a stop."""
        self._calls = ThreadPoolExecutor(16)
        server = grpc.server(
            self._calls,
            interceptors=[ErrorInterceptor()],
            options=[("grpc.so_reuseport", 0)],
        )
        bundles_grpc.add_BundlesServiceServicer_to_server(self, server)
        self.serve_codes(server)
        training_grpc.add_TrainingServiceServicer_to_server(self, server)
        inference_grpc.add_InferenceServiceServicer_to_server(self, server)
        wanted = self.address or "127.0.0.1:0"
        if credentials is None:
            port = server.add_insecure_port(wanted)
        else:
            port = server.add_secure_port(wanted, credentials)
        self.address = self.address or f"127.0.0.1:{port}"
        server.start()
        self._server = server

    def stop(self) -> None:
        """Cuts all connections."""
        if self._server is not None and self._calls is not None:
            self._server.stop(0).wait()
            self._calls.shutdown()
            self._server = None

    def finish(self) -> None:
        """Lets all training come to its end."""
        self.may_train.set()
        for trainer in self._trainers:
            trainer.join()

    def GetManifest(self, request, context):  # noqa: N802
        data = self._manifest_of(request.bundle_id)
        answer = bundles.GetManifestResponse(bundle_id=bundle_id(data), manifest=data)
        if self.key is not None:
            signature = Signature.make(data, self.key)
            answer.public_key, answer.signature = signature.key, signature.value
        return answer

    def FetchFile(self, request, context):  # noqa: N802
        manifest = _parsed(self._manifest_of(request.bundle_id))
        if request.path not in {**manifest.files, **manifest.optional}:
            raise NotFound("no such file", fix="use a path of the manifest", subject="path")
        data = (self.bundle / request.path).read_bytes()
        if request.path == self.altered:
            data = bytes(b ^ 1 for b in data)
        if request.offset > len(data):
            raise OutOfRange(
                "past the end",
                fix="start at 0",
                subject="offset",
                metadata={"bytes": str(len(data))},
            )
        for start in range(request.offset, len(data), CHUNK):
            chunk = data[start : start + CHUNK]
            self._cut(len(chunk))
            self.fetched[request.path] += len(chunk)
            yield bundles.FetchFileResponse(chunk=chunk)

    def CreateJob(self, request, context):  # noqa: N802
        tenant = self._tenant(context)
        self._refuse("CreateJob")
        self._check_base(tenant, request.adapter, request.training)
        return training.CreateJobResponse(job=self._jobs.create(tenant, request).shown())

    def UploadExamples(self, request_iterator, context):  # noqa: N802
        tenant = self._tenant(context)
        count = 0
        for request in request_iterator:
            self._refuse("UploadExamples")
            with self._lock:
                check_padding(request.padding, LARGEST_MESSAGE)
                self.uploads.append(request)
                self.sequences.append(request.first_sequence)
                count = self._jobs.append(tenant, request)
                if self.break_after is not None:
                    self.break_after -= 1
                    if self.break_after == 0:
                        self.break_after = None
                        raise Unavailable("the connection is lost")
        return training.UploadExamplesResponse(next_sequence=count)

    def StartJob(self, request, context):  # noqa: N802
        tenant = self._tenant(context)
        with self._lock:
            self._check_added(self._jobs.find(tenant, request.job_id))
            begins = self._jobs.start(tenant, request.job_id, request.total_examples)
            job = self._jobs.find(tenant, request.job_id)
            if begins:
                self._trainers.append(threading.Thread(target=self._train, args=(job,)))
                self._trainers[-1].start()
            return training.StartJobResponse(job=job.shown())

    def GetJob(self, request, context):  # noqa: N802
        with self._lock:
            job = self._jobs.find(self._tenant(context), request.job_id)
            return training.GetJobResponse(job=job.shown())

    def WatchJob(self, request, context):  # noqa: N802
        tenant = self._tenant(context)
        seen = None
        while context.is_active():
            with self._lock:
                job = self._jobs.find(tenant, request.job_id).shown()
            if job != seen:
                yield training.WatchJobResponse(job=job)
                seen = job
            if job.state >= training.JOB_STATE_SUCCEEDED:
                return
            time.sleep(0.01)

    def CancelJob(self, request, context):  # noqa: N802
        job = self._jobs.cancel(self._tenant(context), request.job_id)
        return training.CancelJobResponse(job=job.shown())

    def ListJobs(self, request, context):  # noqa: N802
        tenant = self._tenant(context)
        self._refuse("ListJobs")
        found, token = self._jobs.page(tenant, request.page_size, request.page_token)
        return training.ListJobsResponse(jobs=[job.shown() for job in found], next_page_token=token)

    def DeleteJob(self, request, context):  # noqa: N802
        self._jobs.delete(self._tenant(context), request.job_id)
        return training.DeleteJobResponse()

    def ReinstateAdapter(self, request, context):  # noqa: N802
        with self._lock:
            job = self._jobs.find(self._tenant(context), request.job_id)
            if job.message.state != training.JOB_STATE_SUCCEEDED:
                raise NotReady("trained no adapter", fix="name another", subject=request.job_id)
            self.adapters[job.tenant, job.message.adapter] = job
            return training.ReinstateAdapterResponse(job=job.shown())

    def Predict(self, request, context):  # noqa: N802
        return self._score(self._tenant(context), request)

    def PredictStream(self, request_iterator, context):  # noqa: N802
        tenant = self._tenant(context)
        for request in request_iterator:
            self.predictions.append(request)
            if len(request.request_id) > LONGEST_ID:
                raise InvalidInput("too long", fix="shorten it", subject="request_id")
            yield inference.InferenceServicePredictStreamResponse(
                request_id=request.request_id, response=self._score(tenant, request.request)
            )

    def Encode(self, request, context):  # noqa: N802
        self._tenant(context)
        return self._encoded(request)

    def EncodeStream(self, request_iterator, context):  # noqa: N802
        self._tenant(context)
        for request in request_iterator:
            yield inference.EncodeStreamResponse(response=self._encoded(request.request))

    def examples(self, job_id: str = "job-0") -> list[training.PrivatizedExample]:
        """What a job holds, in order."""
        return self.jobs[job_id].examples

    def _tenant(self, context: grpc.ServicerContext) -> str:
        """Who calls."""
        sent = dict(context.invocation_metadata())
        name, token = sent.get("sottovoce-tenant", ""), sent.get("authorization", "")[7:]
        if not name or not (self.tenants.get(name) == token or self.redeemed(name, token)):
            raise Unauthenticated("unknown tenant or wrong token", fix="enrol again")
        self.shown += context.auth_context().get("x509_pem_cert", ())
        return name

    def _cut(self, size: int) -> None:
        """Breaks the connection once, where `bytes_left` says so."""
        if self.bytes_left is not None:
            self.bytes_left -= size
            if self.bytes_left < 0:
                self.bytes_left = None
                raise Unavailable("the connection is lost")

    def _refuse(self, call: str) -> None:
        if call in self.refuses:
            raise self.refuses[call]

    def _served(self) -> tuple[str, Manifest] | None:
        if self.bundle is None:
            return None
        data = (self.bundle / "manifest.json").read_bytes()
        return bundle_id(data), _parsed(data)

    def _manifest_of(self, wanted: str) -> bytes:
        data = (self.bundle / "manifest.json").read_bytes()
        if wanted not in ("", bundle_id(data)):
            raise NotFound("no such bundle", fix="fetch it with `sotto pull`", subject="bundle_id")
        return data

    def _train(self, job: FakeJob) -> None:
        message = job.message
        epochs = message.training.epochs or 3
        for epoch in range(epochs):
            with self._lock:
                if job.ended:
                    return
                message.state = training.JOB_STATE_RUNNING
                message.labels[:] = sorted({example.label for example in job.examples} - {""})
                message.progress.epoch, message.progress.epochs = epoch, epochs
            while not self.may_train.wait(0.01) and not job.ended:
                pass
        with self._lock:
            if job.ended:
                return
            message.progress.epoch, message.progress.held_out_accuracy = epochs, 0.875
            if self.fail_training:
                message.state = training.JOB_STATE_FAILED
                message.message = self.fail_training
                return
            self._has_learnt(job)
            message.state = training.JOB_STATE_SUCCEEDED

    def _encoded(self, request) -> inference.EncodeResponse:
        """The mean of the vectors, laid out over the backbone's width."""
        if not 1 <= len(request.request_id) <= LONGEST_ID:
            raise InvalidInput("no id, or too long", fix="draw one", subject="request_id")
        if request.mechanism != TokenEmbedding.name:
            raise InvalidInput(
                "unknown mechanism", fix=f"use {TokenEmbedding.name}", subject="mechanism"
            )
        check_padding(request.padding)
        served = self._served()
        if served is None or served[0] != request.bundle_id:
            raise BundleMismatch("another bundle", fix="run `sotto pull`", subject="bundle_id")
        rows = unpack(
            request.vectors, request.tokens, served[1].dimensions, TokenEmbedding(request.eta)
        )
        with self._lock:
            self.queries.append(request)
            if self.lose_queries:
                self.lose_queries -= 1
                raise Unavailable("the connection is lost")
        mean = np.resize(rows.mean(axis=0), served[1].backbone.hidden_size)
        return inference.EncodeResponse(
            request_id=request.request_id, embedding=mean / np.linalg.norm(mean)
        )

    def _score(self, tenant: str, request) -> inference.InferenceServicePredictResponse:
        """Naive Bayes with add-one smoothing over the uploaded words."""
        self.asked.append(request)
        check_name(request.adapter, "adapter")
        check_padding(request.padding)
        if not request.released_text.strip():
            raise InvalidInput("released_text is empty", fix="give it", subject="released_text")
        job = self.adapters.get((tenant, request.adapter))
        if job is None or job.deleted:
            raise NotFound("no such adapter", fix="customise it first", subject="adapter")
        if job.message.release.bundle_id != request.bundle_id:
            raise BundleMismatch("another bundle", fix="customise again", subject="bundle_id")
        counts: dict[str, Counter[str]] = {}
        for example in job.learnt:
            counts.setdefault(example.label, Counter()).update(example.released_text.split())
        logs = {
            label: sum(
                math.log((words[word] + 1) / (words.total() + 100))
                for word in request.released_text.split()
            )
            for label, words in counts.items()
        }
        top = max(logs.values())
        weights = {label: math.exp(value - top) for label, value in logs.items()}
        total = sum(weights.values())
        return inference.InferenceServicePredictResponse(
            scores=[
                inference.ClassScore(label=label, probability=weights[label] / total)
                for label in sorted(weights, key=weights.__getitem__, reverse=True)
            ]
        )


@contextmanager
def fake_cloud(bundle: Path | None = None) -> Iterator[FakeCloud]:
    """A running fake cloud."""
    cloud = FakeCloud(bundle)
    cloud.start()
    try:
        yield cloud
    finally:
        cloud.stop()
        cloud.finish()
