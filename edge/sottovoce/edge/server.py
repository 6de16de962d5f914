"""The daemon: a gRPC server on a unix socket or a TCP address.

Without agent.apps, every process that can open the socket acts as the owner. So the socket's mode
is the access control, because grpc-python does not tell which user opened it. A lock prevents two
daemons over one state. A stale socket is replaced, so that apps do not wait on a dead one.

With agent.apps, each call carries a token, and a call without a token is refused, even if the owner
made it. The owner may call every method, apps only the listed ones.
"""

from __future__ import annotations

import grp
import hmac
import logging
import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from sottovoce.core.errors import ConfigError, NotReady, PermissionDenied
from sottovoce.core.platform import memory
from sottovoce.core.platform.files import disk, private_folder
from sottovoce.core.platform.threads import (
    DAEMON_FILES,
    Ending,
    Threads,
    join,
    room_for_files,
    room_for_threads,
)
from sottovoce.core.rpc.address import (
    LARGEST_ANSWER,
    answers,
    check_certificate,
    is_loopback,
    socket_path,
    split_address,
)
from sottovoce.core.rpc.channels import (
    BEARER,
    TOKEN_KEY,
    Handler,
    Interceptor,
    PendingCallLimiter,
    host,
    serve_reflection,
    wrapped,
)
from sottovoce.core.rpc.error_status import ErrorInterceptor
from sottovoce.core.rpc.streams import OpenStreams
from sottovoce.core.rpc.telemetry import Traced, traced
from sottovoce.edge.config import AgentConfig, Config, OpenAIConfig
from sottovoce.edge.services import NAMES, Services
from sottovoce.edge.state.apps import OWNER, App, Callers, calling, inside, stranger
from sottovoce.edge.state.database import only_one
from sottovoce.edge.tasks.engine import Engine
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2, edge_chat_pb2

if TYPE_CHECKING:
    from sottovoce.core.http.server import HttpServer


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
_OWN_PLACE = "set agent.listen to a socket in a folder of your own"
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
        with _named_by_listen(), disk(folder):
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


STREAMS, WAITING = 24, 8  # open streams; calls that wait for their request
CALLS_AT_ONCE = 16  # besides those; further calls wait for a thread
THREADS = STREAMS + WAITING + CALLS_AT_ONCE
QUEUED_CALLS = 64
PATIENCE = 60.0  # seconds that a call may wait for its request
GRACE_SECONDS = 5.0  # from the signal until the daemon stops waiting for work
CLOSING_SECONDS = 1.0  # the last of those, for cut-off work to end
LARGEST_REQUEST = 4 << 20
_log = logging.getLogger(__name__)


def serve(
    config: Config,
    *,
    engine: Engine | None = None,
    ready: Callable[[str], None] = lambda address: None,
    stop: threading.Event | None = None,
) -> bool:
    """Run the daemon until SIGTERM, SIGINT or `stop`; return whether SIGINT ended it.

    Args:
        engine: used in place of the configured one.
        ready: called with the address once requests are answered.
        stop: ends the daemon when set. Signals are handled only without it.

    Raises:
        NotReady: another daemon uses this state or this address, or the limits on files or threads
            are too low.
        ConfigError: the address cannot be used, or not without TLS.
        DataLoss: the files of its database were replaced while it ran.
    """
    ending = stop or Ending()
    memory.bound_heap()
    memory.give_back()
    room_for_files(DAEMON_FILES)
    room_for_threads()
    with (
        traced("agent", config.agent.trace),
        only_one(config.agent.state),
        closing(Parts(config, engine, ending.set)) as parts,
        closing(Services(parts)) as services,
    ):
        checks = health.HealthServicer()
        doorkeeper = PendingCallLimiter(most=WAITING, seconds=(PATIENCE, PATIENCE))
        server = _server(services, checks, [*_admission(parts), doorkeeper])
        with (
            _bound(server, config.agent) as address,
            _openai_server(parts, config.openai) as endpoint,
        ):
            services.begin(endpoint.address if endpoint else "")
            server.start()
            doorkeeper.start()
            checks.set("", health_pb2.HealthCheckResponse.SERVING)
            _notify("READY=1")
            _log.info("serving on %s", address)
            if endpoint:
                _log.info("the OpenAI endpoint is http://%s/v1", endpoint.address)
            ready(address)
            # Joined at the end, because the interpreter cannot end cleanly while a thread is inside
            # a C++ library. The command ends without it.
            warming = threading.Thread(target=parts.engine.warm, name="warm")
            warming.start()
            ended_by = ending.wait()
            until = time.monotonic() + GRACE_SECONDS
            _log.info("stopping")
            _notify("STOPPING=1")
            checks.enter_graceful_shutdown()
            services.end_watches()
            grace = GRACE_SECONDS - CLOSING_SECONDS
            if endpoint:
                endpoint.stop(grace, CLOSING_SECONDS)
            services.stop_page(grace, CLOSING_SECONDS)
            server.stop(grace).wait(_left(until))
            doorkeeper.close()
            services.finish(_left(until))
            join([warming], _left(until))
    _log.info("stopped")
    return ended_by is signal.SIGINT


def _left(until: float) -> float:
    """Return the seconds left until a monotonic time, at least 0."""
    return max(0.0, until - time.monotonic())


def _server(
    services: Services, checks: health.HealthServicer, doorkeepers: Sequence[Interceptor]
) -> grpc.Server:
    server = grpc.server(
        Threads(THREADS, "call"),
        interceptors=[
            Traced(callers=False),
            ErrorInterceptor(),
            *doorkeepers,
            OpenStreams(STREAMS, whose=_whose),
        ],
        maximum_concurrent_rpcs=THREADS + QUEUED_CALLS,
        options=[
            ("grpc.max_concurrent_streams", THREADS),  # per connection; further calls wait there
            ("grpc.max_receive_message_length", LARGEST_REQUEST),
            ("grpc.max_send_message_length", LARGEST_ANSWER),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ],
    )
    services.add_to(server)
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    serve_reflection(server, (*NAMES, health.SERVICE_NAME))
    return server


def _whose(context: grpc.ServicerContext) -> tuple[App | None, str]:
    """Return the key of a caller: its app from any host, else its host."""
    app = calling()
    return app, "" if app else host(context.peer())


def _admission(parts: Parts) -> Iterator[Admission]:
    """Yield the interceptor that asks for tokens, if agent.apps is set."""
    config = parts.config.agent
    if config.apps:
        yield Admission(parts.callers, OWNER.renew(config.state))


@contextmanager
def _openai_server(parts: Parts, config: OpenAIConfig) -> Iterator[HttpServer | None]:
    """Serve OpenAI's API if an address is configured, else give None."""
    if not config.address:
        yield None
        return
    from sottovoce.edge.http.endpoints import openai_server  # imports h11: only on demand

    with openai_server(parts, config.address) as server:
        yield server


@contextmanager
def _bound(server: grpc.Server, config: AgentConfig) -> Iterator[str]:
    """Bind the configured address and give it; port 0 becomes the chosen port."""
    path = socket_path(config.listen)
    if path is None:
        yield _bind_port(server, config)
        return
    group = number_of(config.group) if config.group else None
    if group is None:
        with _named_by_listen():
            private_folder(path.parent)
    else:
        folder_for(path, group, config.state)
    if answers(path):
        raise NotReady(
            f"something already listens on {path}",
            fix="stop it, or set another agent.listen",
            subject="agent.listen",
        )
    if path.exists() and not path.is_socket():
        raise ConfigError(
            f"{path} is {'a folder' if path.is_dir() else 'a file'}, and no socket",
            fix=_OWN_PLACE,
            subject="agent.listen",
        )
    with _named_by_listen(), disk(path), suppress(FileNotFoundError):
        path.unlink()  # left by a daemon that was killed
    before = os.umask(0o177)  # so that the socket is never open to other users
    try:
        _bind(lambda: server.add_insecure_port(f"unix:{path}"), config.listen)
    finally:
        os.umask(before)
    try:
        if group is not None:
            give_to(path, group)
        yield f"unix:{path}"
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _named_by_listen() -> Iterator[None]:
    """Name agent.listen in errors about the folder of the socket."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(error.problem, fix=_OWN_PLACE, subject="agent.listen") from error


def _bind_port(server: grpc.Server, config: AgentConfig) -> str:
    host, port = split_address(config.listen)
    shown = f"[{host}]" if ":" in host else host
    if config.tls_cert is None or config.tls_key is None:
        if not is_loopback(host):
            raise ConfigError(
                f"{config.listen} is reachable by others, and the agent takes clear text",
                fix="listen on a unix socket or 127.0.0.1, or set tls_cert, tls_key and "
                "tls_client_ca",
                subject="agent.listen",
            )
        bound = _bind(lambda: server.add_insecure_port(f"{shown}:{port}"), config.listen)
        if not config.apps:
            _log.warning(
                "every user of this machine can use the agent on %s (agent.apps = true has each "
                "call carry a token)",
                config.listen,
            )
        return f"{shown}:{bound}"
    if config.tls_client_ca is None and not is_loopback(host):
        raise ConfigError(
            f"anyone who can reach {config.listen} could use the agent",
            fix="set agent.tls_client_ca to the authority that signs your apps' certificates",
            subject="agent.tls_client_ca",
        )
    try:
        pair = (config.tls_key.read_bytes(), config.tls_cert.read_bytes())
        roots = config.tls_client_ca.read_bytes() if config.tls_client_ca else None
    except OSError as error:
        raise ConfigError(
            f"cannot read {error.filename}: {error.strerror}",
            fix="mend agent.tls_cert, agent.tls_key or agent.tls_client_ca",
            subject="agent.tls_cert",
        ) from error
    check_certificate(pair[1], "agent.tls_cert")
    credentials = grpc.ssl_server_credentials([pair], roots, roots is not None)
    bound = _bind(lambda: server.add_secure_port(f"{shown}:{port}", credentials), config.listen)
    return f"{shown}:{bound}"


def _bind(bind: Callable[[], int], listen: str) -> int:
    try:
        return bind()
    except RuntimeError as error:
        raise ConfigError(
            f"cannot listen on {listen}",
            fix="free the address or set another agent.listen",
            subject="agent.listen",
        ) from error


def _notify(state: str) -> None:
    """Send a state to systemd if NOTIFY_SOCKET is set (sd_notify(3))."""
    name = os.environ.get("NOTIFY_SOCKET", "")
    if name:
        address = "\0" + name[1:] if name.startswith("@") else name
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out, suppress(OSError):
            out.sendto(state.encode(), address)
