"""Keeps adapters that the owner wants followed as new as the cloud has them.

Why it is here: what another device taught must reach this one without anybody typing. One stream
for all of them asks the cloud which versions there are; a new one is fetched, checked and put in
use in one step, and the old one answers until then. That the device is on is what this tells, so
only what the owner names is followed.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from contextlib import closing

from sottovoce.core.errors import SottovoceError
from sottovoce.core.system.threads import join
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.tasks.local_inference import Home

__all__ = ["Follower"]

_LOOK_SECONDS = 2.0
_LONGEST_WAIT = 60.0
_log = logging.getLogger(__name__)


class Follower:
    """One thread beside the daemon.

    Args:
        cloud: says what is new.
        home: fetches.
        look: seconds between looks whether anything is to be followed; also the first pause after
            the cloud could not be asked, which doubles up to a minute.
    """

    def __init__(self, cloud: Cloud, home: Home, *, look: float = _LOOK_SECONDS) -> None:
        self._cloud = cloud
        self._home = home
        self._look = look
        self._stopped = threading.Event()
        self._seen: dict[str, str] = {}
        self._end: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """End within ``seconds``; a fetch at work is cut, and goes on the next time."""
        self._stopped.set()
        self._end()
        join([self._thread], seconds)

    def _run(self) -> None:
        wait = self._look
        while not self._stopped.wait(wait * random.uniform(0.75, 1.0)):
            try:
                self._once()
                wait = self._look
            except SottovoceError as error:
                self._warn(error)
                wait = min(2 * wait, _LONGEST_WAIT)

    def _once(self) -> None:
        """One stream, if there is anything to follow, until it ends."""
        followed = self._home.followed()
        self._seen = {name: version for name, version in self._seen.items() if name in followed}
        if not followed:
            return
        with closing(self._cloud.watch_adapters(sorted(followed), self._stoppable)) as versions:
            for said in versions:
                if self._stopped.is_set():
                    return
                if self._seen.get(said.adapter) != said.version:
                    self._take(said.adapter, said.version)

    def _take(self, adapter: str, version: str) -> None:
        """Fetches one, if its owner still wants that; what fails is said again by the next stream,
        and keeps no other from coming."""
        name = self._home.followed().get(adapter)
        if name is None:
            return
        try:
            self._home.fetch(name)
            self._seen[adapter] = version
        except SottovoceError as error:
            self._warn(error)

    def _warn(self, error: SottovoceError) -> None:
        if not self._stopped.is_set():
            _log.warning("following adapters: %s", type(error).__name__)

    def _stoppable(self, end: Callable[[], None]) -> None:
        self._end = end
        if self._stopped.is_set():
            end()
