"""The runner of the agent in a checked system: systemd, or this program by the unit's settings.

On an emulated processor systemd boots, but cannot confine its services, so confined ones do not
start. There this program applies the unit's command, user, folders, environment and limits of
rights, and checks what systemd would see.
"""

from __future__ import annotations

import configparser
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from bench.live.testbed import serving
from deploy.debian.machine import Machine
from sottovoce.edge.cli import service

_SOCKET: Final = "run/sottovoce/agent.sock"
_UNIT: Final = f"usr/lib/systemd/system/{service.NAME}"
_MOST_EXPOSED: Final = 2.0
_SECONDS: Final = 300.0


def answers(machine: Machine) -> bool:
    """Return whether the agent's health is SERVING on its own socket."""
    return serving(f"unix:{machine.root / _SOCKET}")


@dataclass
class Systemd:
    """The system's own systemd, which the package's scripts call."""

    machine: Machine

    def installed(self) -> None:
        """Follow an installation or upgrade, whose scripts must start the agent."""

    def unpacked(self) -> None:
        """Follow the unpacking of a newer package; the earlier one's script stopped the agent."""

    def restart(self) -> None:
        """Restart the unit as an owner would."""
        self.machine.run("systemctl", "restart", service.NAME)

    def leaving(self) -> None:
        """Prepare for the removal, whose script must stop the agent."""

    def process(self) -> str:
        """Return the unit's main process."""
        show = ("systemctl", "show", "-P", "MainPID", "-P", "ActiveState", service.NAME)
        process, state = self.machine.run(*show).split()
        journal = ("journalctl", "-u", service.NAME, "--no-pager")
        assert state == "active", self.machine.run(*journal, code=None)
        assert self.machine.run("stat", "-c", "%U", f"/proc/{process}").strip() == service.ACCOUNT
        _answered(self.machine)
        return process

    def seen(self) -> Iterator[tuple[str, str]]:
        """Check that the package started and enabled the unit, without faults."""
        assert self.machine.run("systemctl", "is-enabled", service.NAME).strip() == "enabled"
        self.process()
        yield "systemctl: enabled, active after install", "health SERVING, as sottovoce"
        assert self.machine.run("systemd-analyze", "verify", "--man=no", service.NAME) == ""
        said = self.machine.run("systemd-analyze", "security", "--no-pager", service.NAME).split()
        exposed = float(said[said.index("sottovoce.service:") + 1])
        assert exposed <= _MOST_EXPOSED
        yield "systemd-analyze verify, security", f"nothing to say, exposure {exposed}"


@dataclass
class ByHand:
    """This program, by the unit's settings."""

    machine: Machine
    running: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def installed(self) -> None:
        """Start the agent, or the new one."""
        self.restart()

    def unpacked(self) -> None:
        """End the agent, as systemd does for the earlier package's script."""
        self.leaving()

    def restart(self) -> None:
        """Send SIGTERM, and run the unit's command again."""
        self.leaving()
        unit = _read(self.machine)
        for key, parent in (("runtimedirectory", "/run"), ("statedirectory", "/var/lib")):
            own = ["-o", unit["user"], "-g", unit["user"], "-m", unit[f"{key}mode"]]
            self.machine.run("install", "-d", *own, f"{parent}/{unit[key]}")
        rights = [f"--reuid={unit['user']}", f"--regid={unit['user']}", "--init-groups"]
        rights += ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        begin = f'umask {unit["umask"]}; ulimit -c {unit["limitcore"]}; exec "$@"'
        environment = [f"HOME=/var/lib/{unit['statedirectory']}", unit["environment"]]
        command = ["setpriv", *rights, "env", *environment, *shlex.split(unit["execstart"])]
        self.running = self.machine.start("sh", "-c", begin, "sh", *command)
        _answered(self.machine, self.running)

    def leaving(self) -> None:
        """Send SIGTERM, and wait for a clean exit."""
        if self.running is not None:
            self.machine.run("sh", "-c", f"kill -TERM {self.process()}")
            ended = self.running.wait(_SECONDS)
            self.running = None
            assert ended == 0, f"the agent ended with {ended}"

    def process(self) -> str:
        """Return the only process of the agent's user."""
        find = f"find /proc -maxdepth 1 -user {service.ACCOUNT} -name '[0-9]*' 2>/dev/null || true"
        (found,) = self.machine.run("sh", "-c", find).split()
        _answered(self.machine)
        return found.removeprefix("/proc/")

    def seen(self) -> Iterator[tuple[str, str]]:
        """Check that the process has the unit's settings."""
        self.process()
        yield "the unit's command, as its user", "health SERVING (no systemd: it is emulated)"


Service = Systemd | ByHand


def _answered(machine: Machine, started: subprocess.Popen[bytes] | None = None) -> None:
    """Wait for an answer; an emulated agent takes longer than the usual second."""
    deadline = time.monotonic() + _SECONDS
    while not answers(machine):
        assert started is None or started.poll() is None, machine.log.read_text()
        assert time.monotonic() < deadline, "health is not SERVING"
        time.sleep(0.2)


def _read(machine: Machine) -> dict[str, str]:
    """Return the unit's [Service]; of a repeated setting the last value."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.read_string((machine.root / _UNIT).read_text())
    return dict(parser["Service"])
