"""The doorway: an HTTP server on loopback with its own event loop and thread.

It shares only tasks and state with the daemon's gRPC calls. So clients that fill up the doorway do
not block the gRPC socket.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final, Self

from sottovoce.core.errors import ConfigError
from sottovoce.core.page.gate import PIECE, Failure
from sottovoce.core.platform.threads import Threads
from sottovoce.core.rpc.address import is_loopback, split_address
from sottovoce.core.rpc.status import RETRY_SECONDS, kind_and_place
from sottovoce.edge.daemon.doorway.connection import Connection, Site
from sottovoce.edge.daemon.doorway.endpoints import ENDPOINTS
from sottovoce.edge.daemon.doorway.gate import Gate, read_key
from sottovoce.edge.state.caller import App
from sottovoce.edge.tasks.agent import Agent

__all__ = ["CALLS_AT_ONCE", "MOST_CONNECTIONS", "Doorway"]

CALLS_AT_ONCE: Final = 16
"""Each call holds a thread. Further calls get status 429 with Retry-After."""
MOST_CONNECTIONS: Final = 64
"""Beyond this, the oldest unauthenticated connection is closed, else the oldest idle one."""

_log = logging.getLogger(__name__)


class Doorway:
    """Context manager that serves HTTP at ``address``.

    Args:
        device: the agent that answers.
        address: "HOST:PORT", on loopback; port 0 takes a free port.
        site: the endpoints and their guard; by default OpenAI's endpoints, behind the key.

    Raises:
        ConfigError: the address is not on loopback or not free, or the key cannot be read or
            created.
    """

    def __init__(self, device: Agent, address: str, site: Site | None = None) -> None:
        setting = site.setting if site else "doorway.address"
        host, port = split_address(address)
        if not is_loopback(host):
            raise ConfigError(
                f"{address} is reachable by others, and the doorway takes clear text",
                fix=f'set {setting} to one such as "127.0.0.1:8472"',
                subject=setting,
            )
        key = "" if site else read_key(device.config.agent.state, make=True)
        self._site = site or Site(Gate(key, self._find), ENDPOINTS)
        self._device = device
        self._socket = _bound(host, port, address, setting)
        host, port = self._socket.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        """The numeric address. A name may have more addresses, which another user could bind."""
        self._connections: dict[Connection, None] = {}
        self._calls = Threads(CALLS_AT_ONCE, "doorway")
        self._finding = Threads(1, "doorway-gate")  # so token lookups do not delay calls
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._stopping, self._grace, self._closing = False, 0.0, 0.0
        self._thread = threading.Thread(target=self._run, name="doorway")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(0, 1)
        self._thread.join()

    def stop(self, grace: float, closing: float) -> None:
        """Take no more requests, and give open ones ``grace`` seconds to finish.

        After that, all are cut off, and may take ``closing`` seconds to end. Work that a thread has
        not finished by then ends with the process.
        """
        if not self._stopping:
            self._stopping, self._grace, self._closing = True, grace, closing
            self._loop.call_soon_threadsafe(self._ending.set)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        finally:
            for pool in (self._calls, self._finding):
                pool.shutdown(wait=False, cancel_futures=True)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accepted, sock=self._socket, limit=PIECE)
        await self._ending.wait()
        # In this order, as Python 3.11 loses a connection that it accepts while the server closes.
        self._loop.remove_reader(self._socket)
        await asyncio.sleep(0)
        server.close()
        for connection in [*self._connections]:
            if connection.idle:
                connection.abort()
        await _others_end(self._grace)
        for connection in [*self._connections]:
            connection.abort()
        await _others_end(self._closing)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._stopping or not self._room():
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
            return
        connection = Connection(reader, writer, self._site, self._device, self._pool)
        self._connections[connection] = None
        try:
            await connection.serve()
        except Exception as error:
            _log.error("unexpected %s", kind_and_place(error))
        finally:
            self._connections.pop(connection, None)

    async def _find(self, token: str) -> App | None:
        """Return the app of a token.

        The lookup runs on a thread, because the state may be locked.
        """
        return await self._loop.run_in_executor(self._finding, self._device.callers.find, token)

    def _room(self) -> bool:
        """Return whether another connection fits; close an older one if needed."""
        if len(self._connections) < MOST_CONNECTIONS:
            return True
        unproven = (each for each in self._connections if not each.proven)
        idle = (each for each in self._connections if each.idle)
        oldest = next(unproven, None) or next(idle, None)
        if oldest is None:
            return False
        self._connections.pop(oldest)
        oldest.abort()
        return True

    def _pool(self) -> Executor:
        """Return the pool for a call.

        Raises:
            Failure: too many calls are being answered.
        """
        if sum(not each.idle for each in self._connections) > CALLS_AT_ONCE:
            raise Failure(
                429,
                f"{CALLS_AT_ONCE} requests are being answered",
                "rate_limit_error",
                code="overloaded",
                headers=(("Retry-After", str(RETRY_SECONDS)),),
            )
        return self._calls


async def _others_end(seconds: float) -> None:
    """Wait at most ``seconds`` for all other tasks to end, new connections included."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)


def _bound(host: str, port: int, address: str, setting: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {address}",
            fix=f"free the address, or set another {setting}",
            subject=setting,
        ) from error
