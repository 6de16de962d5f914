"""HTTP/2 without a client's manners: connections that open calls and say nothing more."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable
from typing import Self

import grpc
from hpack import Decoder, Encoder
from hyperframe.frame import DataFrame, Frame, HeadersFrame, RstStreamFrame, SettingsFrame

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class RawConnection:
    """A connection to ``address`` ("host:port") that opens calls frame by frame.

    ``source`` chooses the local host.
    """

    def __init__(self, address: str, source: str = "") -> None:
        host, _, port = address.rpartition(":")
        self._encoder, self._decoder = Encoder(), Decoder()
        self._next = 1
        self._received = bytearray()
        self._ended: dict[int, str] = {}
        self._socket = socket.create_connection(
            (host, int(port)), timeout=60, source_address=(source, 0) if source else None
        )
        self._socket.sendall(_PREFACE + SettingsFrame(0).serialize())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def open(self, path: str, metadata: Iterable[tuple[str, str]] = ()) -> int:
        """Opens a call: its headers, and no message. Gives the stream's number."""
        frame = HeadersFrame(self._next, flags=["END_HEADERS"])
        frame.data = self._encoder.encode([*_HEADERS, (":path", path), *_PLAIN, *metadata])
        self._next += 2
        self._socket.sendall(frame.serialize())
        return frame.stream_id

    def send(self, stream: int, message: bytes | None) -> None:
        """The message of a call, or none and no more to come."""
        framed = b"" if message is None else b"\0" + len(message).to_bytes(4) + message
        frame = DataFrame(stream, framed, flags=["END_STREAM"])
        self._socket.sendall(frame.serialize())

    def ended(self, streams: Collection[int], *, but: int = 0) -> dict[int, str]:
        """Wait until all calls but a number have ended; return their statuses or "reset"."""
        while len(set(streams) - self._ended.keys()) > but:
            chunk = self._socket.recv(1 << 16)
            if not chunk:
                raise ConnectionError("the server hung up")
            self._received += chunk
            self._parse()
        return {stream: self._ended[stream] for stream in streams if stream in self._ended}

    def _parse(self) -> None:
        while len(self._received) >= 9:
            frame, length = Frame.parse_frame_header(memoryview(bytes(self._received[:9])))
            if len(self._received) < 9 + length:
                return
            frame.parse_body(memoryview(bytes(self._received[9 : 9 + length])))
            del self._received[: 9 + length]
            if isinstance(frame, HeadersFrame):
                sent = dict(self._decoder.decode(frame.data))
                if "END_STREAM" in frame.flags:
                    self._ended[frame.stream_id] = _STATUS[int(sent["grpc-status"])]
            elif isinstance(frame, RstStreamFrame):
                self._ended.setdefault(frame.stream_id, "reset")


_HEADERS = [(":method", "POST"), (":scheme", "http"), (":authority", "localhost")]
_PLAIN = [("content-type", "application/grpc"), ("te", "trailers")]
_STATUS = {code.value[0]: code.name for code in grpc.StatusCode}
