"""A relay that reads HTTP/2 frames and applies one fault to one frame."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tests.support.cut_line import Line

KINDS: Final = ("cut", "halve", "stall", "duplicate")
"""The connection ends before or within the frame; the frame is delayed; the frame comes twice."""

WAYS: Final = ("up", "down")
"""From the device, and to the device."""

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD: Final = 9


@dataclass
class Fault:
    """A fault, and whether it was applied.

    Attributes:
        kind: one of `KINDS`.
        way: direction, one of `WAYS`.
        place: number of frames in that direction before the fault.
        seconds: duration of a stall.
        met: whether the connection had a frame at that place.
    """

    kind: str
    way: str
    place: int
    seconds: float = 0.0
    met: bool = False


class FaultyLine(Line):
    """A relay that forwards frame by frame to "unix:PATH"."""

    def __init__(self, target: str) -> None:
        self.seen = dict.fromkeys(WAYS, 0)
        self._fault: Fault | None = None
        self._going_on = threading.Event()
        super().__init__(target)

    def arm(self, fault: Fault | None) -> None:
        """Count frames from now on, and apply ``fault`` to one; stalled connections continue."""
        with self._lock:
            self._going_on.set()
            self._going_on = threading.Event()
            self._fault = fault
            self.seen = dict.fromkeys(WAYS, 0)

    def close(self) -> None:
        """Close the line."""
        self.arm(None)
        super().close()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        way = "down" if source.family == socket.AF_UNIX else "up"
        waiting = bytearray()
        expects_preface = way == "up"
        with source, suppress(OSError):
            while data := source.recv(1 << 16):
                waiting += data
                while size := _first(waiting, expects_preface):
                    frame = bytes(waiting[:size])
                    del waiting[:size]
                    expects_preface = False
                    self._pass_on(source, target, way, frame)
            target.shutdown(socket.SHUT_WR)

    def _pass_on(
        self, source: socket.socket, target: socket.socket, way: str, frame: bytes
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
            target.sendall(frame)
        elif fault.kind == "cut":
            _end(source, target)
        elif fault.kind == "halve":
            target.sendall(frame[: len(frame) // 2])
            _end(source, target)
        elif fault.kind == "stall":
            going_on.wait(fault.seconds)
            target.sendall(frame)
        else:
            target.sendall(frame * 2)


def _end(*sides: socket.socket) -> None:
    for side in sides:
        with suppress(OSError):  # it was first
            side.shutdown(socket.SHUT_RDWR)


def _first(data: bytearray, preface: bool) -> int:
    """Return the length of the first frame in ``data``; 0 if it is incomplete."""
    if preface:
        return len(_PREFACE) if len(data) >= len(_PREFACE) else 0
    if len(data) < _HEAD:
        return 0
    size = _HEAD + int.from_bytes(data[:3], "big")
    return size if len(data) >= size else 0
