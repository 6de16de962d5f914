"""The page's server: HTTP/1.1 by h11 on loopback, one request for each connection.

The page is for one person, but every user of the machine can reach the port. So all resources are
bounded: connections, request heads, the time to receive a head and to send a response, and
concurrent work. Request bodies are never read. When the server is full, new connections displace
unauthenticated ones.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qsl

import h11

from sottovoce.core import errors
from sottovoce.core.page.files import HEADERS, File
from sottovoce.core.page.gate import (
    LARGEST_HEAD,
    PIECE,
    SESSION,
    Failure,
    PageGate,
    headers_of,
    read_head,
)
from sottovoce.core.platform.threads import Threads
from sottovoce.core.rpc.address import is_loopback, split_address
from sottovoce.core.rpc.status import RETRY_SECONDS, kind_and_place

__all__ = ["AT_ONCE", "MOST_CONNECTIONS", "Endpoint", "PageLimits", "PageServer"]

MOST_CONNECTIONS: Final = 64
"""Beyond this number, the oldest unauthenticated connection is closed."""
AT_ONCE: Final = 8
"""Requests in progress, each on a thread; further requests must try again later."""

_MOST_FIELDS: Final = 8
_JSON: Final = "application/json"
_AFTER_GRACE: Final = 1.0
"""Seconds for connections to end."""
_STATUS: Final[tuple[tuple[type[errors.SottovoceError], int], ...]] = (
    (errors.InvalidInput, 400),
    (errors.NotFound, 404),
    (errors.Unavailable, 503),
)
_log = logging.getLogger(__name__)

Endpoint = Callable[[Mapping[str, str]], Any]
"""Returns an endpoint's data as JSON values, from the request's query."""
Headers = Sequence[tuple[str, str]]


class PageLimits:
    """Time limits for a client in seconds; attributes, so that a test can shorten them."""

    head = 10.0
    """For the head of the request."""
    taking = 30.0
    """For reading the response."""


class PageServer:
    """Serves the page from `start` until `stop`.

    Args:
        address: "HOST:PORT", on loopback; port 0 takes a free port.
        files: public files, by path.
        endpoints: by path, for authenticated clients.
        command: the command that prints links, named to unauthenticated clients.

    Raises:
        ConfigError: the address is not on loopback, or not free.
    """

    def __init__(
        self,
        address: str,
        files: Mapping[str, File],
        endpoints: Mapping[str, Endpoint],
        command: str,
    ) -> None:
        self._files, self._endpoints = files, endpoints
        self._gate = PageGate(files.__contains__, command)
        self._socket = _bound(address)
        host, self._gate.port = self._socket.getsockname()[:2]
        self._host = f"[{host}]" if ":" in host else host
        self._open: dict[asyncio.StreamWriter, bool] = {}
        """Open connections, oldest first, and whether each is authenticated."""
        self._working = 0
        self._threads = Threads(AT_ONCE, "page")
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="page")

    def start(self) -> None:
        """Start to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Close all connections. Work still running on threads ends with the process."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._open)

    def link(self) -> str:
        """Return a link to the page, valid once."""
        # After "#", because browsers send the fragment to no server and in no Referer.
        return f"http://{self._host}:{self._gate.port}/#{self._gate.link()}"

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accepted, sock=self._socket, limit=PIECE)
        await self._ending.wait()
        # In this order: Python 3.11 loses a connection accepted while its server closes.
        self._loop.remove_reader(self._socket)
        await asyncio.sleep(0)
        server.close()
        for writer in [*self._open]:
            writer.transport.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(_AFTER_GRACE):
                while others := asyncio.all_tasks() - {asyncio.current_task()}:
                    await asyncio.wait(others)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)  # drained: in the kernel
        if self._room():
            self._open[writer] = False
            try:
                await self._one(reader, writer)
            except (OSError, TimeoutError, h11.LocalProtocolError):
                pass  # the client has gone, or does not read
            except Exception as error:
                _log.error("unexpected %s", kind_and_place(error))
            finally:
                self._open.pop(writer, None)
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()

    def _room(self) -> bool:
        """Return whether one more connection fits, after closing an old one if needed."""
        if len(self._open) < MOST_CONNECTIONS:
            return True
        oldest = next((each for each, proven in self._open.items() if not proven), None)
        if oldest is None:
            return False
        del self._open[oldest]
        oldest.transport.abort()
        return True

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD)
        bodiless = False
        try:
            async with asyncio.timeout(PageLimits.head):
                came = await read_head(http, reader)
            if came is None:
                return
            head, size = came
            bodiless = head.method == b"HEAD"
            answer = await self._answer(head, headers_of(head, size), writer)
            response, body = _response(200, answer)
        except h11.RemoteProtocolError as error:
            response, body = _refusal(Failure(error.error_status_hint, "that is no HTTP request"))
        except Failure as refused:
            response, body = _refusal(refused)
        events = [response, *([] if bodiless else [h11.Data(data=body)]), h11.EndOfMessage()]
        async with asyncio.timeout(PageLimits.taking):
            writer.write(b"".join(http.send(event) or b"" for event in events))
            await writer.drain()

    async def _answer(
        self, head: h11.Request, headers: Mapping[str, str], writer: asyncio.StreamWriter
    ) -> File:
        """Return the response to a request.

        Raises:
            Failure: the request is refused.
        """
        method = head.method.decode()
        path, _, query = head.target.decode().partition("?")
        if await self._gate.check(method, path, headers) and writer in self._open:
            self._open[writer] = True
        if path != SESSION and path not in self._files and path not in self._endpoints:
            raise Failure(404, "nothing is here", code="unknown_url")
        wanted = "POST" if path == SESSION else "GET"
        if method != wanted:
            allow = (("Allow", wanted),)
            raise Failure(405, f"use {wanted}", code="method_not_supported", headers=allow)
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            raise Failure(413, "no body is read here", code="too_large")
        if path == SESSION:
            return _json({"session": self._gate.session()})
        if path in self._files:
            return self._files[path]
        return await self._told(self._endpoints[path], query)

    async def _told(self, endpoint: Endpoint, query: str) -> File:
        if self._working >= AT_ONCE:
            again = (("Retry-After", str(RETRY_SECONDS)),)
            raise Failure(503, f"{AT_ONCE} requests are being answered", headers=again)
        self._working += 1
        try:
            return await self._loop.run_in_executor(self._threads, _worked, endpoint, query)
        finally:
            self._working -= 1


def _response(status: int, file: File, headers: Headers = ()) -> tuple[h11.Response, bytes]:
    fixed = [
        ("Content-Type", file.kind),
        ("Content-Length", str(len(file.body))),
        ("Connection", "close"),
        ("Cache-Control", "no-store"),
    ]
    return h11.Response(status_code=status, headers=[*fixed, *HEADERS, *headers]), file.body


def _refusal(refused: Failure) -> tuple[h11.Response, bytes]:
    return _response(refused.status, File(refused.payload, _JSON), refused.headers)


def _json(value: Any) -> File:
    return File(json.dumps(value).encode(), _JSON)


def _worked(endpoint: Endpoint, query: str) -> File:
    """Call an endpoint on a thread.

    Raises:
        Failure: any error.
    """
    try:
        return _json(endpoint(_asked(query)))
    except errors.SottovoceError as error:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        raise Failure(status, str(error), code=error.reason.lower()) from error
    except Exception as error:
        _log.error("unexpected %s", kind_and_place(error))
        raise Failure(500, f"internal error ({type(error).__name__})") from error


def _asked(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise errors.InvalidInput(
            "the query cannot be read", fix=f"ask for {_MOST_FIELDS} things at most"
        ) from None


def _bound(address: str) -> socket.socket:
    host, port = split_address(address)
    if not is_loopback(host):
        raise errors.ConfigError(
            f"{address} is reachable by others, and the page tells of tenants",
            fix="give --listen 127.0.0.1:PORT, and reach it through `ssh -L`",
            subject="listen",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise errors.ConfigError(
            f"cannot listen on {address}", fix="free it, or give another --listen", subject="listen"
        ) from error
