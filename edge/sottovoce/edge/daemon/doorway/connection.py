"""A connection: requests in, answers out, one after the other (HTTP/1.1 by h11).

Why it is here: the bounds. Nothing of a body is read before the sender has proved who it is; heads,
bodies and the time for both are limited, and so is the time that a piece of an answer waits to be
taken. The end of the connection ends the work.
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

from sottovoce.core.page.failure import Failure
from sottovoce.core.page.heads import LARGEST_HEAD, PIECE, check_trailers, headers_of, read_head
from sottovoce.edge.daemon.doorway.exchange import JSON, Call, Exchange, Gone, Reply
from sottovoce.edge.daemon.doorway.failures import failure
from sottovoce.edge.state.caller import App, calling, inside
from sottovoce.edge.tasks.agent import Agent

__all__ = [
    "LARGEST_BODY",
    "Connection",
    "Endpoint",
    "Guard",
    "Limits",
    "Site",
]

LARGEST_BODY: Final = 4 << 20
"""Bytes: as of a message on the daemon's own socket."""

EVENTS: Final = "text/event-stream; charset=utf-8"

_MOST_REQUESTS: Final = 1_000
"""On one connection; clients open another."""

Endpoint = Callable[[Call], Reply]
Headers = Sequence[tuple[str, str]]


class Guard(Protocol):
    """Who may come in."""

    async def check(self, method: str, path: str, headers: Mapping[str, str]) -> App | bool:
        """Which app asks for this, or True for the owner; False for what is left open, which needs
        no proof. On the loop, so whatever may take its time goes to a thread.

        Raises:
            Failure: it may not come in. SottovoceError: that cannot be told.
        """


@dataclass(frozen=True, slots=True)
class Site:
    """What is answered at an address.

    Attributes:
        gate: who may come in.
        endpoints: by path, with the method each wants.
        headers: further ones of every answer.
        setting: that says where, for errors.
    """

    gate: Guard
    endpoints: Mapping[str, tuple[str, Endpoint]]
    headers: Headers = ()
    setting: str = "doorway.address"

    def find(self, method: str, path: str) -> Endpoint:
        """The endpoint for a request.

        Raises:
            Failure: there is none (404), or it wants another method (405).
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


class Limits:
    """Seconds that a client may take; attributes, so that a test need not wait for them."""

    head = 10.0
    """For the head of a first request, and so to prove who it is."""
    idle = 60.0
    """Between two requests of one that has."""
    body = 60.0
    taking = 60.0
    """To take a piece of an answer."""
    whole = 3_600.0
    """For all of an answer."""
    linger = 2.0
    """To take an error that came before the request was read."""


class Connection:
    """Serves one client.

    Args:
        reader, writer: the connection.
        site: what is answered, and to whom.
        device: what endpoints ask.
        pool: where endpoints work; None where all of it is taken.
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
        """Whether a request with the key has come."""
        writer.transport.set_write_buffer_limits(high=PIECE)

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered."""
        return self._exchange is None

    def abort(self) -> None:
        """Ends it now, and what is being worked on."""
        if self._exchange is not None:
            self._exchange.cancel()
        self._writer.transport.abort()

    async def serve(self) -> None:
        """Answers requests until either side ends it."""
        try:
            for _ in range(_MOST_REQUESTS):
                if not await self._one():
                    break
                self._http.start_next_cycle()
        except (OSError, TimeoutError, h11.ProtocolError):
            pass  # it has gone, takes nothing, or speaks something else
        finally:
            self.abort()
            with suppress(OSError):
                await self._writer.wait_closed()

    async def _one(self) -> bool:
        """Answers one request; whether another may come."""
        self._bodiless = False
        try:
            async with asyncio.timeout(Limits.idle if self.proven else Limits.head):
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
            async with asyncio.timeout(Limits.body):
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
        """What the gate says.

        Raises:
            Failure: it may not come in, or that cannot be told.
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
        body = bytearray()  # not a list: of a byte each, chunks would take fifty times their size
        while (len(body) or announced) <= most:
            event = await self._event()
            if isinstance(event, h11.EndOfMessage):
                check_trailers(event)
                return bytes(body)
            if not isinstance(event, h11.Data):
                raise ConnectionError  # broken off
            body += event.data
        raise Failure(413, f"the body is longer than {most} bytes", code="too_large")

    async def _answer(
        self, endpoint: Endpoint, headers: dict[str, str], body: bytes, app: App | None
    ) -> None:
        loop = asyncio.get_running_loop()
        exchange = self._exchange = Exchange(loop)
        too_long = loop.call_later(Limits.whole, self.abort)
        watching = asyncio.create_task(self._watch(exchange))
        call = Call(self._device, headers, body, exchange.stoppable)
        try:
            work = partial(inside(app).run, self._work, endpoint, call, exchange)
            await loop.run_in_executor(self._pool(), work)
        except Failure as refused:  # there is no room in the pool
            await self._refuse(refused, close=False)
        finally:
            too_long.cancel()
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            self._exchange = None

    async def _watch(self, exchange: Exchange) -> None:
        """Ends the work when the client goes away, or sends more than one piece before its turn:
        only who reads on sees the end."""
        with suppress(OSError):
            while data := await self._reader.read(PIECE):
                self._http.receive_data(data)
                if len(self._http.trailing_data[0]) > PIECE:
                    break
        exchange.cancel()

    def _work(self, endpoint: Endpoint, call: Call, exchange: Exchange) -> None:
        """On a thread of the pool, in the caller's context: finds the answer, and has the loop send
        it piece by piece."""
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
        """Answers with an error; ``close`` where the request has not been read."""
        headers = [*refused.headers, *([("Connection", "close")] if close else [])]
        await self._whole(refused.status, headers, refused.payload)
        if close and self.proven:
            self._writer.write_eof()  # or what is still coming would have the answer thrown away
            with suppress(TimeoutError):
                async with asyncio.timeout(Limits.linger):
                    while await self._reader.read(PIECE):
                        pass

    async def _whole(self, status: int, headers: Headers, body: bytes, kind: str = JSON) -> None:
        length = ("Content-Length", str(len(body)))
        response = self._response(status, kind, [*headers, length])
        data = [] if self._bodiless else [h11.Data(data=body)]
        await self._send(response, *data, h11.EndOfMessage())

    async def _send(self, *events: h11.Event) -> None:
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        async with asyncio.timeout(Limits.taking):
            await self._writer.drain()

    def _response(self, status: int, kind: str, headers: Headers) -> h11.Response:
        fixed = [("Content-Type", kind), ("Cache-Control", "no-store"), *self._site.headers]
        return h11.Response(status_code=status, headers=[*fixed, *headers])
