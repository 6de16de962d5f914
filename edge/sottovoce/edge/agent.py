"""The EdgeAgent service: what apps on the device call.

Why it is here: this is the one place where clear text crosses a process boundary, so it holds no
logic of its own that could go astray; it bounds what comes in and hands it to the parts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import grpc

from sottovoce.edge.cloud import Cloud
from sottovoce.edge.config import Config
from sottovoce.edge.courier import Courier
from sottovoce.edge.customize import DEFAULT_PLAIN_TOKENS, Defaults, Intake
from sottovoce.edge.embed import Embedder
from sottovoce.edge.engine import Engine
from sottovoce.edge.errors import BundleMismatch, InvalidInput, NotReady, Unavailable
from sottovoce.edge.ledger import Ledger
from sottovoce.edge.outbox import ENDED, Outbox
from sottovoce.edge.predict import Predictor
from sottovoce.edge.release import Setting
from sottovoce.edge.releases import Releases, resolve, to_response
from sottovoce.edge.store import Store
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc

__all__ = ["Parts", "Service"]


class Parts:
    """All parts of an agent over one state, for the daemon and for commands run without one.

    Raises:
        See `Store.open`.
    """

    def __init__(self, config: Config, engine: Engine | None = None) -> None:
        privacy = config.privacy
        self.config = config
        self.default = Setting(privacy.level, privacy.mechanism, privacy.policy)
        self.engine = engine or Engine.configured(config.bundle, privacy, config.tagger)
        self.store = Store.open(config.agent.state)
        self.ledger = Ledger(self.store, privacy.ledger_limit)
        self.outbox = Outbox(self.store)
        self.cloud = Cloud(config.cloud)
        self.releases = Releases(self.engine, self.store, self.ledger)
        self.predictor = Predictor(self.releases, self.cloud, self.outbox, self.default)
        self.embedder = Embedder(
            self.engine, self.store, self.ledger, self.cloud, self.default.level
        )

    def privatize(self, request: agent.PrivatizeRequest) -> agent.PrivatizeResponse:
        """One text; see `Releases.release`."""
        setting = resolve(request.privacy, self.default)
        return to_response(self.releases.release(request.text, setting), words=request.words)

    def predict(self, request: agent.PredictRequest) -> agent.PredictResponse:
        """One text; see `Predictor.predict`."""
        return self.predictor.predict(request)

    def embed(self, request: agent.EmbedRequest) -> agent.EmbedResponse:
        """One text; see `Embedder.embed`."""
        return self.embedder.embed(request)

    def embed_stream(
        self, requests: Iterable[agent.EmbedStreamRequest]
    ) -> Iterator[agent.EmbedStreamResponse]:
        """Texts in order; see `Embedder.embed_stream`."""
        return self.embedder.embed_stream(requests)

    def status(self) -> agent.GetStatusResponse:
        """What the agent holds and can do."""
        from importlib.metadata import version  # a megabyte, for a call that few make

        spending = self.ledger.spending()
        response = agent.GetStatusResponse(
            version=version("sottovoce-edge"),
            default_level=self.default.level,
            default_mechanism=self.default.mechanism,
            cloud_address=self.config.cloud.address,
            ledger=agent.LedgerStatus(
                spent=spending.spent, limit=self.ledger.limit, releases=spending.releases
            ),
            customizations=self.outbox.all(),
        )
        try:
            bundle = self.engine.current().bundle
        except BundleMismatch:
            raise
        except NotReady:
            return response
        response.bundle_id = bundle.id
        response.backbone = bundle.manifest.backbone.name
        levels = bundle.manifest.calibration.get(self.default.mechanism, {})
        for name, level in levels.items():
            response.levels.add(
                name=name, eta=level.eta, replaced=level.replaced, map_attack=level.map_attack
            )
        for name, found in bundle.manifest.embed.items():
            response.embed_levels.add(name=name, eta=found.eta, map_attack=found.map_attack)
        return response

    def close(self) -> None:
        """Lets go of cloud and state."""
        self.cloud.close()
        self.store.close()


class Service(edge_agent_pb2_grpc.EdgeAgentServicer):
    """Answers apps; errors become status with details in `rpc.ErrorInterceptor`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._stopping = threading.Event()
        self._intake = Intake(
            parts.engine,
            parts.store,
            parts.ledger,
            parts.releases,
            parts.outbox,
            Defaults(parts.default, parts.config.privacy.plain_tokens or DEFAULT_PLAIN_TOKENS),
        )
        self._courier = Courier(parts.cloud, parts.outbox)

    def begin(self) -> None:
        """Takes up unfinished work; call once, when no other daemon uses the state."""
        self._intake.clear_staging()
        self._courier.resume()

    def end_watches(self) -> None:
        """Ends the calls that would else last as long as a training."""
        self._stopping.set()
        self._parts.outbox.wake()

    def finish(self) -> None:
        """Stops the courier; what it had not sent stays queued."""
        self._courier.stop()

    def Privatize(  # noqa: N802 - gRPC's name
        self, request: agent.PrivatizeRequest, context: grpc.ServicerContext
    ) -> agent.PrivatizeResponse:
        return self._parts.privatize(request)

    def PrivatizeStream(  # noqa: N802
        self,
        request_iterator: Iterable[agent.PrivatizeStreamRequest],
        context: grpc.ServicerContext,
    ) -> Iterator[agent.PrivatizeStreamResponse]:
        for request in request_iterator:
            yield agent.PrivatizeStreamResponse(
                request_id=request.request_id, response=self._parts.privatize(request.request)
            )

    def Predict(  # noqa: N802
        self, request: agent.PredictRequest, context: grpc.ServicerContext
    ) -> agent.PredictResponse:
        return self._parts.predict(request)

    def PredictStream(  # noqa: N802
        self, request_iterator: Iterable[agent.PredictStreamRequest], context: grpc.ServicerContext
    ) -> Iterator[agent.PredictStreamResponse]:
        yield from self._parts.predictor.predict_stream(request_iterator)

    def Embed(  # noqa: N802
        self, request: agent.EmbedRequest, context: grpc.ServicerContext
    ) -> agent.EmbedResponse:
        return self._parts.embed(request)

    def EmbedStream(  # noqa: N802
        self, request_iterator: Iterable[agent.EmbedStreamRequest], context: grpc.ServicerContext
    ) -> Iterator[agent.EmbedStreamResponse]:
        yield from self._parts.embed_stream(request_iterator)

    def Customize(  # noqa: N802
        self, request_iterator: Iterable[agent.CustomizeRequest], context: grpc.ServicerContext
    ) -> agent.CustomizeResponse:
        requests = iter(request_iterator)
        first = next(requests, None)
        if first is None or first.WhichOneof("part") != "settings":
            raise InvalidInput(
                "the first message has no settings",
                fix="send the settings, then the examples",
                subject="settings",
            )
        self._parts.cloud.check()  # refused before any privacy is spent
        record = self._intake.accept(first.settings, _examples(requests))
        if record.state not in ENDED:
            self._courier.carry(record.id)
        return agent.CustomizeResponse(customization=record)

    def WatchCustomization(  # noqa: N802
        self, request: agent.WatchCustomizationRequest, context: grpc.ServicerContext
    ) -> Iterator[agent.WatchCustomizationResponse]:
        if not request.id and not request.adapter:
            raise InvalidInput(
                "neither id nor adapter is given", fix="name the customisation", subject="id"
            )
        identity = request.id or self._parts.outbox.newest(request.adapter).id
        gone = threading.Event()
        if not context.add_callback(gone.set):
            return
        for record in self._parts.outbox.watch(
            identity, lambda: gone.is_set() or self._stopping.is_set()
        ):
            yield agent.WatchCustomizationResponse(customization=record)
        if self._stopping.is_set():
            raise Unavailable("the agent is stopping", fix="watch again when it runs")

    def GetStatus(  # noqa: N802
        self, request: agent.GetStatusRequest, context: grpc.ServicerContext
    ) -> agent.GetStatusResponse:
        return self._parts.status()


def _examples(requests: Iterator[agent.CustomizeRequest]) -> Iterator[agent.LabelledText]:
    for request in requests:
        if request.WhichOneof("part") != "examples":
            raise InvalidInput(
                "a message after the first has no examples",
                fix="send the settings once, then examples only",
                subject="examples",
            )
        yield from request.examples.examples
