"""The cloud as the device sees it: its calls, with credentials, deadlines, retries, errors.

Everything that leaves for the cloud leaves through this module. Its methods take only messages of
the cloud's API, which have no field for clear text.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from sottovoce.core.errors import ConfigError, NotReady, SottovoceError, Unavailable
from sottovoce.core.wire import tracing
from sottovoce.core.wire.address import split_address
from sottovoce.core.wire.limits import WRITING_SECONDS
from sottovoce.core.wire.status import from_rpc_error
from sottovoce.core.wire.tenancy import BEARER, TENANT_KEY, TOKEN_KEY
from sottovoce.core.wire.unreadable import answered
from sottovoce.edge.client.channel import connect, needs_tls, roots
from sottovoce.edge.client.connection import Connection, Method
from sottovoce.edge.client.device_certificate import DeviceCertificate, Held
from sottovoce.edge.client.handshake import diagnosis, in_plaintext
from sottovoce.edge.client.repeats import repeated, streamed
from sottovoce.edge.client.secret_file import SecretFile
from sottovoce.edge.client.single_flight import Together
from sottovoce.edge.config import CloudConfig
from sottovoce.v1 import (
    bundles_pb2,
    enrollment_pb2,
    generation_pb2,
    inference_pb2,
    training_pb2,
)

__all__ = ["Cloud", "Stoppable"]

SECONDS = 30.0
UPLOAD_SECONDS = DOWNLOAD_SECONDS = 300.0
WATCH_SECONDS = 60.0
"""Of adapters, then asked again: a line that died unnoticed costs no more, and what is followed may
have changed."""
ENCODING_SECONDS = 120.0
"""For a stream of queries: what has no answer by then is sent again in another."""

Stoppable = Callable[[Callable[[], None]], None]
"""Is given what ends a call, for another thread to use."""

_Metadata = tuple[tuple[str, str], ...]


class Cloud:
    """Calls the services of the cloud; connects on the first call.

    Every method raises `Unavailable` when the cloud does not answer in time, what the cloud itself
    raised otherwise, and `NotReady` or `ConfigError` where the settings do not suffice.

    Args:
        config: where it is, and who we are to it.
        state: the folder of the device's certificate; None for who asks nothing as a tenant.
        looks: makes no key, asks for no certificate and gives none up; goes without one, if need
            be, which the cloud may refuse.
    """

    def __init__(
        self, config: CloudConfig, state: Path | None = None, *, looks: bool = False
    ) -> None:
        self._config, self._looks = config, looks
        self._certificate: DeviceCertificate | None = None
        if state is not None and config.devices_port and config.address:
            self._certificate = DeviceCertificate(state, config.address)
        self._lock = threading.Lock()
        self._open: Connection | None = None
        self._certified: list[Connection] = []
        """The connections that show a certificate: that of now is the last."""
        self._together: Together[Held] = Together()
        self._closed = False
        file = config.token_file
        self._token = SecretFile(file, "cloud.token_file", "token") if file else None

    @property
    def address(self) -> str:
        """As configured; empty if there is none."""
        return self._config.address

    @property
    def _peer(self) -> str:
        return f"the cloud at {self.address}"

    def check(self) -> None:
        """Raises what any call would raise for want of settings; calls nobody."""
        self._stubs()
        self._credentials()

    def close(self) -> None:
        """Ends all calls in progress, and allows no more."""
        with self._lock:
            self._closed = True
            for connection in (self._open, *self._certified):
                if connection is not None:
                    connection.close()

    def get_manifest(self, bundle_id: str) -> bundles_pb2.GetManifestResponse:
        """The manifest of a bundle, or of the cloud's default one. Anonymous."""
        request = bundles_pb2.GetManifestRequest(bundle_id=bundle_id)
        answer: bundles_pb2.GetManifestResponse = self._unary(
            self._stubs().bundles.GetManifest, request, ()
        )
        return answer

    def fetch_file(self, bundle_id: str, path: str, offset: int) -> Iterator[bytes]:
        """The bytes of a bundle's file from `offset` on. Anonymous."""
        request = bundles_pb2.FetchFileRequest(bundle_id=bundle_id, path=path, offset=offset)
        for response in self._streamed(self._stubs().bundles.FetchFile, request, ()):
            yield response.chunk

    def redeem_code(self, code: str, token_sha256: bytes) -> enrollment_pb2.RedeemCodeResponse:
        """Has a one-time code let in whoever holds the token of that hash. Anonymous."""
        request = enrollment_pb2.RedeemCodeRequest(code=code, token_sha256=token_sha256)
        answer: enrollment_pb2.RedeemCodeResponse = self._unary(
            self._stubs().enrollment.RedeemCode, request, ()
        )
        return answer

    @property
    def shows_certificate(self) -> bool:
        """Whether calls go where one is wanted."""
        return self._certificate is not None

    def certify(self, least: float = 0.0) -> Held | None:
        """This device's certificate, signed anew if no more than ``least`` of its life is left, a
        number from 0 to 1; None where none is wanted, or for who only looks.

        Raises:
            PermissionDenied: the token belongs to another device's key.
            ConfigError: this device's clock is wrong, or its files cannot be read or written.
        """
        if self._certificate is None:
            return None
        held = self._certificate.held()
        if held is not None and held.left() > least:
            return held
        if self._looks:
            return None
        certificate = self._certificate
        return self._together.ask(lambda: self._signed(certificate, least))

    def _signed(self, certificate: DeviceCertificate, least: float) -> Held:
        held = certificate.held()
        if held is not None and held.left() > least:  # come since we looked
            return held
        # The token before the key: when a device is enrolled again its key goes before the new
        # token comes, and that token is never bound to the old key.
        credentials = self._credentials()
        request = enrollment_pb2.IssueCertificateRequest(csr=certificate.request())
        answer = self._unary(self._stubs().enrollment.IssueCertificate, request, credentials)
        return certificate.keep(answer.certificate)

    def create_job(self, request: training_pb2.CreateJobRequest) -> training_pb2.Job:
        """The job for `request.request_id`, new or existing."""
        return self._job(self._own().training.CreateJob, request)

    def upload(self, messages: Sequence[training_pb2.UploadExamplesRequest]) -> int:
        """Sends examples in one call; returns the sequence number expected next."""
        answer = self._unary(
            self._own().training.UploadExamples,
            iter(messages),
            self._credentials(),
            UPLOAD_SECONDS,
        )
        return int(answer.next_sequence)

    def start_job(self, job_id: str, total: int) -> training_pb2.Job:
        """Queues a job that holds all its examples."""
        request = training_pb2.StartJobRequest(job_id=job_id, total_examples=total)
        return self._job(self._own().training.StartJob, request)

    def get_job(self, job_id: str) -> training_pb2.Job:
        """A job as it is now."""
        return self._job(self._own().training.GetJob, training_pb2.GetJobRequest(job_id=job_id))

    def watch_job(self, job_id: str) -> Iterator[training_pb2.Job]:
        """A job now and after every change, until it ends."""
        request = training_pb2.WatchJobRequest(job_id=job_id)
        call = self._own().training.WatchJob
        for response in self._streamed(call, request, self._credentials()):
            yield response.job

    def cancel_job(self, job_id: str) -> training_pb2.Job:
        """A job after it was told to end; a running one ends within a step."""
        request = training_pb2.CancelJobRequest(job_id=job_id)
        return self._job(self._own().training.CancelJob, request)

    def delete_job(self, job_id: str) -> None:
        """Has a job deleted, and the adapter that it trained."""
        request = training_pb2.DeleteJobRequest(job_id=job_id)
        self._unary(self._own().training.DeleteJob, request, self._credentials())

    def reinstate_adapter(self, job_id: str) -> None:
        """Gives what a job trained its adapter's name back."""
        request = training_pb2.ReinstateAdapterRequest(job_id=job_id)
        self._unary(self._own().training.ReinstateAdapter, request, self._credentials())

    def get_adapter(
        self, request: training_pb2.GetAdapterRequest
    ) -> Iterator[training_pb2.GetAdapterResponse]:
        """Which file an adapter is, then its bytes from an offset on."""
        call = self._own().training.GetAdapter
        yield from self._streamed(call, request, self._credentials(), DOWNLOAD_SECONDS)

    def watch_adapters(
        self, adapters: Sequence[str], stoppable: Stoppable
    ) -> Generator[training_pb2.WatchAdaptersResponse, None, None]:
        """Versions of adapters, at once and on every change, for about a minute; ``stoppable`` gets
        what ends it at once."""
        request = training_pb2.WatchAdaptersRequest(adapters=adapters)
        call = self._own().training.WatchAdapters
        yield from self._streamed(
            call, request, self._credentials(), WATCH_SECONDS, stoppable, endless=True
        )

    def check_tenant(self) -> None:
        """Asks for something only an accepted tenant gets."""
        request = training_pb2.ListJobsRequest(page_size=1)
        self._unary(self._own().training.ListJobs, request, self._credentials())

    def predict(
        self, request: inference_pb2.InferenceServicePredictRequest
    ) -> inference_pb2.InferenceServicePredictResponse:
        """Scores of one released text."""
        answer: inference_pb2.InferenceServicePredictResponse = self._unary(
            self._own().inference.Predict, request, self._credentials()
        )
        return answer

    def predict_stream(
        self, requests: Iterator[inference_pb2.InferenceServicePredictStreamRequest]
    ) -> Generator[inference_pb2.InferenceServicePredictStreamResponse, None, None]:
        """Scores in the order of `requests`, which is consumed by a thread of gRPC's."""
        call = self._own().inference.PredictStream
        yield from self._streamed(call, requests, self._credentials())

    def encode(self, request: inference_pb2.EncodeRequest) -> inference_pb2.EncodeResponse:
        """The embedding of one query's noisy vectors. A retry sends the same bytes again."""
        answer: inference_pb2.EncodeResponse = self._unary(
            self._own().inference.Encode, request, self._credentials()
        )
        return answer

    def encode_stream(
        self,
        requests: Iterator[inference_pb2.EncodeRequest],
        stoppable: Stoppable = lambda stop: None,
    ) -> Generator[inference_pb2.EncodeResponse, None, None]:
        """The same in the order of `requests`, which is consumed by a thread of gRPC's;
        ``stoppable`` gets what ends it at once."""
        call = self._own().inference.EncodeStream
        sent = (inference_pb2.EncodeStreamRequest(request=request) for request in requests)
        credentials = self._credentials()
        for response in self._streamed(call, sent, credentials, ENCODING_SECONDS, stoppable):
            yield response.response

    def generate(
        self, request: generation_pb2.GenerateRequest, stoppable: Stoppable
    ) -> Generator[generation_pb2.GenerateResponse, None, None]:
        """What the cloud writes, piece by piece; ``stoppable`` gets what ends it at once.

        Raises:
            Unavailable: also where a piece was lost on the way, or came twice.
        """
        call = self._own().generation.Generate
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
        with self._explained(method.over), tracing.span("call of the cloud"):
            told = metadata + tracing.metadata()
            call = partial(method.call, request, metadata=told)
            return answered(repeated(method.path, call, seconds), peer=self._peer)

    def _streamed(
        self,
        method: Method,
        request: Any,
        metadata: _Metadata,
        seconds: float | None = None,
        stoppable: Stoppable = lambda stop: None,
        endless: bool = False,
    ) -> Generator[Any, None, None]:
        """Answers as they come; the end of an ``endless`` call is its deadline, and no error."""
        with self._explained(method.over), tracing.streamed("stream from the cloud") as traced:

            def begin() -> Any:
                call = method.call(request, timeout=seconds, metadata=metadata + traced)
                stoppable(call.cancel)
                return call

            try:
                with closing(streamed(method.path, begin)) as responses:
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
            raise self._diagnosed(from_rpc_error(error, peer=self._peer), over.shown) from error
        except ValueError as error:  # what gRPC raises for a call on a channel just closed
            if not over.closed:
                raise
            if self._closed:
                raise Unavailable("the agent is stopping") from error
            raise Unavailable(
                f"the connection to {self._peer} was replaced meanwhile", fix="try again"
            ) from error

    def _diagnosed(self, error: SottovoceError, shown: Held | None) -> SottovoceError:
        """The same, or what keeps the cloud from answering: its certificate, or another protocol. A
        certificate of ours that it does not take is not shown again."""
        config, certificate, found = self._config, self._certificate, None
        if type(error) is Unavailable and not self._closed:
            host, port = split_address(config.address)
            if certificate is not None and shown is not None:
                found = diagnosis(host, config.devices_port, roots(config), certificate.files)
            if found is None:
                tls = needs_tls(config)
                found = diagnosis(host, port, roots(config)) if tls else in_plaintext(host, port)
        given_up = (found or error).subject == "certificate" and not self._looks
        if certificate is not None and shown is not None and given_up:
            certificate.forget(shown)
        return found or error

    def _stubs(self) -> Connection:
        if not self._config.address:
            raise NotReady(
                "no cloud is configured",
                fix="set cloud.address, cloud.tenant and cloud.token_file in the configuration",
                subject="cloud.address",
            )
        with self._lock:
            if self._closed:
                raise Unavailable("the agent is stopping")
            if self._open is None:
                self._open = Connection(connect(self._config))
            return self._open

    def _own(self) -> Connection:
        """The services that answer tenants alone."""
        held = self.certify()
        if held is None:
            return self._stubs()
        with self._lock:
            if self._closed:
                raise Unavailable("the agent is stopping")
            for connection in self._certified:
                if connection.shown == held:
                    return connection
            # On the last one a call may be about to begin; those before go once nothing uses them.
            for older in self._certified[:-1]:
                if not older.in_use:
                    self._certified.remove(older)
                    older.close()
            self._certified.append(Connection(connect(self._config, held), held))
            return self._certified[-1]

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
