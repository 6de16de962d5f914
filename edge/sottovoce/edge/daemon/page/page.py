"""The page's place: a doorway of its own, opened when it is first asked for."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Final

from sottovoce.edge.daemon.doorway.connection import Site
from sottovoce.edge.daemon.doorway.server import Doorway
from sottovoce.edge.daemon.page.endpoints import endpoints, is_file
from sottovoce.edge.daemon.page.gate import PageGate
from sottovoce.edge.tasks.agent import Agent

__all__ = ["HEADERS", "Page"]

HEADERS: Final = (
    # Nothing but this page's own files, and no text that becomes markup.
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)


class Page:
    """Answers the owner's browser from when it is first opened until it is closed."""

    def __init__(self, device: Agent) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._gate = PageGate(is_file)
        self._doorway: Doorway | None = None

    def open(self) -> str:
        """A link to the page, good once.

        Raises:
            ConfigError: its address is not on loopback, or not free.
        """
        with self._lock:
            if self._doorway is None:
                site = Site(self._gate, endpoints(self._gate), HEADERS, "ui.address")
                doorway = Doorway(self._device, self._device.config.ui.address, site)
                self._gate.port = int(doorway.address.rpartition(":")[2])
                self._doorway = self._stack.enter_context(doorway)
            # Behind "#": what stands there is sent to nobody, and not in a Referer either.
            return f"http://{self._doorway.address}/#{self._gate.link()}"

    def stop(self, grace: float) -> None:
        """See `Doorway.stop`."""
        with self._lock:
            if self._doorway is not None:
                self._doorway.stop(grace)

    def close(self) -> None:
        """Ends it."""
        with self._lock:
            self._stack.close()
