"""A line to a server that can be cut: TCP, forwarded byte by byte, as a radio link loses it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Line:
    """Forwards connections to `target`, "HOST:PORT"."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.connections = 0
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def cut(self) -> None:
        """Ends every connection where it stands; new ones are taken."""
        with self._lock:
            for end in self._ends:
                with suppress(OSError):  # the other side was first
                    end.shutdown(socket.SHUT_RDWR)
            self._ends.clear()

    def close(self) -> None:
        """Cuts the line for good."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def _start(self, target: object, *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            with self._lock:
                self._ends += [near, far]
                self.connections += 1
            self._start(self._forward, near, far)
            self._start(self._forward, far, near)

    @staticmethod
    def _forward(source: socket.socket, target: socket.socket) -> None:
        with source, suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@contextmanager
def cut_line(target: str) -> Iterator[Line]:
    """A line to `target`, closed at the end."""
    line = Line(target)
    try:
        yield line
    finally:
        line.close()
