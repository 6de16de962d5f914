"""Run HAProxy before our processes; the binary is Debian's, or one in PATH."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.live.testbed import serving

__all__ = ["HINT", "Balancer", "found", "running"]

HINT = "no HAProxy can be run here: see `make test-deps`"
_STARTING = 60.0
"""Maximum seconds of a start."""


def found() -> str | None:
    """The program, or None."""
    return shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


class Balancer:
    """HAProxy with a configuration; its log is in a file beside that.

    Raises:
        RuntimeError: it finds a fault in it, quoted.
    """

    def __init__(self, program: str, folder: Path, configuration: str) -> None:
        self.log = folder / "log"
        self._command = [program, "-db", "-f", str(folder / "haproxy.cfg")]
        (folder / "haproxy.cfg").write_text(configuration)
        checked = subprocess.run(
            [program, "-c", "-f", folder / "haproxy.cfg"],
            check=False,
            capture_output=True,
            text=True,
        )
        if checked.returncode:
            raise RuntimeError(checked.stderr)
        self.start()

    def start(self) -> None:
        """Start HAProxy, for the first time or again."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill HAProxy with SIGKILL."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running(program: str, configuration: str, address: str = "") -> Iterator[Balancer]:
    """Run a load balancer while the block lasts.

    With a plaintext ``address``, wait until a healthy server answers there.
    """
    with tempfile.TemporaryDirectory(prefix="sotto-haproxy-") as folder:
        balancer = Balancer(program, Path(folder), configuration)
        try:
            end = time.monotonic() + _STARTING
            while address and not serving(address):
                if balancer.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(balancer.log.read_text())
                time.sleep(0.05)
            yield balancer
        finally:
            balancer.kill()
