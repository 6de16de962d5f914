"""Keep the worker process beside a server running."""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
import threading
import time

from sottovoce.cloud.config import STORE_VARIABLE, Settings

__all__ = ["WorkerProcess"]

RESTART_SECONDS, LONGEST_PAUSE = 1.0, 60.0
STEADY_SECONDS = 60.0

_log = logging.getLogger(__name__)


class WorkerProcess:
    """Keeps one worker running beside the server, and restarts it if it dies.

    The pause before a restart doubles while the worker dies at once, because starting costs seconds
    of a processor.
    """

    def __init__(self, settings: Settings, parent: int) -> None:
        self._command = [
            sys.executable, "-m", "sottovoce.cloud.training.process",
            "--state", str(settings.state),
            "--objects", settings.objects,
            *(("--key-file", str(settings.key_file)) if settings.key_file else ()),
            "--backbone", settings.backbone,
            "--decoder", settings.decoder,
            "--threads", str(settings.training_threads),
            "--training-seconds", str(settings.limits.training_seconds),
            "--parent", str(parent),
            # One worker at a time: a new worker resumes the dead worker's job at once.
            "--owner", secrets.token_hex(8),
            "--metrics", settings.trainer_metrics,
            "--log-format", settings.log_format,
            "--trace", settings.trace,
        ]  # fmt: skip
        # Not on the command line, which all users of the machine can read.
        self._environment = {**os.environ, STORE_VARIABLE: settings.store}
        self._grace = settings.grace_seconds
        self._ending = threading.Event()
        self._process = self._start()
        self._thread = threading.Thread(target=self._watch, name="worker-watch", daemon=True)
        self._thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._environment)

    @property
    def pid(self) -> int:
        """Process id of the current worker."""
        return self._process.pid

    def _watch(self) -> None:
        pause, began = RESTART_SECONDS, time.monotonic()
        while not self._ending.wait(RESTART_SECONDS):
            code = self._process.poll()
            if code is None:
                continue
            at_once = time.monotonic() - began < STEADY_SECONDS
            pause = min(2 * pause, LONGEST_PAUSE) if at_once else RESTART_SECONDS
            _log.warning("the worker ended with code %d; another starts in %g s", code, pause)
            if self._ending.wait(pause):
                return
            self._process, began = self._start(), time.monotonic()

    def stop(self) -> None:
        """Stop the worker after it has written its checkpoint."""
        self._ending.set()
        self._thread.join()
        self._process.terminate()
        try:
            self._process.wait(self._grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
