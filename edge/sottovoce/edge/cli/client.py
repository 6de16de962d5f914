"""Calls to the agent's services: of the running agent, or in this process.

``sotto privatize`` must also work without a daemon, with the same bytes as output. So a command
that finds no daemon opens the state itself, and calls the same services without a socket.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, closing
from functools import partial, partialmethod
from typing import TYPE_CHECKING, Any, Self

import grpc

from sottovoce.core.errors import NotReady
from sottovoce.core.rpc.address import (
    LARGEST_ANSWER,
    answers,
    is_loopback,
    socket_path,
    split_address,
)
from sottovoce.core.rpc.channels import BEARER, NO_RETRIES, TOKEN_KEY, ReadingChannel, answered
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.edge.cli.common import Stream, not_a_strangers, not_as_root
from sottovoce.edge.config import Config
from sottovoce.edge.state.apps import OWNER
from sottovoce.edge.state.database import is_held
from sottovoce.edge.state.outbox import ENDED
from sottovoce.v1 import (
    edge_adapters_pb2_grpc,
    edge_agent_pb2_grpc,
    edge_chat_pb2_grpc,
    edge_owner_pb2_grpc,
)
from sottovoce.v1 import edge_agent_pb2 as agent

if TYPE_CHECKING:
    from sottovoce.edge.services import Services
    from sottovoce.edge.tasks.parts import Parts


class Client:
    """Stubs of the agent's services.

    A method raises `SottovoceError`. A method with a stream of responses returns a `Stream`.
    """

    def __init__(self, channel: Any, close: Callable[[], object]) -> None:
        self._close = close
        self.agent: Any = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
        self.chat: Any = edge_chat_pb2_grpc.EdgeChatServiceStub(channel)  # type: ignore[no-untyped-call]
        self.adapters: Any = edge_adapters_pb2_grpc.EdgeAdaptersServiceStub(channel)  # type: ignore[no-untyped-call]
        self.owner: Any = edge_owner_pb2_grpc.EdgeOwnerServiceStub(channel)  # type: ignore[no-untyped-call]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


class _Remote:
    """A channel for stubs to a running agent; errors arrive as the agent raised them."""

    def __init__(self, channel: grpc.Channel, listen: str, token: str) -> None:
        self._channel = ReadingChannel(channel)
        self._metadata = ((TOKEN_KEY, BEARER + token),) if token else ()
        self._peer = f"the agent on {listen}"

    def _method(self, shape: str, *args: Any, **options: Any) -> Callable[[Any], Any]:
        method = getattr(self._channel, shape)(*args, **options)
        return partial(self._stream if shape.endswith("stream") else self._unary, method)

    def _unary(self, method: Any, request: Any) -> Any:
        try:
            return answered(method(request, metadata=self._metadata), peer=self._peer)
        except grpc.RpcError as error:
            raise from_rpc_error(error, peer=self._peer) from error

    def _stream(self, method: Any, request: Any) -> Stream[Any]:
        call = method(request, metadata=self._metadata)
        return Stream(self._read(call), call.cancel)

    def _read(self, call: Any) -> Generator[Any, None, None]:
        try:
            for response in call:
                yield answered(response, peer=self._peer)
        except grpc.RpcError as error:
            raise from_rpc_error(error, peer=self._peer) from error
        finally:
            call.cancel()

    unary_unary = partialmethod(_method, "unary_unary")
    unary_stream = partialmethod(_method, "unary_stream")
    stream_unary = partialmethod(_method, "stream_unary")
    stream_stream = partialmethod(_method, "stream_stream")


class _Local:
    """A channel for stubs to services in this process, on behalf of the owner."""

    def __init__(self, services: Services) -> None:
        self._handlers: dict[str, Any] = {}
        services.add_to(self)

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Ignore these: they are the same handlers, for servers of older versions."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Take the handlers of a service, as `grpc.Server` does."""
        self._handlers |= {f"/{service}/{name}": each for name, each in handlers.items()}

    def _method(self, shape: str, path: str, *_: Any, **__: Any) -> Callable[[Any], Any]:
        method = getattr(self._handlers[path], shape)
        return partial(self._stream if shape.endswith("stream") else self._unary, method)

    def _unary(self, method: Any, request: Any) -> Any:
        return method(request, _Context())

    def _stream(self, method: Any, request: Any) -> Stream[Any]:
        context = _Context()
        return Stream(method(request, context), context.cancel)

    unary_unary = partialmethod(_method, "unary_unary")
    unary_stream = partialmethod(_method, "unary_stream")
    stream_unary = partialmethod(_method, "stream_unary")
    stream_stream = partialmethod(_method, "stream_stream")


class _Context:
    """The part of `grpc.ServicerContext` that the services use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._cancelled = False

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Have the function called when the call is cancelled; return False if it was."""
        with self._lock:
            if not self._cancelled:
                self._callbacks.append(callback)
            return not self._cancelled

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


def connect(listen: str, token: str = "") -> Client:
    """Return a client of the agent on an address, as the owner.

    Args:
        token: the owner's token, if the agent requires one.
    """
    options = [
        NO_RETRIES,
        ("grpc.max_receive_message_length", LARGEST_ANSWER),
        ("grpc.enable_http_proxy", 0),
    ]
    channel = grpc.insecure_channel(listen, options)
    return Client(_Remote(channel, listen, token), channel.close)


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


def remote(config: Config) -> Client:
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
    not_a_strangers(config)
    asked_for = config.agent.apps and (config.agent.state / OWNER.file).exists()
    return connect(config.agent.listen, OWNER.read(config.agent.state) if asked_for else "")


def local(config: Config) -> Client:
    """Return a client of services in this process, whether or not an agent is running.

    Raises:
        ConfigError: the user is root, and the agent belongs to another user.
    """
    from sottovoce.edge.services import Services  # imports onnxruntime: only where needed

    with ExitStack() as stack:
        services = Services(stack.enter_context(parts(config)))
        stack.callback(services.close)
        stack.callback(services.finish, 0)
        channel = _Local(services)
        return Client(channel, stack.pop_all().close)


def reach(config: Config) -> Client:
    """Return a client of the running agent, else of services in this process.

    Raises:
        ConfigError: another user's program answers in the agent's place.
    """
    return remote(config) if is_running(config) else local(config)


def parts(config: Config) -> closing[Parts]:
    """Open an agent's parts in this process, whether or not an agent is running.

    Raises:
        ConfigError: the user is root, and the agent belongs to another user.
    """
    from sottovoce.edge.tasks.parts import Parts  # imports onnxruntime: only where needed

    not_as_root(config)
    return closing(Parts(config))


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
