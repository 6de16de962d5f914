"""The agent's gRPC services: each method bounds its request and hands it to a task.

The daemon serves them to apps and to the owner's commands. A command that finds no daemon calls the
same methods in its own process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import grpc

from sottovoce.core.errors import InvalidInput, Unavailable
from sottovoce.edge.state.apps import calling
from sottovoce.edge.state.ledger import FOR_APPS
from sottovoce.edge.state.outbox import ENDED
from sottovoce.edge.tasks import spending_report
from sottovoce.edge.tasks.customize import DEFAULT_PLAIN_TOKENS, Customizer, Defaults
from sottovoce.edge.tasks.local_inference import Follower
from sottovoce.edge.tasks.parts import Parts, status
from sottovoce.edge.tasks.privatize import resolve, to_response
from sottovoce.edge.tasks.uploader import Uploader
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import (
    edge_adapters_pb2_grpc,
    edge_agent_pb2_grpc,
    edge_chat_pb2_grpc,
    edge_owner_pb2_grpc,
)
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import edge_owner_pb2 as owner

if TYPE_CHECKING:
    from sottovoce.core.http.page import PageServer


NAMES: Final = tuple(
    service.full_name
    for module in (agent, chats, adapters, owner)
    for service in module.DESCRIPTOR.services_by_name.values()
)
"""The full names of the services."""

_FOR_APPS: Final = frozenset(
    {
        "version",
        "bundle_id",
        "backbone",
        "levels",
        "default_level",
        "default_mechanism",
        "embed_levels",
        "openai",
    }
)
"""Fields of the status that apps may see; spending and trainings are for the owner alone."""


class Services(
    edge_agent_pb2_grpc.EdgeAgentServiceServicer,
    edge_chat_pb2_grpc.EdgeChatServiceServicer,
    edge_adapters_pb2_grpc.EdgeAdaptersServiceServicer,
    edge_owner_pb2_grpc.EdgeOwnerServiceServicer,
):
    """All services over the parts of one agent.

    A method raises `SottovoceError`. `ErrorInterceptor` turns it into a status with details.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._uploader = Uploader(parts.cloud, parts.outbox, parts.record)
        self._follower = Follower(parts.cloud, parts.home)
        self._customizer = Customizer(
            parts.engine,
            parts.store,
            parts.ledger,
            parts.releases,
            parts.outbox,
            Defaults(parts.default, parts.config.privacy.plain_tokens or DEFAULT_PLAIN_TOKENS),
        )
        self._stopping = threading.Event()
        self._openai = ""
        self._lock = threading.Lock()
        self._page: PageServer | None = None
        self._closed = False

    def add_to(self, server: Any) -> None:
        """Add the services to a gRPC server, or to an object with its methods for handlers."""
        edge_agent_pb2_grpc.add_EdgeAgentServiceServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        edge_chat_pb2_grpc.add_EdgeChatServiceServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        edge_adapters_pb2_grpc.add_EdgeAdaptersServiceServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        edge_owner_pb2_grpc.add_EdgeOwnerServiceServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    def begin(self, endpoint: str = "") -> None:
        """Resume unfinished work; call once, when no other daemon uses the state.

        Args:
            OpenAI endpoint: the HTTP address, which the status shows to apps.
        """
        self._openai = endpoint
        self._parts.outbox.unstage_all()
        self._uploader.resume()
        self._follower.start()

    def end_watches(self) -> None:
        """End the calls that would otherwise last as long as a training."""
        self._stopping.set()
        self._parts.outbox.wake()

    def stop_page(self, grace: float, closing: float) -> None:
        """Stop the page (see `HttpServer.stop`), and let no page be opened from now on."""
        with self._lock:
            self._closed = True
            if self._page is not None:
                self._page.stop(grace, closing)

    def finish(self, seconds: float) -> None:
        """Stop uploading and fetching within ``seconds``.

        Unsent texts stay queued.
        """
        until = time.monotonic() + seconds
        for each in (self._uploader, self._follower):
            each.stop(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        self.stop_page(0, 0)
        if self._page is not None:
            self._page.close()

    def Privatize(  # noqa: N802 - gRPC's name
        self, request: agent.PrivatizeRequest, context: grpc.ServicerContext
    ) -> agent.PrivatizeResponse:
        return self._privatized(request)

    def PrivatizeStream(  # noqa: N802
        self,
        request_iterator: Iterable[agent.PrivatizeStreamRequest],
        context: grpc.ServicerContext,
    ) -> Iterator[agent.PrivatizeStreamResponse]:
        for request in request_iterator:
            yield agent.PrivatizeStreamResponse(
                request_id=request.request_id, response=self._privatized(request.request)
            )

    def _privatized(self, request: agent.PrivatizeRequest) -> agent.PrivatizeResponse:
        setting = resolve(request.privacy, self._parts.default)
        release = self._parts.releases.release(request.text, setting, request.session)
        self._parts.record.note(FOR_APPS, "", [release.text])
        return to_response(release, words=request.words)

    def Predict(  # noqa: N802
        self, request: agent.PredictRequest, context: grpc.ServicerContext
    ) -> agent.PredictResponse:
        return self._parts.predictor.predict(request)

    def PredictStream(  # noqa: N802
        self, request_iterator: Iterable[agent.PredictStreamRequest], context: grpc.ServicerContext
    ) -> Iterator[agent.PredictStreamResponse]:
        yield from self._parts.predictor.predict_stream(request_iterator)

    def Embed(  # noqa: N802
        self, request: agent.EmbedRequest, context: grpc.ServicerContext
    ) -> agent.EmbedResponse:
        return self._parts.embedder.embed(request)

    def EmbedStream(  # noqa: N802
        self, request_iterator: Iterable[agent.EmbedStreamRequest], context: grpc.ServicerContext
    ) -> Iterator[agent.EmbedStreamResponse]:
        yield from self._parts.embedder.embed_stream(request_iterator)

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
        self._parts.cloud.check()  # refuse before any privacy is spent
        record = self._customizer.accept(first.settings, _examples(requests))
        if record.state not in ENDED:
            self._uploader.carry(record.id)
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
        found = status(self._parts)
        found.openai_address = self._openai
        if calling() is not None:
            for field, _ in found.ListFields():
                if field.name not in _FOR_APPS:
                    found.ClearField(field.name)
        return found

    def CancelCustomization(  # noqa: N802
        self, request: adapters.CancelCustomizationRequest, context: grpc.ServicerContext
    ) -> adapters.CancelCustomizationResponse:
        if not request.id:
            _check(request.adapter)
        return adapters.CancelCustomizationResponse(
            customization=self._parts.adapters.cancel(request)
        )

    def RollBackAdapter(  # noqa: N802
        self, request: adapters.RollBackAdapterRequest, context: grpc.ServicerContext
    ) -> adapters.RollBackAdapterResponse:
        _check(request.adapter)
        return adapters.RollBackAdapterResponse(
            customization=self._parts.adapters.roll_back(request)
        )

    def DeleteAdapter(  # noqa: N802
        self, request: adapters.DeleteAdapterRequest, context: grpc.ServicerContext
    ) -> adapters.DeleteAdapterResponse:
        _check(request.adapter)
        return adapters.DeleteAdapterResponse(deleted=self._parts.adapters.delete(request))

    def KeepCorrections(  # noqa: N802
        self, request: adapters.KeepCorrectionsRequest, context: grpc.ServicerContext
    ) -> adapters.KeepCorrectionsResponse:
        _check(request.adapter)
        return adapters.KeepCorrectionsResponse(waiting=self._parts.corrector.keep(request))

    def ListCorrections(  # noqa: N802
        self, request: adapters.ListCorrectionsRequest, context: grpc.ServicerContext
    ) -> Iterator[adapters.ListCorrectionsResponse]:
        _check(request.adapter)
        for each in self._parts.corrector.waiting(request.adapter):
            correction = adapters.Correction(text=each.text, label=each.label)
            yield adapters.ListCorrectionsResponse(correction=correction)

    def ForgetCorrections(  # noqa: N802
        self, request: adapters.ForgetCorrectionsRequest, context: grpc.ServicerContext
    ) -> adapters.ForgetCorrectionsResponse:
        _check(request.adapter)
        return adapters.ForgetCorrectionsResponse(forgotten=self._parts.corrector.forget(request))

    def Chat(  # noqa: N802
        self, request: chats.ChatRequest, context: grpc.ServicerContext
    ) -> Iterator[chats.ChatResponse]:
        yield from self._parts.conversations.chat(request, _with(context))

    def Complete(  # noqa: N802
        self, request: chats.CompleteRequest, context: grpc.ServicerContext
    ) -> Iterator[chats.CompleteResponse]:
        yield from self._parts.conversations.complete(request, _with(context))

    def OpenPage(  # noqa: N802
        self, request: owner.OpenPageRequest, context: grpc.ServicerContext
    ) -> owner.OpenPageResponse:
        with self._lock:
            if self._closed:
                raise Unavailable("the agent is stopping", fix="ask again when it runs")
            if self._page is None:
                from sottovoce.edge.http.page import page_server  # imports h11: only on demand

                self._page = page_server(self._parts)
                self._page.start()
            return owner.OpenPageResponse(url=self._page.link())

    def GetSpending(  # noqa: N802
        self, request: owner.GetSpendingRequest, context: grpc.ServicerContext
    ) -> owner.GetSpendingResponse:
        return spending_report.found(self._parts.ledger.accounts)


def _examples(requests: Iterator[agent.CustomizeRequest]) -> Iterator[agent.LabelledText]:
    for request in requests:
        if request.WhichOneof("part") != "examples":
            raise InvalidInput(
                "a message after the first has no examples",
                fix="send the settings once, then examples only",
                subject="examples",
            )
        yield from request.examples.examples


def _check(adapter: str) -> None:
    if not adapter:
        raise InvalidInput("no adapter is named", fix="name one", subject="adapter")


def _with(context: grpc.ServicerContext) -> Callable[[Callable[[], None]], None]:
    """Return a function that stops an answer at the end of the call."""

    def stoppable(stop: Callable[[], None]) -> None:
        if not context.add_callback(stop):
            stop()

    return stoppable
