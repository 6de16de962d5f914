"""Who runs the agent in a system that is checked: its systemd, or we, as its unit says.

Why it is here: a systemd whose processor is emulated boots, but cannot shut its services in, so
none with much to say starts. There we do of the unit what does without: its command, user,
folders, environment, limits of rights; and ask for what systemd would see.
"""

from __future__ import annotations

import configparser
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from bench.live.testbed import serving
from deploy.debian.machine import Machine
from sottovoce.edge.cli import service

_SOCKET: Final = "run/sottovoce/agent.sock"
_UNIT: Final = f"usr/lib/systemd/system/{service.NAME}"
_MOST_EXPOSED: Final = 2.0
_SECONDS: Final = 300.0


def answers(machine: Machine) -> bool:
    """Whether the agent's health is SERVING on its own socket."""
    return serving(f"unix:{machine.root / _SOCKET}")


class Service(Protocol):
    """What the check needs of whoever runs the agent."""

    def installed(self) -> None:
        """A package was installed or upgraded."""

    def unpacked(self) -> None:
        """A package's files took the place of an earlier one's; its scripts have yet to run."""

    def restart(self) -> None:
        """Ends the agent and starts it."""

    def leaving(self) -> None:
        """The package is about to be removed."""

    def process(self) -> str:
        """The agent's process there, once it is seen to run as its user and to answer."""

    def seen(self) -> Iterator[tuple[str, str]]:
        """What is true of the unit."""


@dataclass
class Systemd:
    """The system's own: the package's scripts tell it what to do."""

    machine: Machine

    def installed(self) -> None:
        """Nothing: that the package starts the agent is what is checked."""

    def unpacked(self) -> None:
        """Nothing: that the earlier package's script has stopped the agent is what is checked."""

    def restart(self) -> None:
        """As an owner would."""
        self.machine.run("systemctl", "restart", service.NAME)

    def leaving(self) -> None:
        """Nothing, likewise."""

    def process(self) -> str:
        """As systemd names it."""
        show = ("systemctl", "show", "-P", "MainPID", "-P", "ActiveState", service.NAME)
        process, state = self.machine.run(*show).split()
        journal = ("journalctl", "-u", service.NAME, "--no-pager")
        assert state == "active", self.machine.run(*journal, code=None)
        assert self.machine.run("stat", "-c", "%U", f"/proc/{process}").strip() == service.ACCOUNT
        _answered(self.machine)
        return process

    def seen(self) -> Iterator[tuple[str, str]]:
        """Started by the package alone, enabled, and nothing wrong with it."""
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
    """We, with what the unit says."""

    machine: Machine
    running: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def installed(self) -> None:
        """Starts the agent, or the new one."""
        self.restart()

    def unpacked(self) -> None:
        """Ends the agent, as the earlier package's script has systemd do."""
        self.leaving()

    def restart(self) -> None:
        """SIGTERM, and the unit's command anew."""
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
        """SIGTERM, upon which it ends well."""
        if self.running is not None:
            self.machine.run("sh", "-c", f"kill -TERM {self.process()}")
            ended = self.running.wait(_SECONDS)
            self.running = None
            assert ended == 0, f"the agent ended with {ended}"

    def process(self) -> str:
        """The one of that user; any other of theirs would be a fault."""
        find = f"find /proc -maxdepth 1 -user {service.ACCOUNT} -name '[0-9]*' 2>/dev/null || true"
        (found,) = self.machine.run("sh", "-c", find).split()
        _answered(self.machine)
        return found.removeprefix("/proc/")

    def seen(self) -> Iterator[tuple[str, str]]:
        """Its command runs as the unit says."""
        self.process()
        yield "the unit's command, as its user", "health SERVING (no systemd: it is emulated)"


def _answered(machine: Machine, started: subprocess.Popen[bytes] | None = None) -> None:
    """Waits for an answer: emulated, the agent takes longer than the second it is given."""
    deadline = time.monotonic() + _SECONDS
    while not answers(machine):
        assert started is None or started.poll() is None, machine.log.read_text()
        assert time.monotonic() < deadline, "health is not SERVING"
        time.sleep(0.2)


def _read(machine: Machine) -> dict[str, str]:
    """The unit's [Service], the last of settings that are given twice."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.read_string((machine.root / _UNIT).read_text())
    return dict(parser["Service"])
