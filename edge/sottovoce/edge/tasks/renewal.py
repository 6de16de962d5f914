"""Renew this device's certificate while the daemon runs.

A certificate lives for days only, so lost ones need no revocation. Renewal needs no command. It
happens when about a third of the lifetime is left, so the cloud may be away for days. Until then,
calls use the present certificate.
"""

from __future__ import annotations

import logging
import random
import threading
from typing import Final

from sottovoce.core.errors import SottovoceError
from sottovoce.core.platform.threads import join
from sottovoce.core.rpc.status import kind_and_place
from sottovoce.edge.client.cloud import Cloud

__all__ = ["Renewal"]

_LEAST: Final = (0.28, 1 / 3)
"""Range of the remaining share of lifetime at which renewal happens.

The share is drawn at random, which spreads the requests of devices that were enrolled together.
"""
_FIRST_SECONDS, _LOOK_SECONDS = 2.0, 600.0
_log = logging.getLogger(__name__)


class Renewal:
    """A thread beside the daemon; it does nothing if calls show no certificate.

    Args:
        cloud: signs.
        first: seconds until the first check; also the pause after a cloud did not answer, which
            doubles up to the usual time between checks.
    """

    def __init__(self, cloud: Cloud, *, first: float = _FIRST_SECONDS) -> None:
        self._cloud = cloud
        self._first = first
        self._least = random.uniform(*_LEAST)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="renewal", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        if self._cloud.shows_certificate:
            self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Stop; wait at most ``seconds`` for a running call."""
        self._stopped.set()
        join([self._thread], seconds)

    def _run(self) -> None:
        wait = again = self._first
        while not self._stopped.wait(wait * random.uniform(0.75, 1.0)):
            try:
                self._cloud.certify(self._least)
                wait, again = _LOOK_SECONDS, self._first
            except SottovoceError as error:
                if not self._stopped.is_set():
                    _log.warning("this device's certificate: %s", kind_and_place(error))
                wait = again = min(2 * again, _LOOK_SECONDS)
