"""A server as it takes leave: it refuses the call that comes, and is gone."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

__all__ = ["leaving_server"]

_PREFACE = 24  # bytes of HTTP/2's
_HEADERS, _SETTINGS, _GOAWAY = 1, 4, 7


def leaving_server() -> int:
    """Its port. The first call is told that no call was taken (GOAWAY up to stream 0), which is
    what a client may make again; then nobody listens there."""
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_serve, args=(listening,), daemon=True).start()
    port: int = listening.getsockname()[1]
    return port


def _serve(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    listening.close()
    with connection, suppress(OSError), connection.makefile("rb") as came:
        connection.sendall(_frame(_SETTINGS))
        came.read(_PREFACE)
        while head := came.read(9):
            came.read(int.from_bytes(head[:3], "big"))
            if head[3] == _HEADERS:
                connection.sendall(_frame(_GOAWAY, struct.pack(">II", 0, 0)))
                connection.shutdown(socket.SHUT_RDWR)


def _frame(kind: int, payload: bytes = b"") -> bytes:
    """Of the connection itself, stream 0."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, 0]) + bytes(4) + payload
