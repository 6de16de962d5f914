"""The page's server: a separate doorway, opened on first use."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from sottovoce.core.page.files import HEADERS
from sottovoce.core.page.gate import PageGate
from sottovoce.edge.daemon.doorway.connection import Site
from sottovoce.edge.daemon.doorway.server import Doorway
from sottovoce.edge.daemon.page.endpoints import endpoints, is_file
from sottovoce.edge.tasks.agent import Agent

__all__ = ["Page"]


class Page:
    """Server for the owner's browser, from the first `open` until `close`."""

    def __init__(self, device: Agent) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._gate = PageGate(is_file, "sotto ui")
        self._doorway: Doorway | None = None

    def open(self) -> str:
        """Return a link to the page that works once.

        Raises:
            ConfigError: the page's address is not on loopback, or not free.
        """
        with self._lock:
            if self._doorway is None:
                site = Site(self._gate, endpoints(self._gate), HEADERS, "ui.address")
                doorway = Doorway(self._device, self._device.config.ui.address, site)
                self._gate.port = int(doorway.address.rpartition(":")[2])
                self._doorway = self._stack.enter_context(doorway)
            # The secret follows "#", because browsers send no fragment, not even in a Referer.
            return f"http://{self._doorway.address}/#{self._gate.link()}"

    def stop(self, grace: float, closing: float) -> None:
        """Stop the page's server, see `Doorway.stop`."""
        with self._lock:
            if self._doorway is not None:
                self._doorway.stop(grace, closing)

    def close(self) -> None:
        """Close the page's server."""
        with self._lock:
            self._stack.close()
