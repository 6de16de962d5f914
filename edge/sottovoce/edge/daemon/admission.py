"""Who may call the daemon, and what: everything the owner, and apps what they need.

Why it is here: grpc-python does not tell which user of the machine has opened a unix socket. So
where the owner wants apps told apart, each call carries a token, and one that carries none is
nobody's, whoever made it. What apps may call is listed; what is new is the owner's until it is
listed, too.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final

import grpc
from grpc_health.v1 import health

from sottovoce.core.errors import PermissionDenied
from sottovoce.core.wire.interception import Handler, Interceptor, wrapped
from sottovoce.core.wire.tenancy import BEARER, TOKEN_KEY
from sottovoce.edge.state.apps import stranger
from sottovoce.edge.state.caller import App, inside
from sottovoce.edge.tasks.callers import Callers
from sottovoce.v1 import edge_agent_pb2, edge_chat_pb2

__all__ = ["Admission"]

_AGENT: Final = edge_agent_pb2.DESCRIPTOR.services_by_name["EdgeAgentService"].full_name
_CHAT: Final = edge_chat_pb2.DESCRIPTOR.services_by_name["EdgeChatService"].full_name
_FOR_APPS: Final = frozenset(
    {
        (_AGENT, "Privatize"),
        (_AGENT, "PrivatizeStream"),
        (_AGENT, "Predict"),
        (_AGENT, "PredictStream"),
        (_AGENT, "Embed"),
        (_AGENT, "EmbedStream"),
        (_AGENT, "GetStatus"),
        (_CHAT, "Chat"),
        (_CHAT, "Complete"),
        (health.SERVICE_NAME, "Watch"),
    }
)
_END: Final = object()


class Admission(Interceptor):
    """Asks each call for a token, but health's Check, which holds no thread for long; goes inside
    the error interceptor, and outside of all that waits for callers.

    Args:
        callers: knows apps.
        owner: the owner's token.
    """

    def __init__(self, callers: Callers, owner: str) -> None:
        self._callers, self._owner = callers, owner.encode()

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        if (service, method) == (health.SERVICE_NAME, "Check"):
            return handler

        def admitted(request: Any, context: grpc.ServicerContext) -> tuple[App | None, Any]:
            app = self._who(context.invocation_metadata())
            if app is not None and (service, method) not in _FOR_APPS:
                raise PermissionDenied(
                    f"apps may not call {method}",
                    fix="have the device's owner do it, with the `sotto` command",
                    subject=f"{service}/{method}",
                )
            if handler.request_streaming:
                return app, self._each(request, app)
            self._callers.admit(app)
            return app, request

        def unary(answer: Callable[..., Any]) -> Callable[..., Any]:
            def call(request: Any, context: grpc.ServicerContext) -> Any:
                app, request = admitted(request, context)
                return inside(app).run(answer, request, context)

            return call

        def stream(answer: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
            def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
                app, request = admitted(request, context)
                yield from self._answers(answer, request, context, app)

            return call

        return wrapped(handler, unary, stream)

    def _who(self, metadata: Iterable[tuple[str, str | bytes]]) -> App | None:
        given = [value for key, value in metadata if key == TOKEN_KEY]
        if len(given) == 1 and isinstance(given[0], str) and given[0].startswith(BEARER):
            token = given[0].removeprefix(BEARER)
            if hmac.compare_digest(token.encode(), self._owner):
                return None
            app = self._callers.find(token)
            if app is not None:
                return app
        raise stranger()

    def _each(self, requests: Iterable[Any], app: App | None) -> Iterator[Any]:
        """Each message counts as a call, and none is taken of an app that was removed."""
        for request in requests:
            self._callers.admit(app)
            yield request

    def _answers(
        self,
        answer: Callable[..., Iterator[Any]],
        request: Any,
        context: grpc.ServicerContext,
        app: App | None,
    ) -> Generator[Any, None, None]:
        """Piece by piece in the caller's context, to its end, however it ends: a generator has no
        context of its own, and its thread has other callers after this one."""
        within = inside(app)
        answers: Any = within.run(answer, request, context)
        try:
            while (piece := within.run(next, answers, _END)) is not _END:
                self._callers.check(app)
                yield piece
        finally:
            within.run(answers.close)
