"""Client of the running agent, or of its parts in this process.

The parts are used if no agent is running. ``sotto privatize`` must also work without a daemon, with
the same bytes as output. Both ways use the same state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, Self

import grpc

from sottovoce.core.errors import NotReady
from sottovoce.core.rpc.address import (
    LARGEST_ANSWER,
    answers,
    is_loopback,
    socket_path,
    split_address,
)
from sottovoce.core.rpc.channels import BEARER, NO_RETRIES, TOKEN_KEY
from sottovoce.core.rpc.interceptors import ReadingChannel, answered
from sottovoce.core.rpc.status import from_rpc_error
from sottovoce.edge.cli.common import not_a_strangers
from sottovoce.edge.client.cloud import Stoppable
from sottovoce.edge.config import Config
from sottovoce.edge.state.only_one import is_held
from sottovoce.edge.state.outbox import ENDED
from sottovoce.edge.state.own_secret import OWNER
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
    from sottovoce.edge.tasks.agent import Agent

__all__ = ["Backend", "Remote", "backend", "in_process", "is_running", "remote", "request_id"]


class Backend(Protocol):
    """Interface of a running agent and of its parts in this process."""

    def privatize(self, request: agent.PrivatizeRequest) -> agent.PrivatizeResponse:
        """Privatise one text."""

    def predict(self, request: agent.PredictRequest) -> agent.PredictResponse:
        """Classify one text."""

    def embed_stream(
        self, requests: Iterable[agent.EmbedStreamRequest]
    ) -> Iterator[agent.EmbedStreamResponse]:
        """Embed texts, in order."""

    def chat(
        self, request: chats.ChatRequest, stoppable: Stoppable
    ) -> Generator[chats.ChatResponse, None, None]:
        """Stream the next turn; ``stoppable`` gets the function that ends it."""

    def complete(
        self, request: chats.CompleteRequest, stoppable: Stoppable
    ) -> Generator[chats.CompleteResponse, None, None]:
        """Stream a continuation; ``stoppable`` gets the function that ends it."""

    def status(self) -> agent.GetStatusResponse:
        """Return the status."""

    def spending(self) -> owner.GetSpendingResponse:
        """Return the privacy spent, by day and by purpose."""

    def cancel(self, request: adapters.CancelCustomizationRequest) -> agent.Customization:
        """Cancel a customisation."""

    def roll_back(self, request: adapters.RollBackAdapterRequest) -> agent.Customization:
        """Make a name stand for an earlier version of its adapter."""

    def delete(self, request: adapters.DeleteAdapterRequest) -> int:
        """Delete an adapter; return how many customisations it had."""

    def keep_corrections(self, request: adapters.KeepCorrectionsRequest) -> int:
        """Keep corrected labels of texts; return how many corrections now wait."""

    def corrections(self, adapter: str) -> Iterator[adapters.Correction]:
        """Return the waiting corrections of an adapter, the oldest first."""

    def forget_corrections(self, request: adapters.ForgetCorrectionsRequest) -> int:
        """Forget an adapter's corrections, or those for one text; return how many."""


class Remote:
    """Client of a running agent over its socket.

    Errors arrive as the agent raised them. Each call carries the owner's token, if the agent
    requires one.
    """

    def __init__(self, listen: str, token: str = "") -> None:
        self._metadata = ((TOKEN_KEY, BEARER + token),) if token else ()
        self._peer = f"the agent on {listen}"
        self._channel = grpc.insecure_channel(
            listen,
            [
                NO_RETRIES,
                ("grpc.max_receive_message_length", LARGEST_ANSWER),
                ("grpc.enable_http_proxy", 0),
            ],
        )
        self._stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(  # type: ignore[no-untyped-call]
            ReadingChannel(self._channel)
        )
        self._conversations = edge_chat_pb2_grpc.EdgeChatServiceStub(  # type: ignore[no-untyped-call]
            ReadingChannel(self._channel)
        )

        self._adapters = edge_adapters_pb2_grpc.EdgeAdaptersServiceStub(  # type: ignore[no-untyped-call]
            ReadingChannel(self._channel)
        )
        self._owner = edge_owner_pb2_grpc.EdgeOwnerServiceStub(  # type: ignore[no-untyped-call]
            ReadingChannel(self._channel)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def privatize(self, request: agent.PrivatizeRequest) -> agent.PrivatizeResponse:
        response: agent.PrivatizeResponse = self._call(self._stub.Privatize, request)
        return response

    def predict(self, request: agent.PredictRequest) -> agent.PredictResponse:
        response: agent.PredictResponse = self._call(self._stub.Predict, request)
        return response

    def embed_stream(
        self, requests: Iterable[agent.EmbedStreamRequest]
    ) -> Iterator[agent.EmbedStreamResponse]:
        return self._streamed(self._stub.EmbedStream, iter(requests))

    def chat(
        self, request: chats.ChatRequest, stoppable: Stoppable
    ) -> Generator[chats.ChatResponse, None, None]:
        yield from self._streamed(self._conversations.Chat, request, stoppable)

    def complete(
        self, request: chats.CompleteRequest, stoppable: Stoppable
    ) -> Generator[chats.CompleteResponse, None, None]:
        yield from self._streamed(self._conversations.Complete, request, stoppable)

    def status(self) -> agent.GetStatusResponse:
        response: agent.GetStatusResponse = self._call(
            self._stub.GetStatus, agent.GetStatusRequest()
        )
        return response

    def spending(self) -> owner.GetSpendingResponse:
        response: owner.GetSpendingResponse = self._call(
            self._owner.GetSpending, owner.GetSpendingRequest()
        )
        return response

    def open_page(self) -> str:
        """Return a link to the page that works once."""
        return str(self._call(self._owner.OpenPage, owner.OpenPageRequest()).url)

    def cancel(self, request: adapters.CancelCustomizationRequest) -> agent.Customization:
        record: agent.Customization = self._call(
            self._adapters.CancelCustomization, request
        ).customization
        return record

    def roll_back(self, request: adapters.RollBackAdapterRequest) -> agent.Customization:
        record: agent.Customization = self._call(
            self._adapters.RollBackAdapter, request
        ).customization
        return record

    def delete(self, request: adapters.DeleteAdapterRequest) -> int:
        return int(self._call(self._adapters.DeleteAdapter, request).deleted)

    def keep_corrections(self, request: adapters.KeepCorrectionsRequest) -> int:
        return int(self._call(self._adapters.KeepCorrections, request).waiting)

    def corrections(self, adapter: str) -> Iterator[adapters.Correction]:
        request = adapters.ListCorrectionsRequest(adapter=adapter)
        for response in self._streamed(self._adapters.ListCorrections, request):
            yield response.correction

    def forget_corrections(self, request: adapters.ForgetCorrectionsRequest) -> int:
        return int(self._call(self._adapters.ForgetCorrections, request).forgotten)

    def customize(self, requests: Iterable[agent.CustomizeRequest]) -> agent.Customization:
        """Send settings and examples; return once all are privatised and queued."""
        customization: agent.Customization = self._call(
            self._stub.Customize, iter(requests)
        ).customization
        return customization

    def watch(
        self, identity: str, adapter: str = "", stoppable: Stoppable = lambda stop: None
    ) -> Generator[agent.Customization, None, None]:
        """Yield a customisation now and after every change, until it ends.

        An adapter's name stands for its newest customisation. ``stoppable`` gets the function that
        ends the watch.
        """
        request = agent.WatchCustomizationRequest(id=identity, adapter=adapter)
        for response in self._streamed(self._stub.WatchCustomization, request, stoppable):
            yield response.customization

    def _streamed(
        self, method: Any, request: Any, stoppable: Stoppable = lambda stop: None
    ) -> Iterator[Any]:
        call = method(request, metadata=self._metadata)
        stoppable(call.cancel)
        try:
            for response in call:
                yield answered(response, peer=self._peer)
        except grpc.RpcError as error:
            raise from_rpc_error(error, peer=self._peer) from error
        finally:
            call.cancel()

    def _call(self, method: Any, request: Any) -> Any:
        try:
            return answered(method(request, metadata=self._metadata), peer=self._peer)
        except grpc.RpcError as error:
            raise from_rpc_error(error, peer=self._peer) from error


def is_running(config: Config) -> bool:
    """Return whether a usable agent answers on the configured address."""
    path = socket_path(config.agent.listen)
    if path is not None:
        return answers(path)
    host, _ = split_address(config.agent.listen)
    if not is_loopback(host) or config.agent.tls_cert is not None:
        return False  # it requires a client certificate, which commands lack
    with grpc.insecure_channel(config.agent.listen, [("grpc.enable_http_proxy", 0)]) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=1)
        except grpc.FutureTimeoutError:
            return False
    # Any user can bind the port while the agent is down. With agent.apps, not all are trusted.
    return not config.agent.apps or is_held(config.agent.state)


def remote(config: Config) -> Remote:
    """Return a client of the running agent.

    Raises:
        NotReady: no agent is running.
        ConfigError: another user's program answers in the agent's place.
    """
    if not is_running(config):
        raise NotReady(
            f"no agent answers on {config.agent.listen}",
            fix="start it with `sotto serve`",
            subject="agent",
        )
    return _remote(config)


def backend(config: Config) -> AbstractContextManager[Backend]:
    """Return the running agent, else its parts in this process over the same state.

    Raises:
        ConfigError: another user's program answers in the agent's place.
    """
    return _remote(config) if is_running(config) else in_process(config)


def _remote(config: Config) -> Remote:
    not_a_strangers(config)
    asked_for = config.agent.apps and (config.agent.state / OWNER.file).exists()
    return Remote(config.agent.listen, OWNER.read(config.agent.state) if asked_for else "")


@contextmanager
def in_process(config: Config) -> Iterator[Agent]:
    """Give an agent's parts in this process, whether or not an agent is running.

    Raises:
        ConfigError: the user is root, and the agent belongs to another user.
    """
    from sottovoce.edge.cli.common import not_as_root
    from sottovoce.edge.tasks.agent import Agent  # imports onnxruntime: only where needed

    not_as_root(config)
    with closing(Agent(config)) as device:
        yield device


def request_id(
    settings: agent.CustomizationSettings,
    examples: Iterable[agent.LabelledText],
    defaults: str,
    before: Iterable[agent.Customization],
) -> str:
    """Return a request's id; it changes once a training of that adapter has ended."""
    asked = hashlib.sha256(defaults.encode())
    for message in (settings, *examples):
        asked.update(hashlib.sha256(message.SerializeToString(deterministic=True)).digest())
    ended = sum(one.adapter == settings.adapter and one.state in ENDED for one in before)
    return f"{asked.hexdigest()[:32]}-{ended}"
