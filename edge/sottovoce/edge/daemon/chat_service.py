"""EdgeChatService: conversations, for apps on the device.

Like `Service` it holds no logic. When an app ends its call, the answer ends too: the thread that
waits for the cloud is stopped at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc

from sottovoce.edge.tasks.agent import Agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import edge_chat_pb2_grpc

__all__ = ["ChatService"]


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
