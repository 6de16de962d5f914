"""A TCP relay that records its traffic, to show the bytes that leave the device.

Put it between an agent and a cloud on loopback without TLS, and read the record:

    python -m bench.live.wiretap --to 127.0.0.1:8471 --record build/wire.txt

The demo counts bytes with it. The end-to-end tests search its record to check that no clear text
leaves the device.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from hpack import Decoder
from hyperframe.frame import ContinuationFrame, DataFrame, Frame, HeadersFrame

__all__ = ["Connection", "Wiretap"]

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@dataclass
class Connection:
    """The bytes of one connection: ``sent`` and ``received`` by the device."""

    sent: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)

    def requests(self) -> tuple[list[tuple[str, str]], list[bytes]]:
        """Decode the device's traffic: all header fields and all gRPC messages.

        HTTP/2 cuts messages into frames and compresses headers, so a search of the raw bytes could
        miss text.
        """
        if bytes(self.sent[: len(_PREFACE)]) != _PREFACE:
            raise ValueError("not an HTTP/2 connection; is TLS on?")
        return _decoded(bytes(self.sent[len(_PREFACE) :]))

    def answers(self) -> tuple[list[tuple[str, str]], list[bytes]]:
        """Decode the traffic to the device in the same way."""
        return _decoded(bytes(self.received))


def _decoded(data: bytes) -> tuple[list[tuple[str, str]], list[bytes]]:
    decoder = Decoder()
    headers: list[tuple[str, str]] = []
    bodies: dict[int, bytearray] = {}
    block = bytearray()
    view = memoryview(data)
    at = 0
    while at + 9 <= len(view):
        frame, length = Frame.parse_frame_header(view[at : at + 9])
        if at + 9 + length > len(view):
            break  # the connection was cut in the middle of a frame
        frame.parse_body(view[at + 9 : at + 9 + length])
        at += 9 + length
        if isinstance(frame, DataFrame):
            bodies.setdefault(frame.stream_id, bytearray()).extend(frame.data)
        elif isinstance(frame, HeadersFrame | ContinuationFrame):
            block += frame.data
            if "END_HEADERS" in frame.flags:
                headers += [(str(k), str(v)) for k, v in decoder.decode(bytes(block))]
                block.clear()
    return headers, [message for body in bodies.values() for message in _messages(body)]


def _messages(body: bytearray) -> list[bytes]:
    messages = []
    at = 0
    while at + 5 <= len(body):
        if body[at]:
            raise ValueError("compressed message: the record cannot be searched")
        length = int.from_bytes(body[at + 1 : at + 5])
        messages.append(bytes(body[at + 5 : at + 5 + length]))
        at += 5 + length
    return messages


class Wiretap:
    """A relay from a free loopback port to ``target`` ("host:port").

    A context manager; the relay runs in a thread. After ``stop_after`` bytes from the device the
    relay holds all data back, as a stalled network would, until ``stop_after`` is None.
    """

    def __init__(self, target: str, *, port: int = 0, stop_after: int | None = None) -> None:
        host, _, number = target.rpartition(":")
        self.target = (host, int(number))
        self.port = port
        self.stop_after = stop_after
        self.connections: list[Connection] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def address(self) -> str:
        """Return the address for the device."""
        return f"127.0.0.1:{self.port}"

    @property
    def bytes_sent(self) -> int:
        """Return the bytes sent by the device, HTTP/2 framing included."""
        return sum(len(c.sent) for c in self.connections)

    @property
    def bytes_received(self) -> int:
        """Return the bytes received by the device."""
        return sum(len(c.received) for c in self.connections)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the relay did not start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._relay, "127.0.0.1", self.port)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._loop.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        connection = Connection()
        self.connections.append(connection)
        await asyncio.gather(
            self._pump(reader, upstream[1], connection.sent, outbound=True),
            self._pump(upstream[0], writer, connection.received, outbound=False),
        )

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        record: bytearray,
        *,
        outbound: bool,
    ) -> None:
        try:
            while chunk := await source.read(65536):
                while outbound and self.stop_after is not None:
                    if self.bytes_sent < self.stop_after:
                        break
                    await asyncio.sleep(0.02)
                record += chunk
                sink.write(chunk)
                await sink.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass  # either side may vanish; that is what some tests are about
        finally:
            sink.close()


def main() -> None:
    """Relay until interrupted, then write the device's traffic."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--to", required=True, metavar="HOST:PORT", help="the cloud")
    parser.add_argument("--port", type=int, default=9471, help="listen here (default %(default)s)")
    parser.add_argument("--record", type=Path, default=Path("build/wire.txt"))
    arguments = parser.parse_args()
    with Wiretap(arguments.to, port=arguments.port) as tap:
        print(f"point the agent at {tap.address}; Ctrl-C ends and writes {arguments.record}")
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    arguments.record.parent.mkdir(parents=True, exist_ok=True)
    with arguments.record.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for number, connection in enumerate(tap.connections):
            headers, messages = connection.requests()
            file.write(f"--- connection {number}: {len(connection.sent)} bytes sent\n")
            file.writelines(f"{name}: {value}\n" for name, value in headers)
            for message in messages:
                file.write(message.decode(errors="backslashreplace") + "\n")
    print(f"{tap.bytes_sent} bytes sent, {tap.bytes_received} received", file=sys.stderr)


if __name__ == "__main__":
    main()
