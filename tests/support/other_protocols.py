"""Servers of other protocols, as their first bytes make them."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SSH = b"SSH-2.0-OpenSSH_9.2\r\n"
SMTP = b"220 mail.example.org ESMTP\r\n"
HTTP1 = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
HTTP09 = b"<!DOCTYPE HTML>\n<title>Error response</title>"
HTTP2 = bytes.fromhex("000000040000000000")


@contextmanager
def saying(said: bytes, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a server that says the same to every connection, and then hangs up."""

    def answer(connection: socket.socket) -> None:
        connection.settimeout(10)
        with (
            suppress(OSError),
            connection,
            tls.wrap_socket(connection, server_side=True) if tls else connection as line,
        ):
            line.sendall(said)
            line.recv(1000)

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()
