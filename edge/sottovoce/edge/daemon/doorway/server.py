"""The doorway: a server on loopback with a loop and a thread of its own.

Why it is here: the daemon's own calls and those that come in here share tasks and state and nothing
else; who fills this up keeps nobody from the socket.
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
from sottovoce.core.page.failure import Failure
from sottovoce.core.page.heads import PIECE
from sottovoce.core.system.threads import Threads
from sottovoce.core.wire.address import is_loopback, split_address
from sottovoce.core.wire.status import RETRY_SECONDS, kind_and_place
from sottovoce.edge.daemon.doorway.connection import Connection, Site
from sottovoce.edge.daemon.doorway.endpoints import ENDPOINTS
from sottovoce.edge.daemon.doorway.gate import Gate, read_key
from sottovoce.edge.state.caller import App
from sottovoce.edge.tasks.agent import Agent

__all__ = ["CALLS_AT_ONCE", "MOST_CONNECTIONS", "Doorway"]

CALLS_AT_ONCE: Final = 16
"""Each holds a thread; who comes when all are held is asked to come again."""
MOST_CONNECTIONS: Final = 64
"""Beyond, the oldest that has not proved who it is gives way, else the oldest that asks nothing."""

_log = logging.getLogger(__name__)


class Doorway:
    """Answers HTTP at ``address`` from when it is entered until it is left.

    Args:
        device: what is asked.
        address: "HOST:PORT", on loopback; port 0 takes a free one.
        site: what is answered; by default what OpenAI's servers do, to who has the key.

    Raises:
        ConfigError: not on loopback, not free, or the key cannot be had.
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
        """Where it answers: a number, as a name has others, which another user could take."""
        self._connections: dict[Connection, None] = {}
        self._calls = Threads(CALLS_AT_ONCE, "doorway")
        self._finding = Threads(1, "doorway-gate")  # for strangers, who wait for each other alone
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
        """Take no more requests, and give those that are being answered ``grace`` seconds.

        After that each is cut off, and ``closing`` seconds are waited for all of them to end. What
        a thread is still at then ends with the process.
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
        # In this order: Python 3.11 loses a connection that it accepts while its server closes.
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
        """Whose a token is: looked up in the state, which may be taken."""
        return await self._loop.run_in_executor(self._finding, self._device.callers.find, token)

    def _room(self) -> bool:
        """Whether there is room for another connection, made if need be."""
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
        """Where a call is to be worked on.

        Raises:
            Failure: too many are.
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
    """Waits so long until nothing else is under way, connections that are just being made
    included."""
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
