"""Predictions and embeddings over the wire: single calls and ordered streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import grpc
import numpy as np
from numpy.typing import NDArray

from sottovoce.cloud.api.authentication import Admission
from sottovoce.cloud.config import ServerLimits, check_name
from sottovoce.cloud.store.adapters import with_files
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.tenants.credentials import Scope
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import BundleMismatch, InvalidInput
from sottovoce.core.privacy.token_embedding import TokenEmbedding, unpack
from sottovoce.core.rpc import telemetry
from sottovoce.core.rpc.streams import check_padding, ordered
from sottovoce.v1 import inference_pb2 as wire
from sottovoce.v1 import inference_pb2_grpc

if TYPE_CHECKING:  # the models are given, so this module loads no torch
    from sottovoce.cloud.serving.predictor import Embedder, Predictor, Scores

WINDOW = 64  # requests of one stream in progress; others wait in the network
CALLS, CALLS_PER_TENANT = 128, 32  # open calls at once; each holds a thread

LONGEST_ID = 128
LONGEST_REST = 2_048


class InferenceService(inference_pb2_grpc.InferenceServiceServicer):
    """Serves tenants: predictions from their own adapters, embeddings from the shared backbone."""

    def __init__(
        self,
        database: Database,
        tenants: Tenants,
        bundles: Mapping[str, Bundle],
        predictor: Predictor,
        embedder: Embedder,
        limits: ServerLimits,
    ) -> None:
        self._database = database
        self._tenants = tenants
        self._bundles = bundles
        self._predictor = predictor
        self._embedder = embedder
        self._limits = limits
        self._admission = Admission(calls=CALLS, per_tenant=CALLS_PER_TENANT)

    def _submit(self, tenant: str, request: wire.InferenceServicePredictRequest) -> Future[Scores]:
        check_name(request.adapter, "adapter")
        check_padding(request.padding)
        text = request.released_text
        if not text.strip() or len(text.encode()) > self._limits.text:
            raise InvalidInput(
                "released_text is empty or too long",
                fix=f"give 1 to {self._limits.text} bytes",
                subject="released_text",
            )
        submit = partial(
            self._predictor.submit, text=text, tenant=tenant, bundle_id=request.bundle_id
        )
        return with_files(self._database, tenant, request.adapter, submit)

    def Predict(  # noqa: N802 - the wire's names
        self, request: wire.InferenceServicePredictRequest, context: grpc.ServicerContext
    ) -> wire.InferenceServicePredictResponse:
        """Return all labels with their probabilities."""
        tenant = self._tenants.admit(context.invocation_metadata(), Scope.PREDICT)
        with self._admission.admitted(tenant):
            answer = self._submit(tenant, request)
            with telemetry.span("queue and model"):
                return _response(answer.result())

    def PredictStream(  # noqa: N802
        self,
        request_iterator: Iterator[wire.InferenceServicePredictStreamRequest],
        context: grpc.ServicerContext,
    ) -> Iterator[wire.InferenceServicePredictStreamResponse]:
        """Stream answers in the order of the requests; waiting requests are batched."""
        tenant = self._tenants.admit(context.invocation_metadata(), Scope.PREDICT)

        def begin(message: wire.InferenceServicePredictStreamRequest) -> Callable[[], Scores]:
            text, padding = message.request.released_text.encode(), message.request.padding
            # Fields other than the text must be short: a window of messages is held in memory.
            if message.ByteSize() - len(text) - len(padding) > LONGEST_REST:
                raise InvalidInput(
                    "request_id is too long",
                    fix=f"choose one of at most {LONGEST_ID} characters",
                    subject="request_id",
                )
            return self._submit(tenant, message.request).result

        answered = ordered(request_iterator, begin, window=WINDOW, active=context.is_active)
        with self._admission.admitted(tenant), closing(answered):
            for message, scores in answered:
                yield wire.InferenceServicePredictStreamResponse(
                    request_id=message.request_id, response=_response(scores)
                )

    def Encode(  # noqa: N802
        self, request: wire.EncodeRequest, context: grpc.ServicerContext
    ) -> wire.EncodeResponse:
        """Return the sentence embedding of noisy token vectors."""
        tenant = self._tenants.admit(context.invocation_metadata(), Scope.PREDICT)
        with self._admission.admitted(tenant):
            answer = self._submit_query(tenant, request)
            with telemetry.span("queue and model"):
                return _encoded(request, answer.result())

    def EncodeStream(  # noqa: N802
        self, request_iterator: Iterator[wire.EncodeStreamRequest], context: grpc.ServicerContext
    ) -> Iterator[wire.EncodeStreamResponse]:
        """Stream embeddings in the order of the requests."""
        tenant = self._tenants.admit(context.invocation_metadata(), Scope.PREDICT)

        def begin(message: wire.EncodeStreamRequest) -> Callable[[], NDArray[np.float32]]:
            return self._submit_query(tenant, message.request).result

        answered = ordered(request_iterator, begin, window=WINDOW, active=context.is_active)
        with self._admission.admitted(tenant), closing(answered):
            for message, embedding in answered:
                yield wire.EncodeStreamResponse(response=_encoded(message.request, embedding))

    def _submit_query(
        self, tenant: str, request: wire.EncodeRequest
    ) -> Future[NDArray[np.float32]]:
        """Validate the untrusted request and convert it to numbers."""
        if not request.request_id or len(request.request_id) > LONGEST_ID:
            raise InvalidInput(
                "request_id is empty or too long",
                fix=f"choose a random one of 1 to {LONGEST_ID} characters",
                subject="request_id",
            )
        if request.mechanism != TokenEmbedding.name:
            raise InvalidInput(
                "unknown mechanism", fix=f"use {TokenEmbedding.name}", subject="mechanism"
            )
        check_padding(request.padding)
        bundle = self._bundles.get(request.bundle_id)
        if bundle is None:
            raise BundleMismatch(
                "the vectors lie in the privacy space of a bundle this cloud does not serve",
                fix="run `sotto pull`",
                subject="bundle_id",
            )
        mechanism = TokenEmbedding(request.eta)
        r = bundle.manifest.dimensions
        noisy = unpack(request.vectors, request.tokens, r, mechanism)
        return self._embedder.submit(bundle.id, noisy, mechanism.eta, tenant=tenant)


def _response(scores: Scores) -> wire.InferenceServicePredictResponse:
    return wire.InferenceServicePredictResponse(
        scores=[wire.ClassScore(label=label, probability=p) for label, p in scores]
    )


def _encoded(request: wire.EncodeRequest, embedding: NDArray[np.float32]) -> wire.EncodeResponse:
    return wire.EncodeResponse(request_id=request.request_id, embedding=embedding)
