"""A server as it takes leave: it refuses the call that comes, and is gone."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

TRIES = 10

_PREFACE = 24  # bytes of HTTP/2's
_HEADERS, _SETTINGS, _GOAWAY = 1, 4, 7


def leaving_server() -> int:
    """Return the port of a server that answers the first call with GOAWAY and then closes."""
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_serve, args=(listening,), daemon=True).start()
    port: int = listening.getsockname()[1]
    return port


def whose_reading_ends(read: Callable[[str], None]) -> int:
    """Return the number of `TRIES` reads of a departing server that end.

    With gRPC's own retries about half wait for ever, so all end by chance once in 3,000 runs.
    """
    ended: list[str] = []

    def reads() -> None:
        address = f"127.0.0.1:{leaving_server()}"
        read(address)
        ended.append(address)

    readers = [threading.Thread(target=reads, daemon=True) for _ in range(TRIES)]
    for each in readers:
        each.start()
    for each in readers:
        each.join(30)
    return len(ended)


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
