"""HTTP/1.1 server on loopback with its own event loop and thread, and its connections (h11).

Clients that fill up one server do not block another, nor the gRPC socket.

A connection enforces the limits. No body is read before the sender is authenticated. The size of
heads and bodies is limited, and so is the time to send them. The client must read each piece of a
response within a limit too. When the connection ends, the work ends.

Endpoints block (on the disk, the search, the cloud), and connections must not. So a thread runs the
endpoint. It sends each piece before it makes the next, so nothing piles up for a slow client.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Executor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, Self

import h11

from sottovoce.core.errors import ConfigError
from sottovoce.core.http.messages import (
    LARGEST_HEAD,
    PIECE,
    Headers,
    HttpError,
    Request,
    Response,
    check_trailers,
    headers_of,
    http_error,
    read_head,
)
from sottovoce.core.platform.threads import Threads
from sottovoce.core.rpc.address import is_loopback, split_address
from sottovoce.core.rpc.error_status import RETRY_SECONDS, kind_and_place

LARGEST_BODY: Final = 4 << 20
"""Bytes; the same limit as for a message on the gRPC socket."""

EVENTS: Final = "text/event-stream; charset=utf-8"

_MOST_REQUESTS: Final = 1_000
"""The most requests on one connection; clients then open another."""

Endpoint = Callable[[Request], Response]


class Caller:
    """An authenticated client; subclasses limit its rights."""

    def run(self, work: Callable[[], None]) -> None:
        """Run ``work``, on the thread that answers the request."""
        work()

    def admit(self) -> None:
        """Count a request before it is answered; raise an error to refuse it."""

    def check(self) -> None:
        """Raise an error if the rest of a stream must not be sent."""


class Gate(Protocol):
    """Check that decides which requests are admitted."""

    async def check(self, method: str, path: str, headers: Mapping[str, str]) -> Caller | None:
        """Return the caller, or None for a public path.

        It runs on the event loop, so slow work must go to a thread.

        Raises:
            HttpError: the request is refused.
            SottovoceError: the check itself failed.
        """


@dataclass(frozen=True, slots=True)
class Site:
    """The endpoints at an address.

    Attributes:
        gate: the check of each request.
        endpoints: method and endpoint by path; one that ends in "/" has every path below it.
        files: static responses to GET by path, sent without a thread.
        headers: further headers of every response.
        largest_body: the most bytes of a request's body.
    """

    gate: Gate
    endpoints: Mapping[str, tuple[str, Endpoint]]
    files: Mapping[str, Response] = field(default_factory=dict)
    headers: Headers = ()
    largest_body: int = LARGEST_BODY

    def find(self, method: str, path: str) -> Endpoint | Response:
        """Return the endpoint or the file for a request.

        Raises:
            HttpError: the path is unknown (404), or needs another method (405).
        """
        found: Endpoint | Response
        below = (each for each in self.endpoints if each.endswith("/") and path.startswith(each))
        place = path if path in self.endpoints else next(below, "")
        if path in self.files:
            wanted, found = "GET", self.files[path]
        elif place:
            wanted, found = self.endpoints[place]
        else:
            raise HttpError(
                404, f"nothing is here (there are {', '.join(self.endpoints)})", code="unknown_url"
            )
        if method != wanted:
            allow = (("Allow", wanted),)
            raise HttpError(405, f"use {wanted}", code="method_not_supported", headers=allow)
        return found


class HttpLimits:
    """Timeouts in seconds; class attributes, so that tests can shorten them."""

    head = 10.0
    """For a request's head, until the client is authenticated."""
    idle = 60.0
    """Between two requests of an authenticated client."""
    body = 60.0
    taking = 60.0
    """For the client to read a piece of a response."""
    whole = 3_600.0
    """For a whole response."""
    linger = 2.0
    """For the client to read an error that was sent before its request was read."""


class _Gone(Exception):
    """The client has disconnected."""


class _Exchange:
    """Lets a thread send over a connection of ``loop``, until it is cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._gone = False
        self._stops: list[Callable[[], None]] = []

    def stoppable(self, stop: Callable[[], None]) -> None:
        """Call ``stop`` when the client disconnects, or at once if it already has."""
        with self._lock:
            gone = self._gone
            self._stops.append(stop)
        if gone:
            stop()

    def cancel(self) -> None:
        """End the work; calling this again does nothing."""
        with self._lock:
            if self._gone:
                return
            self._gone = True
            stops = [*self._stops]
        for stop in stops:
            stop()

    def wait(self, sending: Coroutine[Any, Any, None]) -> None:
        """Run ``sending`` on the loop, and wait until it is done.

        Raises:
            _Gone: the client has disconnected.
        """
        try:
            with self._lock:  # begin nothing after `cancel`, which comes before the loop ends
                if self._gone:
                    raise _Gone
                sent = asyncio.run_coroutine_threadsafe(sending, self._loop)
            sent.result()
        except (OSError, CancelledError, RuntimeError) as error:
            raise _Gone from error
        finally:
            sending.close()  # does nothing if it has ended


class Connection:
    """Server for one client.

    Args:
        reader, writer: the connection.
        site: the endpoints and their gate.
        pool: gives the executor for endpoints, or raises `HttpError` if it is full.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        site: Site,
        pool: Callable[[], Executor],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._site, self._pool = site, pool
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD)
        self._exchange: _Exchange | None = None
        self._bodiless = False
        self.proven = False
        """Whether an authenticated request has arrived."""
        writer.transport.set_write_buffer_limits(high=PIECE)

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self._exchange is None

    def abort(self) -> None:
        """End the connection and its work now."""
        if self._exchange is not None:
            self._exchange.cancel()
        self._writer.transport.abort()

    async def serve(self) -> None:
        """Answer requests until either side ends the connection."""
        try:
            for _ in range(_MOST_REQUESTS):
                if not await self._one():
                    break
                self._http.start_next_cycle()
        except (OSError, TimeoutError, h11.ProtocolError):
            pass  # the client left, does not read, or does not speak HTTP
        finally:
            self.abort()
            with suppress(OSError):
                await self._writer.wait_closed()

    async def _one(self) -> bool:
        """Answer one request; return whether another may follow."""
        self._bodiless = False
        try:
            async with asyncio.timeout(HttpLimits.idle if self.proven else HttpLimits.head):
                came = await read_head(self._http, self._reader)
            if came is None:
                return False
            head, size = came
            self._bodiless = head.method == b"HEAD"
            headers = headers_of(head, size)
            path, _, query = head.target.decode().partition("?")
            caller = await self._caller(head.method.decode(), path, headers)
            self.proven = self.proven or caller is not None
            found = self._site.find(head.method.decode(), path)
            most = self._site.largest_body if caller else 0
            async with asyncio.timeout(HttpLimits.body):
                body = await self._body(headers, most)
        except h11.RemoteProtocolError as error:
            await self._refuse(HttpError(error.error_status_hint, "that is no HTTP request"))
            return False
        except HttpError as refused:
            await self._refuse(refused)
            return False
        if isinstance(found, Response):
            await self._whole(200, found)
        else:
            exchange = _Exchange(asyncio.get_running_loop())
            request = Request(path, headers, query, body, exchange.stoppable)
            await self._answer(found, request, caller or Caller(), exchange)
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _caller(self, method: str, path: str, headers: dict[str, str]) -> Caller | None:
        """Return the result of the gate's check.

        Raises:
            HttpError: the request is refused, or the check itself failed.
        """
        try:
            return await self._site.gate.check(method, path, headers)
        except Exception as error:
            raise http_error(error) from error

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._http.receive_data(await self._reader.read(PIECE))
        return event

    async def _body(self, headers: Mapping[str, str], most: int) -> bytes:
        # Chunks are not waited for where no body is read.
        chunked = "transfer-encoding" in headers
        announced = int(headers.get("content-length", "1" if chunked else "0"))
        body = bytearray()  # not a list: one-byte chunks would take fifty times their size
        while (len(body) or announced) <= most:
            event = await self._event()
            if isinstance(event, h11.EndOfMessage):
                check_trailers(event)
                return bytes(body)
            if not isinstance(event, h11.Data):
                raise ConnectionError  # the client broke off
            body += event.data
        raise HttpError(413, f"the body is longer than {most} bytes", code="too_large")

    async def _answer(
        self, endpoint: Endpoint, request: Request, caller: Caller, exchange: _Exchange
    ) -> None:
        loop = asyncio.get_running_loop()
        self._exchange = exchange
        too_long = loop.call_later(HttpLimits.whole, self.abort)
        watching = asyncio.create_task(self._watch(exchange))
        try:
            work = partial(self._work, endpoint, request, caller, exchange)
            await loop.run_in_executor(self._pool(), caller.run, work)
        except HttpError as refused:  # the pool is full
            await self._refuse(refused, close=False)
        finally:
            too_long.cancel()
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            self._exchange = None

    async def _watch(self, exchange: _Exchange) -> None:
        """End the work when the client disconnects, or sends over one `PIECE` too early.

        Only a reader notices the end of a connection.
        """
        with suppress(OSError):
            while data := await self._reader.read(PIECE):
                self._http.receive_data(data)
                if len(self._http.trailing_data[0]) > PIECE:
                    break
        exchange.cancel()

    def _work(
        self, endpoint: Endpoint, request: Request, caller: Caller, exchange: _Exchange
    ) -> None:
        """Compute the response, and have the loop send it piece by piece.

        It runs on a thread of the pool, in the caller's context.
        """
        with suppress(_Gone):
            try:
                caller.admit()
                response = endpoint(request)
            except Exception as error:
                exchange.wait(self._refuse(http_error(error), close=False))
                return
            if isinstance(response.body, bytes):
                exchange.wait(self._whole(200, response))
                return
            with closing(response.body) as events:
                head = [self._head(200, EVENTS, response.headers)]
                try:
                    for event in events:
                        caller.check()
                        exchange.wait(self._send(*head, h11.Data(data=event)))
                        head = []
                except _Gone:
                    raise
                except Exception as error:
                    last = b"data: " + http_error(error).payload + b"\n\n"
                    exchange.wait(self._send(*head, h11.Data(data=last)))
                exchange.wait(self._send(h11.EndOfMessage()))

    async def _refuse(self, refused: HttpError, *, close: bool = True) -> None:
        """Answer with an error; set ``close`` if the request has not been read."""
        headers = [*refused.headers, *([("Connection", "close")] if close else [])]
        await self._whole(refused.status, Response(refused.payload, headers))
        if close and self.proven:
            self._writer.write_eof()  # else data still arriving would discard the response
            with suppress(TimeoutError):
                async with asyncio.timeout(HttpLimits.linger):
                    while await self._reader.read(PIECE):
                        pass

    async def _whole(self, status: int, response: Response) -> None:
        assert isinstance(response.body, bytes)
        length = ("Content-Length", str(len(response.body)))
        head = self._head(status, response.kind, [*response.headers, length])
        data = [] if self._bodiless else [h11.Data(data=response.body)]
        await self._send(head, *data, h11.EndOfMessage())

    async def _send(self, *events: h11.Event) -> None:
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        try:
            async with asyncio.timeout(HttpLimits.taking):
                await self._writer.drain()
        except TimeoutError:
            self._writer.transport.abort()  # else it would keep what the client does not read
            raise

    def _head(self, status: int, kind: str, headers: Headers) -> h11.Response:
        fixed = [("Content-Type", kind), ("Cache-Control", "no-store"), *self._site.headers]
        return h11.Response(status_code=status, headers=[*fixed, *headers])


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
        with _free(address, setting):
            self._socket = _bound(host, port)
        self._free = partial(_free, address, setting)
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
        """Begin to answer with the endpoints of `site`; before, clients cannot connect.

        Raises:
            ConfigError: the address is not free any more.
        """
        with self._free():
            self._socket.listen()
        self._calls = Threads(self._most, "http")
        self._thread.start()

    def stop(self, grace: float, closing: float) -> None:
        """Take no more requests, and give open requests ``grace`` seconds to finish.

        After that, all are interrupted, and may take ``closing`` seconds to end. Work that a thread
        has not finished by then ends with the process.
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


def _bound(host: str, port: int) -> socket.socket:
    """Bind an address without listening, so that clients cannot connect yet."""
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except OSError:
        found.close()
        raise
    return found


@contextmanager
def _free(address: str, setting: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {address}",
            fix=f"free the address, or set another {setting}",
            subject=setting,
        ) from error
