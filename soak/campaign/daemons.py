"""Both daemons as processes, each with its log in a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sottovoce.v1 import edge_agent_pb2 as wire
from sottovoce.v1 import edge_agent_pb2_grpc
from tests.support.processes import environment
from tests.support.waiting import until

OWN_CONNECTION: Final = (("grpc.use_local_subchannel_pool", 1),)
"""Option of a channel that shares its connection with no other one."""
PROGRAM = "from sottovoce.{}.cli import main; main()"
"""Program text that runs either side's command; the side is to be filled in."""


@dataclass
class Daemon:
    """A daemon that may be killed and started again.

    Attributes:
        arguments: of the program.
        environ: beside this process's.
        address: where it answers.
        folder: of all that it keeps.
    """

    arguments: Sequence[str]
    environ: dict[str, str]
    address: str
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The daemon's standard outputs, over all its lives."""
        return self.folder / "log"

    @property
    def pid(self) -> int:
        """Process id of the current process."""
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start the daemon and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.arguments, env=environment() | self.environ, stdout=log, stderr=log
            )
        until(lambda: self._serves() or self.process.poll() is not None)  # type: ignore[union-attr]
        assert self.process.poll() is None, self.log.read_text()

    def kill(self) -> None:
        """Send SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(60)
        self.process = None
        return code

    def _serves(self) -> bool:
        with grpc.insecure_channel(self.address) as channel:
            try:
                health = health_pb2_grpc.HealthStub(channel)
                answer = health.Check(health_pb2.HealthCheckRequest(), timeout=5)
            except grpc.RpcError:
                return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def releases(address: str) -> int:
    """Return the number of releases that the device's daemon has charged."""
    with grpc.insecure_channel(address) as channel:
        stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
        return int(stub.GetStatus(wire.GetStatusRequest(), timeout=120).ledger.releases)


@contextmanager
def device(folder: Path, bundle: Path, **environ: str) -> Iterator[Daemon]:
    """``sotto serve`` over ``bundle``; ``environ`` may name a cloud for it, or another folder for
    its state. Killed at the end."""
    home = folder / "home"
    (home / "bundles").mkdir(parents=True)
    (home / "bundles" / "current").symlink_to(bundle)
    address = f"unix:{folder}/agent.sock"
    environ = {
        "HOME": str(home),
        "SOTTO_AGENT_LISTEN": address,
        "SOTTO_AGENT_STATE": str(folder / "state"),
        "SOTTO_BUNDLE_PATH": str(home / "bundles"),
    } | environ
    program = [sys.executable, "-c", PROGRAM.format("edge"), "serve"]
    daemon = Daemon(program, environ, address, folder)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.kill()


@contextmanager
def cloud(
    folder: Path,
    backbone: str,
    bundle: Path,
    environ: Mapping[str, str] = MappingProxyType({}),
    **options: str,
) -> Iterator[Daemon]:
    """Run ``sotto-cloud serve`` with a fresh state and more options; it is killed at the end."""
    address = f"unix:{folder}/cloud.sock"
    options |= {
        "listen": address,
        "state": str(folder / "state"),
        "bundle": str(bundle),
        "backbone": backbone,
        "training_threads": "1",
    }
    flat = [
        part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)
    ]
    program = [sys.executable, "-c", PROGRAM.format("cloud"), "serve", *flat]
    daemon = Daemon(program, {"CUDA_VISIBLE_DEVICES": "", **environ}, address, folder)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.kill()
