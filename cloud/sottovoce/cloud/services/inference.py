"""Predictions over the wire: one at a time, or a stream in its order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import grpc

from sottovoce.cloud import adapters
from sottovoce.cloud.config import Limits, check_name
from sottovoce.cloud.serving import Predictor, Scores
from sottovoce.cloud.store import Store
from sottovoce.cloud.tenants import Tenants
from sottovoce.edge.errors import BundleMismatch, InvalidInput
from sottovoce.v1 import inference_pb2 as wire
from sottovoce.v1 import inference_pb2_grpc

__all__ = ["WINDOW", "InferenceService"]

WINDOW = 64  # requests of one stream in flight; more wait on the wire

_Item = tuple[str, Future[Scores]] | BaseException | None


class InferenceService(inference_pb2_grpc.InferenceServicer):
    """Answers from the adapters of the tenants who call."""

    def __init__(
        self, store: Store, tenants: Tenants, predictor: Predictor, limits: Limits
    ) -> None:
        self._state = store.state
        self._tenants = tenants
        self._predictor = predictor
        self._limits = limits

    def _submit(self, tenant: str, request: wire.InferencePredictRequest) -> Future[Scores]:
        check_name(request.adapter, "adapter")
        text = request.released_text
        if not text.strip() or len(text.encode()) > self._limits.text:
            raise InvalidInput(
                "released_text is empty or too long",
                fix=f"give 1 to {self._limits.text} bytes",
                subject="released_text",
            )
        folder = adapters.locate(self._state, tenant, request.adapter)
        trained_on = adapters.bundle_of(folder)
        if request.bundle_id != trained_on:
            raise BundleMismatch(
                f"the adapter was trained on bundle {trained_on}, not on the text's",
                fix="customise again with the bundle the device holds now",
                subject="bundle_id",
            )
        return self._predictor.submit(folder, text)

    def Predict(  # noqa: N802 - the wire's names
        self, request: wire.InferencePredictRequest, context: grpc.ServicerContext
    ) -> wire.InferencePredictResponse:
        """All labels with their probabilities."""
        tenant = self._tenants.authenticate(context.invocation_metadata())
        return _response(self._submit(tenant, request).result())

    def PredictStream(  # noqa: N802
        self,
        request_iterator: Iterator[wire.InferencePredictStreamRequest],
        context: grpc.ServicerContext,
    ) -> Iterator[wire.InferencePredictStreamResponse]:
        """Answers in the order of the requests; what has arrived is batched."""
        tenant = self._tenants.authenticate(context.invocation_metadata())
        window: queue.Queue[_Item] = queue.Queue(maxsize=WINDOW)

        def offer(item: _Item) -> bool:
            while context.is_active():
                try:
                    window.put(item, timeout=0.5)
                except queue.Full:
                    continue
                return True
            return False

        def read() -> None:
            try:
                for message in request_iterator:
                    if not offer((message.request_id, self._submit(tenant, message.request))):
                        return
                offer(None)
            except Exception as error:
                offer(error)

        threading.Thread(target=read, name="predict-stream", daemon=True).start()
        while context.is_active():
            try:
                item = window.get(timeout=0.5)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            request_id, answer = item
            yield wire.InferencePredictStreamResponse(
                request_id=request_id, response=_response(answer.result())
            )


def _response(scores: Scores) -> wire.InferencePredictResponse:
    return wire.InferencePredictResponse(
        scores=[wire.ClassScore(label=label, probability=p) for label, p in scores]
    )
