"""Predictions: answered at home, or by the cloud with the labels restored.

By default, a prediction uses the privacy setting of its adapter's training, which only the device
knows. Text released with another setting would look unlike everything that the adapter has seen. A
text that the device answers itself is not released.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterable
from contextlib import closing

from sottovoce.core.errors import SottovoceError
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.rpc.streams import ordered, pad
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.retry import WINDOW, ReconnectingStream
from sottovoce.edge.state.ledger import Purpose, Record
from sottovoce.edge.state.opaque_ids import OpaqueIds
from sottovoce.edge.state.outbox import Outbox
from sottovoce.edge.tasks.local_inference import Home
from sottovoce.edge.tasks.privatize import Releases, resolve
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import inference_pb2 as inference

__all__ = ["Predictor"]


class Predictor:
    """Classifies texts with adapters that the cloud trained.

    Args:
        default: the privacy setting for adapters that this device did not train.
    """

    def __init__(
        self,
        releases: Releases,
        cloud: Cloud,
        outbox: Outbox,
        default: Setting,
        home: Home,
        record: Record | None = None,
    ) -> None:
        self._record = record or Record()
        self._home = home
        self._releases = releases
        self._cloud = cloud
        self._outbox = outbox
        self._default = default

    def predict(self, request: agent.PredictRequest) -> agent.PredictResponse:
        """Return the label and scores of one text.

        Raises:
            InvalidInput, NotReady, QuotaExceeded: see `Releases.release` and `Home.answering`.
            NotFound: there is no such adapter.
            BundleMismatch: the adapter was trained with another bundle.
            Unavailable: the cloud does not answer.
        """
        at_home = self._home.answering(request)
        if at_home is not None:
            return at_home()
        asked, names = self._privatized(request)
        return _answer(asked, names, lambda: self._cloud.predict(asked))

    def predict_stream(
        self, requests: Iterable[agent.PredictStreamRequest]
    ) -> Generator[agent.PredictStreamResponse, None, None]:
        """Classify a stream of texts in order.

        At most `WINDOW` texts are ahead of the answers. A text whose connection breaks is sent
        again unchanged, and is released and charged once. The first error ends the stream, after
        the answers to all texts before it.
        """
        with closing(ReconnectingStream(self._cloud.predict_stream)) as link:

            def begin(streamed: agent.PredictStreamRequest) -> Callable[[], agent.PredictResponse]:
                at_home = self._home.answering(streamed.request)
                if at_home is not None:
                    return at_home
                asked, names = self._privatized(streamed.request)
                # An id of our choice, because the cloud need not see the app's ids.
                link.send(
                    inference.InferenceServicePredictStreamRequest(
                        request_id=secrets.token_hex(8), request=asked
                    )
                )
                return lambda: _answer(asked, names, lambda: link.receive().response)

            with closing(ordered(requests, begin, window=WINDOW)) as answers:
                for streamed, answer in answers:
                    yield agent.PredictStreamResponse(
                        request_id=streamed.request_id, response=answer
                    )

    def _privatized(
        self, request: agent.PredictRequest
    ) -> tuple[inference.InferenceServicePredictRequest, OpaqueIds]:
        self._cloud.check()
        names, trained = self._outbox.adapter(request.adapter)
        setting = resolve(request.privacy, self._outbox.trained_with(trained) or self._default)
        purpose = Purpose("predict", request.adapter)
        release = self._releases.release(request.text, setting, request.session, purpose)
        self._record.note(purpose, self._cloud.address, [release.text])
        message = inference.InferenceServicePredictRequest(
            adapter=names.adapter_id, released_text=release.text, bundle_id=release.bundle_id
        )
        pad(message)
        return message, names


def _answer(
    asked: inference.InferenceServicePredictRequest,
    names: OpaqueIds,
    receive: Callable[[], inference.InferenceServicePredictResponse],
) -> agent.PredictResponse:
    try:
        answer = receive()
    except SottovoceError as error:
        raise names.revealed(error) from error
    scores = sorted(answer.scores, key=lambda score: -score.probability)
    if not scores:
        raise SottovoceError("the cloud answered without scores")
    return agent.PredictResponse(
        label=names.label(scores[0].label),
        scores=[agent.LabelScore(label=names.label(s.label), score=s.probability) for s in scores],
        released_text=asked.released_text,
        answered=agent.WHERE_CLOUD,
    )
