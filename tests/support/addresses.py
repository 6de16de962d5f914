"""Addresses nobody listens on."""

from __future__ import annotations

import socket


def free_address() -> str:
    """A loopback address whose port was free a moment ago: for what cannot choose one itself."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"
