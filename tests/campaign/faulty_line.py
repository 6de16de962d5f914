"""A line that knows HTTP/2's frames, and does one thing to one of them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

__all__ = ["KINDS", "WAYS", "Fault", "FaultyLine", "faulty_line"]

KINDS: Final = ("cut", "halve", "stall", "duplicate")
"""The connection ends before the frame, in its middle; the frame waits; it comes twice."""

WAYS: Final = ("up", "down")
"""From the device, and to it."""

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD: Final = 9


@dataclass
class Fault:
    """What is to happen, and whether it did.

    Attributes:
        kind: of `KINDS`.
        way: of `WAYS`.
        place: frames of that way that come through before it.
        seconds: of a stall.
        met: whether there was such a frame.
    """

    kind: str
    way: str
    place: int
    seconds: float = 0.0
    met: bool = False


@dataclass
class _Connection:
    near: socket.socket
    far: socket.socket

    def end(self) -> None:
        for side in (self.near, self.far):
            with suppress(OSError):  # it was first
                side.shutdown(socket.SHUT_RDWR)


@dataclass
class FaultyLine:
    """Forwards TCP connections to the unix socket ``target``, frame by frame."""

    target: str
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._open: list[_Connection] = []
        self._threads: list[threading.Thread] = []
        self._fault: Fault | None = None
        self._going_on = threading.Event()
        self._start(self._accept)

    def arm(self, fault: Fault | None) -> None:
        """Counts frames from here on, and has one of them meet ``fault``; what stalls goes on."""
        with self._lock:
            self._going_on.set()
            self._going_on = threading.Event()
            self._fault = fault
            self.seen = dict.fromkeys(WAYS, 0)

    def drop(self) -> None:
        """Ends every connection; new ones are taken."""
        with self._lock:
            ending, self._open = self._open, []
        for connection in ending:
            connection.end()

    def close(self) -> None:
        """Ends the line for good."""
        self.arm(None)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
        for thread in self._threads:
            thread.join()

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)  # type: ignore[arg-type]
        self._threads = [one for one in self._threads if one.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self.target)
            except OSError:  # nobody there: as a port where nobody listens
                near.close()
                far.close()
                continue
            connection = _Connection(near, far)
            with self._lock:
                self._open.append(connection)
            self._start(self._forward, connection, "up")
            self._start(self._forward, connection, "down")

    def _forward(self, connection: _Connection, way: str) -> None:
        ends = (connection.near, connection.far)
        source, sink = ends if way == "up" else ends[::-1]
        waiting = bytearray()
        expects_preface = way == "up"
        with source, suppress(OSError):
            while data := source.recv(1 << 16):
                waiting += data
                while size := _first(waiting, expects_preface):
                    frame = bytes(waiting[:size])
                    del waiting[:size]
                    expects_preface = False
                    self._pass_on(connection, sink, way, frame)
            sink.shutdown(socket.SHUT_WR)

    def _pass_on(
        self, connection: _Connection, sink: socket.socket, way: str, frame: bytes
    ) -> None:
        with self._lock:
            fault, going_on = self._fault, self._going_on
            here = (
                fault is not None
                and not fault.met
                and (fault.way, fault.place) == (way, self.seen[way])
            )
            self.seen[way] += 1
            if fault is not None and here:
                fault.met = True
        if fault is None or not here:
            sink.sendall(frame)
        elif fault.kind == "cut":
            connection.end()
        elif fault.kind == "halve":
            sink.sendall(frame[: len(frame) // 2])
            connection.end()
        elif fault.kind == "stall":
            going_on.wait(fault.seconds)
            sink.sendall(frame)
        else:
            sink.sendall(frame * 2)


def _first(data: bytearray, preface: bool) -> int:
    """Bytes of the first frame in ``data``; 0 if it is not whole."""
    if preface:
        return len(_PREFACE) if len(data) >= len(_PREFACE) else 0
    if len(data) < _HEAD:
        return 0
    size = _HEAD + int.from_bytes(data[:3], "big")
    return size if len(data) >= size else 0


@contextmanager
def faulty_line(target: str) -> Iterator[FaultyLine]:
    """A line to the unix socket ``target``, closed at the end."""
    line = FaultyLine(target)
    try:
        yield line
    finally:
        line.close()
