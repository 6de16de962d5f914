"""Predictions: privatise, ask the cloud, sort the answer.

Why it is here: the default privacy of a prediction is what its adapter was trained with, and only
the device knows that; text released otherwise would look unlike everything the adapter has seen.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from sottovoce.core.errors import InvalidInput, SottovoceError
from sottovoce.core.privacy.setting import Setting
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.state.outbox import Outbox
from sottovoce.edge.tasks.privatize import Releases, resolve
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import inference_pb2 as inference

__all__ = ["WINDOW", "Predictor"]

WINDOW = 32
"""Texts on their way to the cloud at once, in one stream."""


class Predictor:
    """Classifies texts with the cloud's adapters.

    Args:
        releases: privatises.
        cloud: scores.
        outbox: knows what adapters were trained with.
        default: for adapters that this device did not train.
    """

    def __init__(self, releases: Releases, cloud: Cloud, outbox: Outbox, default: Setting) -> None:
        self._releases = releases
        self._cloud = cloud
        self._outbox = outbox
        self._default = default

    def predict(self, request: agent.PredictRequest) -> agent.PredictResponse:
        """Label and scores of one text.

        Raises:
            InvalidInput, NotReady, QuotaExceeded: see `Releases.release`.
            NotFound: no such adapter. BundleMismatch: trained with another bundle.
            Unavailable: the cloud does not answer.
        """
        self._cloud.check()
        asked = self._privatized(request)
        return _answer(asked, self._cloud.predict(asked))

    def predict_stream(
        self, requests: Iterable[agent.PredictStreamRequest]
    ) -> Iterator[agent.PredictStreamResponse]:
        """The same for a stream, in order, `WINDOW` texts ahead of the answers at most.

        The first error ends the stream, after the answers to all texts before it.
        """
        self._cloud.check()
        room = threading.Semaphore(WINDOW)
        done = threading.Event()
        sent: list[tuple[str, inference.InferencePredictRequest]] = []
        failure: list[BaseException] = []

        def privatized() -> Iterator[inference.InferencePredictStreamRequest]:
            # Runs on a thread of gRPC's, which would swallow an exception: it is carried over.
            try:
                for request in requests:
                    while not room.acquire(timeout=0.5):
                        if done.is_set():
                            return
                    asked = self._privatized(request.request)
                    sent.append((request.request_id, asked))
                    yield inference.InferencePredictStreamRequest(
                        request_id=request.request_id, request=asked
                    )
            except BaseException as error:
                failure.append(error)

        try:
            for response in self._cloud.predict_stream(privatized()):
                room.release()
                request_id, asked = sent.pop(0)
                if response.request_id != request_id:
                    raise SottovoceError("the cloud answered out of order")
                yield agent.PredictStreamResponse(
                    request_id=request_id, response=_answer(asked, response.response)
                )
        finally:
            done.set()
        if failure:
            raise failure[0]

    def _privatized(self, request: agent.PredictRequest) -> inference.InferencePredictRequest:
        if not request.adapter:
            raise InvalidInput(
                "no adapter is named", fix="name one that was customised", subject="adapter"
            )
        setting = resolve(request.privacy, self._trained_with(request.adapter))
        release = self._releases.release(request.text, setting)
        return inference.InferencePredictRequest(
            adapter=request.adapter, released_text=release.text, bundle_id=release.bundle_id
        )

    def _trained_with(self, adapter: str) -> Setting:
        records = [record for record in self._outbox.all() if record.adapter == adapter]
        if not records:
            return self._default
        # A job that has not succeeded has not replaced the adapter of the one before.
        trained = [r for r in records if r.state == agent.CUSTOMIZATION_STATE_SUCCEEDED]
        release = self._outbox.job_request((trained or records)[0].id).release
        return Setting(release.level, release.mechanism, release.policy)


def _answer(
    asked: inference.InferencePredictRequest, answer: inference.InferencePredictResponse
) -> agent.PredictResponse:
    scores = sorted(answer.scores, key=lambda score: -score.probability)
    if not scores:
        raise SottovoceError("the cloud answered without scores")
    return agent.PredictResponse(
        label=scores[0].label,
        scores=[agent.LabelScore(label=s.label, score=s.probability) for s in scores],
        released_text=asked.released_text,
    )
