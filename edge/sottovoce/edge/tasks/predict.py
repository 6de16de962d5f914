"""Predictions and embeddings, answered by this device or by the cloud.

By default, a prediction uses the privacy setting of its adapter's training, which only the device
knows. Text released with another setting would look unlike everything that the adapter has seen. A
text that the device answers itself is not released.

`Embedder` is the device's part of Split-and-Denoise (section 3). The denoiser may know the true
tokens, and the cloud only the noisy vectors. Both meet in this module alone: token ids go to the
denoiser, the packed message goes to the cloud. As for a released text, the device's key determines
the noise. So the same text sends the same vectors and is charged once.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput, NotFound, NotReady, SottovoceError, Unavailable
from sottovoce.core.platform import memory
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.token_embedding import LONGEST, TokenEmbedding, pack
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.core.rpc.streams import ordered, pad
from sottovoce.core.text.words import check_text
from sottovoce.edge.client.cloud import Cloud, Stoppable
from sottovoce.edge.client.retry import WINDOW, ReconnectingStream
from sottovoce.edge.state.apps import calling
from sottovoce.edge.state.database import NoiseKeys
from sottovoce.edge.state.ledger import Ledger, Purpose, Record
from sottovoce.edge.state.outbox import OpaqueIds, Outbox
from sottovoce.edge.tasks.engine import Engine
from sottovoce.edge.tasks.local_inference import Home
from sottovoce.edge.tasks.privatize import Releases, resolve
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import inference_pb2 as inference

_ASK: Final = "try again; if it stays so, ask the provider"


@dataclass(eq=False)
class Predictor:
    """Classifies texts with adapters that the cloud trained.

    Args:
        default: the privacy setting for adapters that this device did not train.
    """

    releases: Releases
    cloud: Cloud
    outbox: Outbox
    default: Setting
    home: Home
    record: Record = field(default_factory=Record)

    def predict(self, request: agent.PredictRequest) -> agent.PredictResponse:
        """Return the label and scores of one text.

        Raises:
            InvalidInput, NotReady, QuotaExceeded: see `Releases.release` and `Home.answering`.
            NotFound: there is no such adapter.
            BundleMismatch: the adapter was trained with another bundle.
            Unavailable: the cloud does not answer.
        """
        at_home = self.home.answering(request)
        if at_home is not None:
            return at_home()
        asked, names = self._privatized(request)
        return _answer(asked, names, lambda: self.cloud.predict(asked))

    def predict_stream(
        self, requests: Iterable[agent.PredictStreamRequest]
    ) -> Generator[agent.PredictStreamResponse, None, None]:
        """Classify a stream of texts in order.

        At most `WINDOW` texts are ahead of the answers. If the connection breaks, a text is sent
        again unchanged, and is released and charged once. The first error ends the stream, after
        the answers to all texts before it.
        """
        with closing(ReconnectingStream(self.cloud.predict_stream)) as link:

            def begin(streamed: agent.PredictStreamRequest) -> Callable[[], agent.PredictResponse]:
                at_home = self.home.answering(streamed.request)
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
        self.cloud.check()
        names, trained = self.outbox.adapter(request.adapter)
        setting = resolve(request.privacy, self.outbox.trained_with(trained) or self.default)
        purpose = Purpose("predict", request.adapter)
        release = self.releases.release(request.text, setting, request.session, purpose)
        self.record.note(purpose, self.cloud.address, [release.text])
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
        raise Unavailable("the cloud answered without scores", fix=_ASK)
    return agent.PredictResponse(
        label=names.label(scores[0].label),
        scores=[agent.LabelScore(label=names.label(s.label), score=s.probability) for s in scores],
        released_text=asked.released_text,
        answered=agent.WHERE_CLOUD,
    )


_READ = 32 * LONGEST
"""Characters searched for tokens, so that a book is not split for one page."""

Floats1d = NDArray[np.float32]


class Denoising(Protocol):
    """The methods of a denoiser that an embedder uses."""

    def local(self, ids: Sequence[int]) -> Floats1d:
        """Embed tokens on the device alone: (width,), of length 1."""

    def denoise(self, ids: Sequence[int], answer: Floats1d, eta: float) -> Floats1d:
        """Embed tokens, using the cloud's answer to their noisy vectors."""


@dataclass(frozen=True, slots=True)
class _Tokens:
    """A text as it will be embedded."""

    bundle: Bundle
    ids: list[int]
    truncated: bool


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query: the part that stays here, and the message that leaves."""

    tokens: _Tokens
    level: str
    message: inference.EncodeRequest


@dataclass(eq=False)
class Embedder:
    """Embeds texts.

    Args:
        level: for requests that name none.
        denoiser: opens a bundle's denoiser; by default the kind that is shipped.
    """

    engine: Engine
    keyring: NoiseKeys
    ledger: Ledger
    cloud: Cloud
    level: str
    denoiser: Callable[[Bundle], Denoising] = field(default_factory=lambda: _open_denoiser)
    record: Record = field(default_factory=Record)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: tuple[str, Denoising] | None = None

    def embed(self, request: agent.EmbedRequest) -> agent.EmbedResponse:
        """Return the embedding of one text.

        Raises:
            InvalidInput: the input is not a text.
            NotFound: there is no such level.
            NotReady: there is no bundle, it has no denoiser, no cloud is configured, or the owner
                does not allow the level.
            BundleMismatch: the cloud serves another bundle.
            QuotaExceeded: the ledger's limit.
            Unavailable: the cloud does not answer.
        """
        if request.local:
            return self._local(request)
        asked = self._asked(request)
        return self._answer(asked, self.cloud.encode(asked.message))

    def embed_stream(
        self,
        requests: Iterable[agent.EmbedStreamRequest],
        stoppable: Stoppable = lambda stop: None,
    ) -> Generator[agent.EmbedStreamResponse, None, None]:
        """Embed a stream of texts in order, at most `WINDOW` texts ahead of the answers.

        The first error ends the stream, after the answers to all texts before it.

        Args:
            stoppable: receives a function that ends the stream from another thread; the stream then
                raises `Unavailable`.
        """
        stopped = threading.Event()
        stoppable(stopped.set)
        start = partial(self.cloud.encode_stream, stoppable=stoppable)
        with closing(ReconnectingStream(start, lambda: not stopped.is_set())) as link:

            def begin(streamed: agent.EmbedStreamRequest) -> Callable[[], agent.EmbedResponse]:
                if streamed.request.local:
                    return lambda: self._local(streamed.request)
                asked = self._asked(streamed.request)
                link.send(asked.message)
                return lambda: self._answer(asked, link.receive())

            with closing(ordered(requests, begin, window=WINDOW)) as answers:
                for streamed, answer in answers:
                    if stopped.is_set():
                        raise Unavailable("whoever asked has gone")
                    yield agent.EmbedStreamResponse(request_id=streamed.request_id, response=answer)

    def _local(self, request: agent.EmbedRequest) -> agent.EmbedResponse:
        """Embed on the device: no network, no noise, no charge."""
        tokens = self._tokens(request.text)
        return _response(tokens, self._denoiser(tokens.bundle).local(tokens.ids))

    def _asked(self, request: agent.EmbedRequest) -> _Asked:
        """Build and charge the query of a text.

        A missing part raises an error before the charge. Noise on a token hides less than a draw
        does, so a text with a hidden word does not leave.
        """
        self.cloud.check()
        hiding, more = self.engine.hiding(), self.ledger.apps.hiding(calling())
        if (hiding.and_more(more) if more else hiding).spans(request.text, allow=False):
            raise InvalidInput(
                "the text has a word that is never to leave, and embeddings cannot draw words",
                fix="embed it on this device (`local`), or take the word out of it",
                subject="text",
            )
        tokens = self._tokens(request.text)
        level = request.level or self.level
        mechanism = TokenEmbedding(_eta(tokens.bundle, level))
        self.engine.floors.check_etas(mechanism.eta)
        self._denoiser(tokens.bundle)
        key, ids = self.keyring.current(), tokens.ids
        digest = key.name("embed", repr(mechanism), tokens.bundle.id, *map(str, ids))
        purpose = Purpose("embed")
        self.ledger.charge_once(digest, mechanism.charge(len(ids)), purpose)
        self.record.note(purpose, self.cloud.address, (), f"{len(ids)} tokens, as vectors")
        vectors = unit_rows(tokens.bundle.token_rows[ids])  # (n, r)
        random = key.token_noise(tokens.bundle.token_space_id, mechanism.eta, ids)
        noisy = mechanism.perturb(vectors, random)
        message = inference.EncodeRequest(
            request_id=secrets.token_hex(8),
            bundle_id=tokens.bundle.id,
            mechanism=mechanism.name,
            eta=mechanism.eta,
            tokens=len(ids),
            vectors=pack(noisy, mechanism),
        )
        pad(message)
        return _Asked(tokens, level, message)

    def _answer(self, asked: _Asked, answer: inference.EncodeResponse) -> agent.EmbedResponse:
        tokens, eta = asked.tokens, asked.message.eta
        noisy = np.array(answer.embedding, np.float32)
        if noisy.shape != (tokens.bundle.manifest.backbone.hidden_size,) or not (
            np.isfinite(noisy).all()
        ):
            raise Unavailable(
                "the cloud's answer is no embedding of the bundle's backbone", fix=_ASK
            )
        response = _response(tokens, self._denoiser(tokens.bundle).denoise(tokens.ids, noisy, eta))
        response.level, response.eta = asked.level, eta
        return response

    def _tokens(self, text: str) -> _Tokens:
        check_text(text)
        bundle = self.engine.current().bundle
        ids = bundle.tokenizer.ids(text[:_READ])
        if not ids:
            raise InvalidInput("the text has no tokens", fix="send words", subject="text")
        return _Tokens(bundle, ids[:LONGEST], len(ids) > LONGEST or len(text) > _READ)

    def _denoiser(self, bundle: Bundle) -> Denoising:
        with self._lock:
            if self._opened is None or self._opened[0] != bundle.id:
                self._opened = bundle.id, self.denoiser(bundle)
            return self._opened[1]


def _response(tokens: _Tokens, embedding: Floats1d) -> agent.EmbedResponse:
    return agent.EmbedResponse(
        embedding=embedding.tolist(),
        tokens=len(tokens.ids),
        truncated=tokens.truncated,
        bundle_id=tokens.bundle.id,
    )


def _eta(bundle: Bundle, level: str) -> float:
    levels = bundle.manifest.embed
    if not levels:
        raise NotReady(
            "this bundle has no levels for embeddings, for want of a denoiser",
            fix="pull one that was built with a denoiser, or use `sotto predict`",
            subject="bundle",
        )
    if level not in levels:
        raise NotFound("unknown level", fix=f"use one of: {', '.join(levels)}", subject="level")
    return levels[level].eta


def _open_denoiser(bundle: Bundle) -> Denoising:
    # Give memory back each time: the peaks of texts, import and network must not coincide.
    memory.give_back()
    from sottovoce.core.privacy.denoiser import Denoiser  # only if embeddings are requested

    memory.give_back()
    denoiser = Denoiser.load(bundle.denoiser_folder, bundle)
    memory.give_back()
    return denoiser
