"""Keeps this device's certificate from ending while the daemon runs.

Why it is here: a certificate lives for days so that nobody needs to be told of those that were
lost; nobody should have to type anything for it either. It is signed anew when about a third of its
life is left, which leaves days to a cloud that is away, and calls go on with the one there is.
"""

from __future__ import annotations

import logging
import random
import threading
from typing import Final

from sottovoce.core.errors import SottovoceError
from sottovoce.core.system.threads import join
from sottovoce.core.wire.status import kind_and_place
from sottovoce.edge.client.cloud import Cloud

__all__ = ["Renewal"]

_LEAST: Final = (0.28, 1 / 3)
"""Shares of a life, from which one is drawn: devices that were let in together ask apart."""
_FIRST_SECONDS, _LOOK_SECONDS = 2.0, 600.0
_log = logging.getLogger(__name__)


class Renewal:
    """One thread beside the daemon, where calls show a certificate; else none.

    Args:
        cloud: signs.
        first: seconds until the first look; also the pause after a cloud could not be asked, which
            doubles up to that between looks.
    """

    def __init__(self, cloud: Cloud, *, first: float = _FIRST_SECONDS) -> None:
        self._cloud = cloud
        self._first = first
        self._least = random.uniform(*_LEAST)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="renewal", daemon=True)

    def start(self) -> None:
        """Begins."""
        if self._cloud.shows_certificate:
            self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """End; a call at work is waited for, ``seconds`` at most."""
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
