"""Keep followed adapters at the cloud's newest version.

What another device taught reaches this device without a command. One stream asks the cloud for the
versions of all followed adapters. A new version is fetched, checked and put in use in one step. The
old version answers until then. The stream tells the cloud that the device is on, so only adapters
that the owner names are followed.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from contextlib import closing

from sottovoce.core.errors import SottovoceError
from sottovoce.core.platform.threads import join
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.tasks.local_inference import Home

__all__ = ["Follower"]

_LOOK_SECONDS = 2.0
_LONGEST_WAIT = 60.0
_log = logging.getLogger(__name__)


class Follower:
    """A thread beside the daemon that follows adapters.

    Args:
        cloud: reports new versions.
        home: fetches them.
        look: seconds between checks whether any adapter is followed; also the first pause after the
            cloud did not answer, which doubles up to a minute.
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
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Stop within ``seconds``; a running fetch is cut off and resumes next time."""
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
        """Open one stream, if any adapter is followed, and read it to its end."""
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
        """Fetch one version, if the owner still follows its adapter.

        A failed version comes again with the next stream, and does not delay the others.
        """
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
