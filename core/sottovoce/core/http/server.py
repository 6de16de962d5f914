"""An HTTP server on loopback with its own event loop and thread.

Clients that fill up one server do not block another, nor the gRPC socket.
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
from sottovoce.core.http.connection import Connection, Site
from sottovoce.core.http.messages import PIECE, HttpError
from sottovoce.core.platform.threads import Threads
from sottovoce.core.rpc.address import is_loopback, split_address
from sottovoce.core.rpc.status import RETRY_SECONDS, kind_and_place

__all__ = ["CALLS_AT_ONCE", "MOST_CONNECTIONS", "HttpServer"]

CALLS_AT_ONCE: Final = 16
"""Each call holds a thread. Further calls get status 429 with Retry-After."""
MOST_CONNECTIONS: Final = 64
"""Beyond this, the oldest unauthenticated connection is closed, else the oldest idle one."""

_log = logging.getLogger(__name__)


class HttpServer:
    """Serves HTTP at ``address``, from `start` until `close`; also a context manager.

    A server has one site. Sites with different gates need servers of their own, because a browser
    keeps state for each origin: see `sottovoce.core.http.page`.

    Args:
        address: "HOST:PORT", on loopback; port 0 takes a free port.
        setting: the address's setting, for errors.
        calls: the most requests at work at once.

    Raises:
        ConfigError: the address is not on loopback or not free.
    """

    def __init__(self, address: str, setting: str, *, calls: int = CALLS_AT_ONCE) -> None:
        host, port = split_address(address)
        if not is_loopback(host):
            raise ConfigError(
                f"{address} is reachable by others, and clients send clear text without TLS",
                fix=f'set {setting} to one such as "127.0.0.1:8472", and reach it from another '
                "machine through `ssh -L`",
                subject=setting,
            )
        self._socket = _bound(host, port, address, setting)
        host, self.port = self._socket.getsockname()[:2]
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        """The numeric address. A name may have more addresses, which another user could bind."""
        self.site: Site
        """The endpoints; set before `start`."""
        self._connections: dict[Connection, None] = {}
        self._most = calls
        self._calls: Threads
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._stopping, self._grace, self._closing = False, 0.0, 0.0
        self._thread = threading.Thread(target=self._run, name="http")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    def start(self) -> None:
        """Begin to answer with the endpoints of `site`."""
        self._calls = Threads(self._most, "http")
        self._thread.start()

    def stop(self, grace: float, closing: float) -> None:
        """Take no more requests, and give open ones ``grace`` seconds to finish.

        After that, all are cut off, and may take ``closing`` seconds to end. Work that a thread has
        not finished by then ends with the process.
        """
        if not self._stopping and self._thread.is_alive():
            self._stopping, self._grace, self._closing = True, grace, closing
            self._loop.call_soon_threadsafe(self._ending.set)

    def close(self) -> None:
        """Stop at once, and wait until the server has ended."""
        self.stop(0, 1)
        if self._thread.ident is None:  # never started
            self._socket.close()
            self._loop.close()
        else:
            self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        finally:
            self._calls.shutdown(wait=False, cancel_futures=True)

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
        connection = Connection(reader, writer, self.site, self._pool)
        self._connections[connection] = None
        try:
            await connection.serve()
        except Exception as error:
            _log.error("unexpected %s", kind_and_place(error))
        finally:
            self._connections.pop(connection, None)

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
            HttpError: too many calls are being answered.
        """
        if sum(not each.idle for each in self._connections) > self._most:
            raise HttpError(
                429,
                f"{self._most} requests are being answered",
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
