"""A connection: requests and responses in sequence (HTTP/1.1 with h11).

It enforces the limits. No body is read before the sender is authenticated. The size of heads and
bodies is limited, and so is the time to send them. The client must read each piece of a response
within a limit too. When the connection ends, the work ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import h11

from sottovoce.core.page.gate import (
    LARGEST_HEAD,
    PIECE,
    Failure,
    check_trailers,
    headers_of,
    read_head,
)
from sottovoce.edge.daemon.doorway.exchange import JSON, Call, Exchange, Gone, Reply
from sottovoce.edge.daemon.doorway.failures import failure
from sottovoce.edge.state.caller import App, calling, inside
from sottovoce.edge.tasks.agent import Agent

__all__ = [
    "LARGEST_BODY",
    "Connection",
    "Endpoint",
    "Guard",
    "HttpLimits",
    "Site",
]

LARGEST_BODY: Final = 4 << 20
"""Bytes; the same limit as for a message on the gRPC socket."""

EVENTS: Final = "text/event-stream; charset=utf-8"

_MOST_REQUESTS: Final = 1_000
"""The most requests on one connection; clients then open another."""

Endpoint = Callable[[Call], Reply]
Headers = Sequence[tuple[str, str]]


class Guard(Protocol):
    """Check that decides which requests are admitted."""

    async def check(self, method: str, path: str, headers: Mapping[str, str]) -> App | bool:
        """Return the caller's app, True for the owner, or False for a public path.

        It runs on the event loop, so slow work must go to a thread.

        Raises:
            Failure: the request is refused.
            SottovoceError: the check itself failed.
        """


@dataclass(frozen=True, slots=True)
class Site:
    """The endpoints at an address.

    Attributes:
        gate: the check of each request.
        endpoints: method and endpoint by path.
        headers: further headers of every response.
        setting: the name of the address's setting, for errors.
    """

    gate: Guard
    endpoints: Mapping[str, tuple[str, Endpoint]]
    headers: Headers = ()
    setting: str = "doorway.address"

    def find(self, method: str, path: str) -> Endpoint:
        """Return the endpoint for a request.

        Raises:
            Failure: the path is unknown (404), or needs another method (405).
        """
        if path not in self.endpoints:
            raise Failure(
                404, f"nothing is here (there are {', '.join(self.endpoints)})", code="unknown_url"
            )
        wanted, endpoint = self.endpoints[path]
        if method != wanted:
            allow = (("Allow", wanted),)
            raise Failure(405, f"use {wanted}", code="method_not_supported", headers=allow)
        return endpoint


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


class Connection:
    """Server for one client.

    Args:
        reader, writer: the connection.
        site: the endpoints and their guard.
        device: the agent that endpoints use.
        pool: gives the executor for endpoints, or raises `Failure` if it is full.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        site: Site,
        device: Agent,
        pool: Callable[[], Executor],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._site, self._device, self._pool = site, device, pool
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD)
        self._exchange: Exchange | None = None
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
            method, path = head.method.decode(), head.target.decode().partition("?")[0]
            proof = await self._proof(method, path, headers)
            self.proven = self.proven or bool(proof)
            app = proof if isinstance(proof, App) else None
            endpoint = self._site.find(method, path)
            async with asyncio.timeout(HttpLimits.body):
                announced = int(headers.get("content-length", "0"))
                body = await self._body(announced, LARGEST_BODY if proof else 0)
        except h11.RemoteProtocolError as error:
            await self._refuse(Failure(error.error_status_hint, "that is no HTTP request"))
            return False
        except Failure as refused:
            await self._refuse(refused)
            return False
        await self._answer(endpoint, headers, body, app)
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _proof(self, method: str, path: str, headers: dict[str, str]) -> App | bool:
        """Return the result of the gate's check.

        Raises:
            Failure: the request is refused, or the check itself failed.
        """
        try:
            return await self._site.gate.check(method, path, headers)
        except Exception as error:
            raise failure(error) from error

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._http.receive_data(await self._reader.read(PIECE))
        return event

    async def _body(self, announced: int, most: int) -> bytes:
        body = bytearray()  # not a list: one-byte chunks would take fifty times their size
        while (len(body) or announced) <= most:
            event = await self._event()
            if isinstance(event, h11.EndOfMessage):
                check_trailers(event)
                return bytes(body)
            if not isinstance(event, h11.Data):
                raise ConnectionError  # the client broke off
            body += event.data
        raise Failure(413, f"the body is longer than {most} bytes", code="too_large")

    async def _answer(
        self, endpoint: Endpoint, headers: dict[str, str], body: bytes, app: App | None
    ) -> None:
        loop = asyncio.get_running_loop()
        exchange = self._exchange = Exchange(loop)
        too_long = loop.call_later(HttpLimits.whole, self.abort)
        watching = asyncio.create_task(self._watch(exchange))
        call = Call(self._device, headers, body, exchange.stoppable)
        try:
            work = partial(inside(app).run, self._work, endpoint, call, exchange)
            await loop.run_in_executor(self._pool(), work)
        except Failure as refused:  # the pool is full
            await self._refuse(refused, close=False)
        finally:
            too_long.cancel()
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            self._exchange = None

    async def _watch(self, exchange: Exchange) -> None:
        """End the work when the client disconnects, or sends over one `PIECE` too early.

        The end of a connection shows only to a reader, hence this one.
        """
        with suppress(OSError):
            while data := await self._reader.read(PIECE):
                self._http.receive_data(data)
                if len(self._http.trailing_data[0]) > PIECE:
                    break
        exchange.cancel()

    def _work(self, endpoint: Endpoint, call: Call, exchange: Exchange) -> None:
        """Compute the response, and have the loop send it piece by piece.

        It runs on a thread of the pool, in the caller's context.
        """
        app, callers = calling(), self._device.callers
        with suppress(Gone):
            try:
                callers.admit(app)
                reply = endpoint(call)
            except Exception as error:
                exchange.wait(self._refuse(failure(error), close=False))
                return
            if isinstance(reply.body, bytes):
                exchange.wait(self._whole(200, reply.headers, reply.body, reply.kind))
                return
            with closing(reply.body) as events:
                head = [self._response(200, EVENTS, reply.headers)]
                try:
                    for event in events:
                        callers.check(app)
                        exchange.wait(self._send(*head, h11.Data(data=event)))
                        head = []
                except Gone:
                    raise
                except Exception as error:
                    told = b"data: " + failure(error).payload + b"\n\n"
                    exchange.wait(self._send(*head, h11.Data(data=told)))
                exchange.wait(self._send(h11.EndOfMessage()))

    async def _refuse(self, refused: Failure, *, close: bool = True) -> None:
        """Answer with an error; set ``close`` if the request has not been read."""
        headers = [*refused.headers, *([("Connection", "close")] if close else [])]
        await self._whole(refused.status, headers, refused.payload)
        if close and self.proven:
            self._writer.write_eof()  # else data still arriving would discard the response
            with suppress(TimeoutError):
                async with asyncio.timeout(HttpLimits.linger):
                    while await self._reader.read(PIECE):
                        pass

    async def _whole(self, status: int, headers: Headers, body: bytes, kind: str = JSON) -> None:
        length = ("Content-Length", str(len(body)))
        response = self._response(status, kind, [*headers, length])
        data = [] if self._bodiless else [h11.Data(data=body)]
        await self._send(response, *data, h11.EndOfMessage())

    async def _send(self, *events: h11.Event) -> None:
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        async with asyncio.timeout(HttpLimits.taking):
            await self._writer.drain()

    def _response(self, status: int, kind: str, headers: Headers) -> h11.Response:
        fixed = [("Content-Type", kind), ("Cache-Control", "no-store"), *self._site.headers]
        return h11.Response(status_code=status, headers=[*fixed, *headers])
