"""EdgeAgentService: the calls for apps on the device.

Clear text crosses a process boundary here. So the service holds no logic: it bounds each request
and hands it to the tasks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Self

import grpc

from sottovoce.core.errors import InvalidInput, Unavailable
from sottovoce.edge.state.caller import calling
from sottovoce.edge.state.outbox import ENDED
from sottovoce.edge.tasks.agent import Agent
from sottovoce.edge.tasks.customize import DEFAULT_PLAIN_TOKENS, Customizer, Defaults
from sottovoce.edge.tasks.local_inference import Follower
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

__all__ = ["AdaptersService", "ChatService", "OwnerService", "Service"]

_FOR_APPS: Final = frozenset(
    {
        "version",
        "bundle_id",
        "backbone",
        "levels",
        "default_level",
        "default_mechanism",
        "embed_levels",
        "doorway",
    }
)
"""Fields of the status that apps may see; spending and trainings are for the owner alone."""


class Service(edge_agent_pb2_grpc.EdgeAgentServiceServicer):
    """Serve apps; `ErrorInterceptor` turns errors into statuses with details."""

    def __init__(self, device: Agent) -> None:
        self._agent = device
        self._stopping = threading.Event()
        self._doorway = ""
        self._customizer = Customizer(
            device.engine,
            device.store,
            device.ledger,
            device.releases,
            device.outbox,
            Defaults(device.default, device.config.privacy.plain_tokens or DEFAULT_PLAIN_TOKENS),
        )
        self._uploader = Uploader(device.cloud, device.outbox, device.record)
        self._follower = Follower(device.cloud, device.home)

    def begin(self, doorway: str = "") -> None:
        """Resume unfinished work; call once, when no other daemon uses the state.

        Args:
            doorway: the HTTP address, which the status shows to apps.
        """
        self._doorway = doorway
        self._customizer.clear_staging()
        self._uploader.resume()
        self._follower.start()

    def end_watches(self) -> None:
        """End the calls that would otherwise last as long as a training."""
        self._stopping.set()
        self._agent.outbox.wake()

    def finish(self, seconds: float) -> None:
        """Stop uploading and fetching within ``seconds``.

        Unsent texts stay queued.
        """
        until = time.monotonic() + seconds
        for each in (self._uploader, self._follower):
            each.stop(max(0.0, until - time.monotonic()))

    def Privatize(  # noqa: N802 - gRPC's name
        self, request: agent.PrivatizeRequest, context: grpc.ServicerContext
    ) -> agent.PrivatizeResponse:
        return self._agent.privatize(request)

    def PrivatizeStream(  # noqa: N802
        self,
        request_iterator: Iterable[agent.PrivatizeStreamRequest],
        context: grpc.ServicerContext,
    ) -> Iterator[agent.PrivatizeStreamResponse]:
        for request in request_iterator:
            yield agent.PrivatizeStreamResponse(
                request_id=request.request_id, response=self._agent.privatize(request.request)
            )

    def Predict(  # noqa: N802
        self, request: agent.PredictRequest, context: grpc.ServicerContext
    ) -> agent.PredictResponse:
        return self._agent.predict(request)

    def PredictStream(  # noqa: N802
        self, request_iterator: Iterable[agent.PredictStreamRequest], context: grpc.ServicerContext
    ) -> Iterator[agent.PredictStreamResponse]:
        yield from self._agent.predictor.predict_stream(request_iterator)

    def Embed(  # noqa: N802
        self, request: agent.EmbedRequest, context: grpc.ServicerContext
    ) -> agent.EmbedResponse:
        return self._agent.embed(request)

    def EmbedStream(  # noqa: N802
        self, request_iterator: Iterable[agent.EmbedStreamRequest], context: grpc.ServicerContext
    ) -> Iterator[agent.EmbedStreamResponse]:
        yield from self._agent.embed_stream(request_iterator)

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
        self._agent.cloud.check()  # refuse before any privacy is spent
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
        identity = request.id or self._agent.outbox.newest(request.adapter).id
        gone = threading.Event()
        if not context.add_callback(gone.set):
            return
        for record in self._agent.outbox.watch(
            identity, lambda: gone.is_set() or self._stopping.is_set()
        ):
            yield agent.WatchCustomizationResponse(customization=record)
        if self._stopping.is_set():
            raise Unavailable("the agent is stopping", fix="watch again when it runs")

    def GetStatus(  # noqa: N802
        self, request: agent.GetStatusRequest, context: grpc.ServicerContext
    ) -> agent.GetStatusResponse:
        status = self._agent.status()
        status.doorway = self._doorway
        if calling() is not None:
            for field, _ in status.ListFields():
                if field.name not in _FOR_APPS:
                    status.ClearField(field.name)
        return status


def _examples(requests: Iterator[agent.CustomizeRequest]) -> Iterator[agent.LabelledText]:
    for request in requests:
        if request.WhichOneof("part") != "examples":
            raise InvalidInput(
                "a message after the first has no examples",
                fix="send the settings once, then examples only",
                subject="examples",
            )
        yield from request.examples.examples


class AdaptersService(edge_adapters_pb2_grpc.EdgeAdaptersServiceServicer):
    """Serve calls about adapters.

    `ErrorInterceptor` turns errors into statuses with details.
    """

    def __init__(self, device: Agent) -> None:
        self._agent = device

    def CancelCustomization(  # noqa: N802 - gRPC's name
        self, request: adapters.CancelCustomizationRequest, context: grpc.ServicerContext
    ) -> adapters.CancelCustomizationResponse:
        if not request.id:
            _check(request.adapter)
        return adapters.CancelCustomizationResponse(customization=self._agent.cancel(request))

    def RollBackAdapter(  # noqa: N802
        self, request: adapters.RollBackAdapterRequest, context: grpc.ServicerContext
    ) -> adapters.RollBackAdapterResponse:
        _check(request.adapter)
        return adapters.RollBackAdapterResponse(customization=self._agent.roll_back(request))

    def DeleteAdapter(  # noqa: N802
        self, request: adapters.DeleteAdapterRequest, context: grpc.ServicerContext
    ) -> adapters.DeleteAdapterResponse:
        _check(request.adapter)
        return adapters.DeleteAdapterResponse(deleted=self._agent.delete(request))

    def KeepCorrections(  # noqa: N802
        self, request: adapters.KeepCorrectionsRequest, context: grpc.ServicerContext
    ) -> adapters.KeepCorrectionsResponse:
        _check(request.adapter)
        return adapters.KeepCorrectionsResponse(waiting=self._agent.keep_corrections(request))

    def ListCorrections(  # noqa: N802
        self, request: adapters.ListCorrectionsRequest, context: grpc.ServicerContext
    ) -> Iterator[adapters.ListCorrectionsResponse]:
        _check(request.adapter)
        for correction in self._agent.corrections(request.adapter):
            yield adapters.ListCorrectionsResponse(correction=correction)

    def ForgetCorrections(  # noqa: N802
        self, request: adapters.ForgetCorrectionsRequest, context: grpc.ServicerContext
    ) -> adapters.ForgetCorrectionsResponse:
        _check(request.adapter)
        forgotten = self._agent.forget_corrections(request)
        return adapters.ForgetCorrectionsResponse(forgotten=forgotten)


def _check(adapter: str) -> None:
    if not adapter:
        raise InvalidInput("no adapter is named", fix="name one", subject="adapter")


class ChatService(edge_chat_pb2_grpc.EdgeChatServiceServicer):
    """Serve conversations.

    `ErrorInterceptor` turns errors into statuses with details.
    """

    def __init__(self, device: Agent) -> None:
        self._agent = device

    def Chat(  # noqa: N802 - gRPC's name
        self, request: chats.ChatRequest, context: grpc.ServicerContext
    ) -> Iterator[chats.ChatResponse]:
        yield from self._agent.chat(request, _with(context))

    def Complete(  # noqa: N802
        self, request: chats.CompleteRequest, context: grpc.ServicerContext
    ) -> Iterator[chats.CompleteResponse]:
        yield from self._agent.complete(request, _with(context))


def _with(context: grpc.ServicerContext) -> Callable[[Callable[[], None]], None]:
    """Return a function that stops an answer at the end of the call."""

    def stoppable(stop: Callable[[], None]) -> None:
        if not context.add_callback(stop):
            stop()

    return stoppable


class OwnerService(edge_owner_pb2_grpc.EdgeOwnerServiceServicer):
    """Serve the owner's commands, and open the page.

    `ErrorInterceptor` turns errors into statuses with details.
    """

    def __init__(self, device: Agent) -> None:
        self._agent = device
        self._lock = threading.Lock()
        self._page: PageServer | None = None
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(0, 0)
        if self._page is not None:
            self._page.close()

    def stop(self, grace: float, closing: float) -> None:
        """Stop the page (see `HttpServer.stop`), and let no page be opened from now on."""
        with self._lock:
            self._stopped = True
            if self._page is not None:
                self._page.stop(grace, closing)

    def OpenPage(  # noqa: N802 - gRPC's name
        self, request: owner.OpenPageRequest, context: grpc.ServicerContext
    ) -> owner.OpenPageResponse:
        with self._lock:
            if self._stopped:
                raise Unavailable("the agent is stopping", fix="ask again when it runs")
            if self._page is None:
                from sottovoce.edge.http.page import page_server  # imports h11: only on demand

                self._page = page_server(self._agent)
                self._page.start()
            return owner.OpenPageResponse(url=self._page.link())

    def GetSpending(  # noqa: N802
        self, request: owner.GetSpendingRequest, context: grpc.ServicerContext
    ) -> owner.GetSpendingResponse:
        return self._agent.spending()
