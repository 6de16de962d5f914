"""Start a real cloud and a real device as separate processes on this machine.

The demo, the benchmarks and the end-to-end tests use this module. Both sides run as their owners
would run them: the installed commands, a unix socket, a loopback port and files. They share only
the network.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

__all__ = ["Agent", "Cloud", "Role", "command", "free_address", "serving"]

READY_SECONDS = 180.0
_PATIENCE = 900.0
"""Maximum seconds of a command; a longer one is stuck."""


def command(name: str) -> str:
    """Return the path of an installed command, from this Python's environment."""
    return str(Path(sys.executable).parent / name)


def free_address() -> str:
    """Reserve a loopback address for a server that cannot choose a port.

    The reservation lasts for the life of this process. A bound socket that never listens holds the
    port. A server can still listen there, because all our servers set SO_REUSEADDR.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    port = kept.getsockname()[1]
    kept.detach()  # an object would be closed, or warned about at exit
    return f"127.0.0.1:{port}"


def serving(address: str) -> bool:
    """Return whether the plaintext server at the address reports that it is serving."""
    with grpc.insecure_channel(address) as channel:
        request = health_pb2.HealthCheckRequest()
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=1)
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


@dataclass
class _Server:
    address: str
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def _start(self, arguments: list[str], env: Mapping[str, str]) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            before = log.tell()
            self.process = subprocess.Popen(
                arguments, env={**os.environ, **env}, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + READY_SECONDS
        while not (serving(self.address) if self.address else self._trains(before)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{arguments[0]} did not start; see {self.log}")
            time.sleep(0.05)

    def _trains(self, before: int) -> bool:
        """Return whether a trainer, which has no address, has reported that it is ready."""
        return b"training the jobs of" in self.log.read_bytes()[before:]

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self.process = None

    def kill(self) -> None:
        """``kill -9`` the main process only, as the kernel would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class Cloud(_Server):
    """``sotto-cloud serve`` on a loopback port."""

    state: Path = Path()
    bundle: Path = Path()
    options: tuple[str, ...] = ()

    @classmethod
    def at(cls, folder: Path, bundle: Path, *options: str) -> Cloud:
        """Return a cloud with all its files under ``folder``; it is not started."""
        log, state = folder / "cloud.log", folder / "cloud"
        return cls(free_address(), log, state=state, bundle=bundle, options=options)

    def start(self) -> None:
        """Start the cloud and wait until its health is SERVING."""
        serve = [command("sotto-cloud"), "serve", "--listen", self.address, *self.options]
        self._start([*serve, "--state", str(self.state), "--bundle", str(self.bundle)], {})

    def enroll(self, tenant: str, device: str = "") -> Path:
        """Enrol a tenant or a further device, and return the file with its token."""
        token = self.state.parent / f"{tenant}{device}.token"
        act = ["tokens", "new", "--name", device] if device else ["enroll"]
        enroll = [command("sotto-cloud"), *act, tenant, "--token-file", str(token)]
        subprocess.run([*enroll, "--state", str(self.state)], check=True, stdout=subprocess.DEVNULL)
        return token


@dataclass
class Role(_Server):
    """One of the processes that share a cloud's work: ``sotto-cloud replica``, ``front`` or
    ``trainer``, as its first argument says."""

    arguments: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start the role, and wait until it is SERVING, or a trainer reports that it is ready."""
        self._start([command("sotto-cloud"), *self.arguments], self.env)


@dataclass
class Agent(_Server):
    """``sotto serve`` on a unix socket, configured by environment variables."""

    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(
        cls, folder: Path, *, cloud: str = "", tenant: str = "", token: Path | None = None
    ) -> Agent:
        """Return an agent with its state under ``folder``; it is not started."""
        address = f"unix:{folder / 'agent.sock'}"
        env = {
            "SOTTO_AGENT_LISTEN": address,
            "SOTTO_AGENT_STATE": str(folder / "agent"),
            "SOTTO_CLOUD_ADDRESS": cloud,
            "SOTTO_CLOUD_TENANT": tenant,
            "SOTTO_CLOUD_TOKEN_FILE": str(token or ""),
        }
        return cls(address, folder / "agent.log", env=env)

    def hold(self, bundle: Path) -> None:
        """Install a bundle without a pull, which would take seconds to check it again."""
        held = self.log.parent / "bundles"
        held.mkdir()
        (held / "current").symlink_to(bundle)
        self.env["SOTTO_BUNDLE_PATH"] = str(held)

    def start(self) -> None:
        """Start the agent and wait until its health is SERVING."""
        self._start([command("sotto"), "serve"], self.env)

    def run(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        """Run a ``sotto`` command as this agent's owner and return its output.

        Progress bars and errors go to this process's standard error.

        Raises:
            subprocess.CalledProcessError: it failed.
            subprocess.TimeoutExpired: it did not end in time.
        """
        return subprocess.run(
            [command("sotto"), *arguments],
            env={**os.environ, **self.env},
            input=stdin,
            stdout=subprocess.PIPE,
            check=True,
            timeout=_PATIENCE,
        ).stdout
