"""A fake cloud for the device's tests: a real server that keeps everything in memory.

These tests run where there is no torch, so the real cloud cannot be started; this one keeps its
rules (idempotent calls, sequence numbers, tenants, error details) over real sockets, and its
"training" counts words by label, so that predictions depend on what was uploaded.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import numpy as np

from sottovoce.core.bundle.manifest import bundle_id
from sottovoce.core.errors import (
    InvalidInput,
    NotFound,
    NotReady,
    OutOfRange,
    SottovoceError,
    Unauthenticated,
    Unavailable,
)
from sottovoce.core.privacy.token_embedding import TokenEmbedding, unpack
from sottovoce.core.wire.status import ErrorInterceptor
from sottovoce.v1 import bundles_pb2 as bundles
from sottovoce.v1 import bundles_pb2_grpc as bundles_grpc
from sottovoce.v1 import inference_pb2 as inference
from sottovoce.v1 import inference_pb2_grpc as inference_grpc
from sottovoce.v1 import training_pb2 as training
from sottovoce.v1 import training_pb2_grpc as training_grpc
from tests.support.agent import TOKEN

CHUNK = 512


@dataclass
class _Job:
    message: training.Job
    examples: dict[int, training.PrivatizedExample] = field(default_factory=dict)


class FakeCloud(
    bundles_grpc.BundlesServicer,
    training_grpc.TrainingServicer,
    inference_grpc.InferenceServicer,
):
    """The server. Faults are switched on by setting attributes."""

    def __init__(self, bundle: Path | None = None) -> None:
        self.bundle = bundle
        self.jobs: dict[str, _Job] = {}
        self.requests: dict[str, str] = {}
        self.adapters: dict[str, str] = {}
        self.sequences: list[int] = []
        """First sequence number of each message that arrived, repeats included."""
        self.break_after: int | None = None
        """Lose the connection after so many more upload messages, once."""
        self.bytes_left: int | None = None
        """Lose the connection after so many more bundle bytes, once."""
        self.altered = ""
        """A bundle file whose bytes arrive altered."""
        self.fetched: Counter[str] = Counter()
        """Bytes sent of each bundle file."""
        self.may_train = threading.Event()
        self.may_train.set()
        self.fail_training = ""
        self.refuses: dict[str, SottovoceError] = {}
        """What CreateJob and UploadExamples raise, by name."""
        self.queries: list[inference.EncodeRequest] = []
        """Every query that arrived, repeats included."""
        self.predictions: list[inference.InferencePredictStreamRequest] = []
        """Every text of a stream that arrived, repeats included."""
        self.lose_queries = 0
        """Lose the connection at so many more queries, instead of answering."""
        self.address = ""
        self._lock = threading.RLock()
        self._server: grpc.Server | None = None

    def start(self, credentials: grpc.ServerCredentials | None = None) -> None:
        """Listens, again on the same port after a stop."""
        server = grpc.server(
            ThreadPoolExecutor(16),
            interceptors=[ErrorInterceptor()],
            options=[("grpc.so_reuseport", 0)],
        )
        bundles_grpc.add_BundlesServicer_to_server(self, server)
        training_grpc.add_TrainingServicer_to_server(self, server)
        inference_grpc.add_InferenceServicer_to_server(self, server)
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
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None

    def GetManifest(self, request, context):  # noqa: N802
        data = (self.bundle / "manifest.json").read_bytes()
        if request.bundle_id not in ("", bundle_id(data)):
            raise NotFound("no such bundle", subject=request.bundle_id)
        return bundles.GetManifestResponse(bundle_id=bundle_id(data), manifest=data)

    def FetchFile(self, request, context):  # noqa: N802
        data = (self.bundle / request.path).read_bytes()
        if request.path == self.altered:
            data = bytes(b ^ 1 for b in data)
        if request.offset > len(data):
            raise OutOfRange("past the end")
        for start in range(request.offset, len(data), CHUNK):
            chunk = data[start : start + CHUNK]
            if self.bytes_left is not None:
                self.bytes_left -= len(chunk)
                if self.bytes_left < 0:
                    self.bytes_left = None
                    raise Unavailable("the connection is lost")
            self.fetched[request.path] += len(chunk)
            yield bundles.FetchFileResponse(chunk=chunk)

    def CreateJob(self, request, context):  # noqa: N802
        _authenticate(context)
        self._refuse("CreateJob")
        with self._lock:
            if request.request_id not in self.requests:
                identity = f"job-{len(self.jobs)}"
                self.requests[request.request_id] = identity
                self.jobs[identity] = _Job(
                    training.Job(
                        id=identity,
                        adapter=request.adapter,
                        state=training.JOB_STATE_UPLOADING,
                        training=request.training,
                        release=request.release,
                    )
                )
            return training.CreateJobResponse(job=self._job(self.requests[request.request_id]))

    def UploadExamples(self, request_iterator, context):  # noqa: N802
        _authenticate(context)
        count = 0
        for request in request_iterator:
            self._refuse("UploadExamples")
            with self._lock:
                job = self.jobs[request.job_id]
                count = len(job.examples)
                self.sequences.append(request.first_sequence)
                if request.first_sequence > count:
                    raise OutOfRange("a gap", metadata={"next_sequence": str(count)})
                for number, example in enumerate(request.examples, request.first_sequence):
                    held = job.examples.setdefault(number, example)
                    if held != example:
                        raise InvalidInput("another example under the same number")
                count = len(job.examples)
                if self.break_after is not None:
                    self.break_after -= 1
                    if self.break_after == 0:
                        self.break_after = None
                        raise Unavailable("the connection is lost")
        return training.UploadExamplesResponse(next_sequence=count)

    def _refuse(self, call: str) -> None:
        if call in self.refuses:
            raise self.refuses[call]

    def StartJob(self, request, context):  # noqa: N802
        _authenticate(context)
        with self._lock:
            job = self.jobs[request.job_id]
            if len(job.examples) != request.total_examples:
                raise NotReady("examples are missing")
            if job.message.state == training.JOB_STATE_UPLOADING:
                job.message.state = training.JOB_STATE_QUEUED
                threading.Thread(target=self._train, args=(job,), daemon=True).start()
            return training.StartJobResponse(job=self._job(request.job_id))

    def GetJob(self, request, context):  # noqa: N802
        _authenticate(context)
        return training.GetJobResponse(job=self._job(request.job_id))

    def WatchJob(self, request, context):  # noqa: N802
        _authenticate(context)
        seen = None
        while context.is_active():
            job = self._job(request.job_id)
            if job != seen:
                yield training.WatchJobResponse(job=job)
                seen = job
            if job.state >= training.JOB_STATE_SUCCEEDED:
                return
            time.sleep(0.01)

    def ListJobs(self, request, context):  # noqa: N802
        _authenticate(context)
        return training.ListJobsResponse(jobs=[job.message for job in self.jobs.values()])

    def Predict(self, request, context):  # noqa: N802
        _authenticate(context)
        return self._score(request)

    def PredictStream(self, request_iterator, context):  # noqa: N802
        _authenticate(context)
        for request in request_iterator:
            self.predictions.append(request)
            yield inference.InferencePredictStreamResponse(
                request_id=request.request_id, response=self._score(request.request)
            )

    def Encode(self, request, context):  # noqa: N802
        _authenticate(context)
        return self._encoded(request)

    def EncodeStream(self, request_iterator, context):  # noqa: N802
        _authenticate(context)
        for request in request_iterator:
            yield inference.EncodeStreamResponse(response=self._encoded(request.request))

    def examples(self, job_id: str = "job-0") -> list[training.PrivatizedExample]:
        """What a job holds, in order."""
        held = self.jobs[job_id].examples
        return [held[number] for number in sorted(held)]

    def _job(self, identity: str) -> training.Job:
        with self._lock:
            if identity not in self.jobs:
                raise NotFound("no such job", subject=identity)
            copied = training.Job()
            copied.CopyFrom(self.jobs[identity].message)
            copied.next_sequence = len(self.jobs[identity].examples)
            return copied

    def _train(self, job: _Job) -> None:
        epochs = job.message.training.epochs or 3
        for epoch in range(epochs):
            with self._lock:
                job.message.state = training.JOB_STATE_RUNNING
                job.message.progress.epoch, job.message.progress.epochs = epoch, epochs
            self.may_train.wait(30)
        with self._lock:
            job.message.progress.epoch = epochs
            job.message.progress.held_out_accuracy = 0.875
            if self.fail_training:
                job.message.state = training.JOB_STATE_FAILED
                job.message.message = self.fail_training
                return
            self.adapters[job.message.adapter] = job.message.id
            job.message.state = training.JOB_STATE_SUCCEEDED

    def _encoded(self, request) -> inference.EncodeResponse:
        """The mean of the vectors, laid out over the small bundle's width of 16."""
        with self._lock:
            self.queries.append(request)
            if self.lose_queries:
                self.lose_queries -= 1
                raise Unavailable("the connection is lost")
        r = len(request.vectors) // 2 // request.tokens
        rows = unpack(request.vectors, request.tokens, r, TokenEmbedding(request.eta))
        mean = np.resize(rows.mean(axis=0), 16)
        return inference.EncodeResponse(
            request_id=request.request_id, embedding=mean / np.linalg.norm(mean)
        )

    def _score(self, request) -> inference.InferencePredictResponse:
        """Naive Bayes with add-one smoothing over the uploaded words."""
        if request.adapter not in self.adapters:
            raise NotFound("no such adapter", fix="customise it first", subject=request.adapter)
        job = self.jobs[self.adapters[request.adapter]]
        if job.message.release.bundle_id != request.bundle_id:
            raise NotReady("released with another bundle")
        counts: dict[str, Counter[str]] = {}
        for example in job.examples.values():
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
        return inference.InferencePredictResponse(
            scores=[
                inference.ClassScore(label=label, probability=weight / total)
                for label, weight in weights.items()
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
        cloud.may_train.set()
        cloud.stop()


def _authenticate(context: grpc.ServicerContext) -> None:
    sent = dict(context.invocation_metadata())
    if sent.get("sottovoce-tenant") != "t" or sent.get("authorization") != f"Bearer {TOKEN}":
        raise Unauthenticated("unknown tenant or wrong token", fix="enrol again")
