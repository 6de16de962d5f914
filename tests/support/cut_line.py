"""A line to a server that can be cut: TCP up to here, as a radio link loses it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Line:
    """Forwards connections to `target`, "HOST:PORT" or "unix:PATH"."""

    def __init__(self, target: str) -> None:
        self._target = target
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
        self._threads[0].join()  # who takes new ones
        self.cut()
        for thread in self._threads:
            thread.join()

    def _start(self, target: object, *arguments: socket.socket) -> None:
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
            try:
                far = self._reached()
            except OSError:  # nobody there: as a port where nobody listens
                near.close()
                continue
            with self._lock:
                self._ends += [near, far]
                self.connections += 1
            self._start(self._forward, near, far)
            self._start(self._forward, far, near)

    def _reached(self) -> socket.socket:
        kind, _, place = self._target.rpartition(":")
        if kind != "unix":
            return socket.create_connection((kind, int(place)))
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(place)
        except OSError:
            far.close()
            raise
        return far

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with source, suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
