"""Access control for the daemon.

The owner may call every method, apps only the listed ones.

grpc-python does not tell which user of the machine opened a unix socket. So with agent.apps, each
call carries a token, and a call without a token is refused, even if the owner made it. A new
method is for the owner only, until it is listed.
"""

from __future__ import annotations

import grp
import hmac
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health

from sottovoce.core.errors import ConfigError, PermissionDenied
from sottovoce.core.platform.files import disk
from sottovoce.core.rpc.channels import BEARER, TOKEN_KEY
from sottovoce.core.rpc.interceptors import Handler, Interceptor, wrapped
from sottovoce.edge.state.apps import Callers, stranger
from sottovoce.edge.state.caller import App, inside
from sottovoce.v1 import edge_agent_pb2, edge_chat_pb2

__all__ = ["Admission", "folder_for", "give_to", "number_of"]

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
    """Interceptor that asks each call for a token.

    Health's Check needs no token, because it holds no thread for long. Place this inside the error
    interceptor, and outside all interceptors that wait for callers.

    Args:
        callers: finds and admits apps.
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
        """Count each message as a call; refuse messages of removed apps."""
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
        """Run each step of a stream in the caller's context, its close included.

        A generator carries no context, and its thread serves other callers after this one.
        """
        within = inside(app)
        answers: Any = within.run(answer, request, context)
        try:
            while (piece := within.run(next, answers, _END)) is not _END:
                self._callers.check(app)
                yield piece
        finally:
            within.run(answers.close)


_SETTING = "agent.group"
_MADE_FOR_IT = (
    "set agent.listen to a socket in a folder made for it, of the agent's user, such as "
    "unix:/run/sottovoce/agent.sock, with RuntimeDirectory=sottovoce in the unit"
)


def number_of(group: str) -> int:
    """Return the number of a group.

    Raises:
        ConfigError: there is no group of this name.
    """
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError as error:
        raise ConfigError(
            f"there is no group {group} on this machine",
            fix=f"make it (`sudo groupadd {group}`), or set another {_SETTING}",
            subject=_SETTING,
        ) from error


def folder_for(path: Path, number: int, state: Path) -> None:
    """Create the socket's folder so that the group can pass it.

    An existing folder stays unchanged.

    Raises:
        ConfigError: the folder is the state folder, the path leads over a link, others could
            replace the socket, or the group cannot pass a folder on the path.
    """
    folder = path.parent
    if folder.resolve() == state.resolve():
        raise ConfigError(
            f"the socket lies in the state folder {state}, which is nobody else's business",
            fix="set agent.listen to a socket in a folder of its own",
            subject="agent.listen",
        )
    if not folder.exists():
        with disk(folder):
            folder.mkdir(mode=0o700, parents=True)
        _hand(folder, number, 0o710)
    if folder.absolute() != (real := folder.resolve()):
        raise ConfigError(
            f"the way to the socket, {folder}, leads over a link",
            fix=f"set agent.listen to unix:{real / path.name}",
            subject="agent.listen",
        )
    for each in (folder, *real.parents):
        found = each.stat()
        # In a sticky folder, other users can create files but not replace existing ones.
        sticky = each != folder and found.st_mode & stat.S_ISVTX
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky
        if shared or found.st_uid not in (os.geteuid(), 0):
            raise ConfigError(
                f"other users could put a socket of theirs in the place of the agent's: {each} "
                + ("can be written by them" if shared else "is another user's"),
                fix=_MADE_FOR_IT,
                subject="agent.listen",
            )
        open_to = found.st_mode & stat.S_IXOTH
        if not open_to and not (found.st_mode & stat.S_IXGRP and found.st_gid == number):
            name = grp.getgrgid(number).gr_name
            raise ConfigError(
                f"the group {name} cannot pass {each}, on the way to the socket",
                fix=_MADE_FOR_IT,
                subject="agent.listen",
            )


def give_to(path: Path, number: int) -> None:
    """Open a socket to the group.

    Raises:
        ConfigError: the agent's user may not give the socket to this group.
    """
    _hand(path, number, 0o660)


def _hand(path: Path, number: int, mode: int) -> None:
    try:
        if path.stat().st_gid != number:
            os.chown(path, -1, number)
    except PermissionError as error:
        raise ConfigError(
            f"the agent's user may not give {path} to the group {grp.getgrgid(number).gr_name}",
            fix="make the agent's user a member of the group, then start the agent anew",
            subject=_SETTING,
        ) from error
    path.chmod(mode)
