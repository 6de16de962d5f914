"""The client of the cloud: its calls, with credentials, deadlines and retries.

All data for the cloud leaves through this module. Its methods take only messages of the cloud's
API, which have no field for clear text.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import grpc

from sottovoce.core.errors import ConfigError, NotReady, SottovoceError, Unavailable
from sottovoce.core.rpc import telemetry
from sottovoce.core.rpc.address import split_address
from sottovoce.core.rpc.channels import BEARER, TENANT_KEY, TOKEN_KEY, answered
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.core.rpc.limits import WRITING_SECONDS
from sottovoce.edge.client.connection import (
    ClientCertificate,
    Connection,
    Method,
    SecretFile,
    Shown,
    connect,
    needs_tls,
    roots,
)
from sottovoce.edge.client.handshake import diagnosis, in_plaintext
from sottovoce.edge.client.retry import call_with_retry, stream_with_retry
from sottovoce.edge.config import CloudConfig
from sottovoce.v1 import bundles_pb2, enrollment_pb2, generation_pb2, inference_pb2, training_pb2

SECONDS = 30.0
UPLOAD_SECONDS = DOWNLOAD_SECONDS = 300.0
WATCH_SECONDS = 60.0
"""Deadline of one watch of adapters, in seconds; the watch then starts again.

A connection that died unnoticed costs no more than this. The list of followed adapters may also
have changed.
"""
ENCODING_SECONDS = 120.0
"""Deadline of a stream of queries, in seconds.

Queries without an answer by then are sent again in another stream.
"""

Stoppable = Callable[[Callable[[], None]], None]
"""Receives a function that ends the call, for use in another thread."""

_Metadata = tuple[tuple[str, str], ...]


class Cloud:
    """Calls the services of the cloud; connects on the first call.

    Every method raises `Unavailable` when the cloud does not answer in time. It raises the cloud's
    own errors, and `NotReady` or `ConfigError` where a setting is missing.
    """

    def __init__(self, config: CloudConfig) -> None:
        self._config = config
        self._certificate: ClientCertificate | None = None
        if config.certificate is not None and config.certificate_key is not None:
            self._certificate = ClientCertificate(config.certificate, config.certificate_key)
        self._lock = threading.Lock()
        self._connections: list[Connection] = []
        """The last one shows the current certificate."""
        self._closed = False
        file = config.token_file
        self._token = SecretFile(file, "cloud.token_file", "token") if file else None

    @property
    def address(self) -> str:
        """The configured address; empty if there is none."""
        return self._config.address

    @property
    def _peer(self) -> str:
        return f"the cloud at {self.address}"

    def check(self) -> None:
        """Raise the errors of missing settings, without any call."""
        self._stubs()
        self._credentials()

    def close(self) -> None:
        """End all calls in progress, and allow no more."""
        with self._lock:
            self._closed = True
            for connection in self._connections:
                connection.close()

    def get_manifest(self, bundle_id: str) -> bundles_pb2.GetManifestResponse:
        """Return the manifest of a bundle, or of the cloud's default one. Anonymous."""
        request = bundles_pb2.GetManifestRequest(bundle_id=bundle_id)
        answer: bundles_pb2.GetManifestResponse = self._unary(
            self._stubs().bundles.GetManifest, request, ()
        )
        return answer

    def fetch_file(self, bundle_id: str, path: str, offset: int) -> Iterator[bytes]:
        """Yield the bytes of a bundle's file from `offset` on. Anonymous."""
        request = bundles_pb2.FetchFileRequest(bundle_id=bundle_id, path=path, offset=offset)
        for response in self._streamed(self._stubs().bundles.FetchFile, request, ()):
            yield response.chunk

    def redeem_code(self, code: str, token_sha256: bytes) -> enrollment_pb2.RedeemCodeResponse:
        """Redeem a one-time code, which admits the token with this hash. Anonymous."""
        request = enrollment_pb2.RedeemCodeRequest(code=code, token_sha256=token_sha256)
        answer: enrollment_pb2.RedeemCodeResponse = self._unary(
            self._stubs().enrollment.RedeemCode, request, ()
        )
        return answer

    def certificate(self) -> Shown | None:
        """Return the certificate that connections show, if any."""
        return self._certificate.read() if self._certificate else None

    def create_job(self, request: training_pb2.CreateJobRequest) -> training_pb2.Job:
        """Return the job for `request.request_id`, new or existing."""
        return self._job(self._stubs().training.CreateJob, request)

    def upload(self, messages: Sequence[training_pb2.UploadExamplesRequest]) -> int:
        """Send examples in one call; return the next expected sequence number."""
        answer = self._unary(
            self._stubs().training.UploadExamples,
            iter(messages),
            self._credentials(),
            UPLOAD_SECONDS,
        )
        return int(answer.next_sequence)

    def start_job(self, job_id: str, total: int) -> training_pb2.Job:
        """Queue a job that has all its examples."""
        request = training_pb2.StartJobRequest(job_id=job_id, total_examples=total)
        return self._job(self._stubs().training.StartJob, request)

    def get_job(self, job_id: str) -> training_pb2.Job:
        return self._job(self._stubs().training.GetJob, training_pb2.GetJobRequest(job_id=job_id))

    def watch_job(self, job_id: str) -> Iterator[training_pb2.Job]:
        """Yield a job now and after every change, until it ends."""
        request = training_pb2.WatchJobRequest(job_id=job_id)
        call = self._stubs().training.WatchJob
        for response in self._streamed(call, request, self._credentials()):
            yield response.job

    def cancel_job(self, job_id: str) -> training_pb2.Job:
        """Cancel a job and return it; a running job ends within a step."""
        request = training_pb2.CancelJobRequest(job_id=job_id)
        return self._job(self._stubs().training.CancelJob, request)

    def delete_job(self, job_id: str) -> None:
        """Delete a job and the adapter that it trained."""
        request = training_pb2.DeleteJobRequest(job_id=job_id)
        self._unary(self._stubs().training.DeleteJob, request, self._credentials())

    def reinstate_adapter(self, job_id: str) -> None:
        """Give the adapter's name back to the result of a job."""
        request = training_pb2.ReinstateAdapterRequest(job_id=job_id)
        self._unary(self._stubs().training.ReinstateAdapter, request, self._credentials())

    def get_adapter(
        self, request: training_pb2.GetAdapterRequest
    ) -> Iterator[training_pb2.GetAdapterResponse]:
        """Yield the description of an adapter's file, then its bytes from an offset on."""
        call = self._stubs().training.GetAdapter
        yield from self._streamed(call, request, self._credentials(), DOWNLOAD_SECONDS)

    def watch_adapters(
        self, adapters: Sequence[str], stoppable: Stoppable
    ) -> Generator[training_pb2.WatchAdaptersResponse, None, None]:
        """Yield the versions of adapters, now and on every change, for about a minute.

        Args:
            adapters: their ids.
        """
        request = training_pb2.WatchAdaptersRequest(adapters=adapters)
        call = self._stubs().training.WatchAdapters
        yield from self._streamed(
            call, request, self._credentials(), WATCH_SECONDS, stoppable, endless=True
        )

    def check_tenant(self) -> None:
        """Make a call that the cloud answers only to an accepted tenant."""
        request = training_pb2.ListJobsRequest(page_size=1)
        self._unary(self._stubs().training.ListJobs, request, self._credentials())

    def predict(
        self, request: inference_pb2.InferenceServicePredictRequest
    ) -> inference_pb2.InferenceServicePredictResponse:
        """Return the scores of one released text."""
        answer: inference_pb2.InferenceServicePredictResponse = self._unary(
            self._stubs().inference.Predict, request, self._credentials()
        )
        return answer

    def predict_stream(
        self, requests: Iterator[inference_pb2.InferenceServicePredictStreamRequest]
    ) -> Generator[inference_pb2.InferenceServicePredictStreamResponse, None, None]:
        """Yield scores in the order of `requests`, which a gRPC thread consumes."""
        call = self._stubs().inference.PredictStream
        yield from self._streamed(call, requests, self._credentials())

    def encode(self, request: inference_pb2.EncodeRequest) -> inference_pb2.EncodeResponse:
        """Return the embedding of one query's noisy vectors.

        A retry sends the same bytes again.
        """
        answer: inference_pb2.EncodeResponse = self._unary(
            self._stubs().inference.Encode, request, self._credentials()
        )
        return answer

    def encode_stream(
        self,
        requests: Iterator[inference_pb2.EncodeRequest],
        stoppable: Stoppable = lambda stop: None,
    ) -> Generator[inference_pb2.EncodeResponse, None, None]:
        """Yield embeddings in the order of `requests`, which a gRPC thread consumes."""
        call = self._stubs().inference.EncodeStream
        sent = (inference_pb2.EncodeStreamRequest(request=request) for request in requests)
        credentials = self._credentials()
        for response in self._streamed(call, sent, credentials, ENCODING_SECONDS, stoppable):
            yield response.response

    def generate(
        self, request: generation_pb2.GenerateRequest, stoppable: Stoppable
    ) -> Generator[generation_pb2.GenerateResponse, None, None]:
        """Yield the cloud's text, piece by piece.

        Raises:
            Unavailable: the cloud does not answer, or a piece was lost or came twice.
        """
        call = self._stubs().generation.Generate
        credentials = self._credentials()
        pieces = self._streamed(call, request, credentials, WRITING_SECONDS, stoppable)
        with closing(pieces):
            for number, piece in enumerate(pieces, 1):
                if piece.number not in (0, number):
                    raise Unavailable(
                        f"a piece of the text was lost or doubled on the way from {self._peer}",
                        fix="ask again",
                    )
                yield piece

    def _job(self, method: Method, request: Any) -> training_pb2.Job:
        job: training_pb2.Job = self._unary(method, request, self._credentials()).job
        return job

    def _unary(
        self, method: Method, request: Any, metadata: _Metadata, seconds: float = SECONDS
    ) -> Any:
        with self._explained(method.over), telemetry.span("call of the cloud"):
            told = metadata + telemetry.metadata()
            call = partial(method.call, request, metadata=told)
            return answered(call_with_retry(method.path, call, seconds), peer=self._peer)

    def _streamed(
        self,
        method: Method,
        request: Any,
        metadata: _Metadata,
        seconds: float | None = None,
        stoppable: Stoppable = lambda stop: None,
        endless: bool = False,
    ) -> Generator[Any, None, None]:
        """Yield responses as they come.

        An ``endless`` call ends at its deadline without an error.
        """
        with self._explained(method.over), telemetry.streamed("stream from the cloud") as traced:

            def begin() -> Any:
                call = method.call(request, timeout=seconds, metadata=metadata + traced)
                stoppable(call.cancel)
                return call

            try:
                with closing(stream_with_retry(method.path, begin)) as responses:
                    for response in responses:
                        yield answered(response, peer=self._peer)
            except grpc.RpcError as error:
                if not endless or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise

    @contextmanager
    def _explained(self, over: Connection) -> Iterator[None]:
        try:
            with over.used():
                yield
        except grpc.RpcError as error:
            raise self._diagnosed(from_rpc_error(error, peer=self._peer)) from error
        except ValueError as error:  # gRPC raises it for a call on a closed channel
            if not over.closed:
                raise
            if self._closed:
                raise Unavailable("the agent is stopping") from error
            raise Unavailable(
                f"the connection to {self._peer} was replaced meanwhile", fix="try again"
            ) from error

    def _diagnosed(self, error: SottovoceError) -> SottovoceError:
        """Return the error, or its cause: a certificate, or another protocol."""
        config, found = self._config, None
        if type(error) is Unavailable and not self._closed:
            host, port = split_address(config.address)
            if needs_tls(config):
                shown = self._certificate.files if self._certificate else None
                found = diagnosis(host, port, roots(config), shown)
            else:
                found = in_plaintext(host, port)
        return found or error

    def _stubs(self) -> Connection:
        if not self._config.address:
            raise NotReady(
                "no cloud is configured",
                fix="set cloud.address, cloud.tenant and cloud.token_file in the configuration; "
                "conversations need chat.upstream alone",
                subject="cloud.address",
            )
        shown = self.certificate()
        with self._lock:
            if self._closed:
                raise Unavailable("the agent is stopping")
            if not self._connections or self._connections[-1].shown != shown:
                # A call may be about to begin on the last one. Close the others once they are idle.
                for older in self._connections[:-1]:
                    if not older.in_use:
                        self._connections.remove(older)
                        older.close()
                self._connections.append(Connection(connect(self._config, shown), shown))
            return self._connections[-1]

    def _credentials(self) -> _Metadata:
        tenant = self._config.tenant
        if not tenant or self._token is None:
            missing = "cloud.token_file" if tenant else "cloud.tenant"
            raise ConfigError(
                f"{missing} is not set",
                fix="ask the provider for a code, and run `sotto enroll CODE`",
                subject=missing,
            )
        token = self._token.read()
        return ((TENANT_KEY, tenant), (TOKEN_KEY, BEARER + token))
