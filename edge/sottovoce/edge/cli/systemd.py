"""systemd units of the agent, for one user and for the whole machine.

Paths, user and hardening depend on the installation, so a unit copied by hand would be wrong. A
user's manager may not set restrictions that need privileges, so the user unit has fewer. The system
unit has all the hardening of a service that starts at boot.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sottovoce.core.errors import ConfigError, InvalidInput
from sottovoce.edge.config import MACHINE

__all__ = [
    "ACCOUNT",
    "NAME",
    "SYSTEM",
    "Manager",
    "group_of",
    "packaged_unit",
    "program",
    "settings_of_the_machine",
    "system_unit",
    "user_manager",
    "user_unit",
]

NAME: Final = "sottovoce.service"
ACCOUNT: Final = "sottovoce"
"""The user that a system package creates for the machine's agent."""
_WRITTEN = "# Written by `sotto service install`, which writes it anew; a drop-in survives.\n"
_PACKAGED = "# A package's; a drop-in (`systemctl edit sottovoce`) survives its upgrades.\n"
_ALWAYS = """\
Type=notify
Restart=on-failure
RestartSec=2
# A wrong configuration does not mend itself.
RestartPreventExitStatus=2 78
TimeoutStopSec=20
UMask=0077
# Clear text must not reach the disk by way of a crash.
LimitCORE=0
MemoryMax=512M
# Nor by way of swap.
MemorySwapMax=0
TasksMax=128
NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
"""
_PRIVILEGED = """\
RuntimeDirectory=sottovoce
RuntimeDirectoryMode=0700
StateDirectory=sottovoce
StateDirectoryMode=0700
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
# Programs and tokens may lie in a home.
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
DevicePolicy=closed
PrivateUsers=yes
ProtectProc=invisible
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RemoveIPC=yes
"""
_KEPT = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")


@dataclass(frozen=True, slots=True)
class Manager:
    """A systemd manager: the path of our unit, and the command to control it.

    ``packaged`` is the path of a system package's unit, if this manager can have one.
    """

    file: Path
    systemctl: tuple[str, ...]
    packaged: Path | None = None

    @property
    def unit(self) -> Path | None:
        """The path of the unit in use, or None if there is no unit."""
        return next((f for f in (self.file, self.packaged) if f is not None and f.exists()), None)

    @property
    def is_packages(self) -> bool:
        """Whether a package's unit exists and we did not write `file`.

        Then `file` is missing, or the owner made it (`systemctl edit --full`, `systemctl mask`).

        Raises:
            OSError: `file` cannot be read.
        """
        if self.packaged is None or not self.packaged.exists():
            return False
        return not (self.file.exists() and self.file.read_text().startswith(_WRITTEN))


SYSTEM: Final = Manager(
    Path("/etc/systemd/system") / NAME, ("systemctl",), Path("/usr/lib/systemd/system") / NAME
)
"""The machine's manager."""


def user_manager(environ: Mapping[str, str]) -> Manager:
    """Return the manager of the user with this environment."""
    return Manager(_config_home(environ) / "systemd" / "user" / NAME, ("systemctl", "--user"))


def program() -> Path:
    """Return the path of the running ``sotto`` program, for a service to start.

    Raises:
        ConfigError: ``sotto`` is not an executable file.
    """
    beside = Path(sys.executable).with_name("sotto")
    for found in (beside, Path(sys.argv[0]).absolute()):
        if found.name == "sotto" and os.access(found, os.X_OK):
            return found
    raise ConfigError(
        "there is no program `sotto` beside this Python",
        fix="install the wheel into a virtual environment, and run its `sotto`",
    )


def user_unit(command: Path, config: Path | None, environ: Mapping[str, str]) -> str:
    """Return the unit of a user's service.

    The service runs while the user is logged in or lingers.

    Args:
        config: the settings file; None for the default.
        environ: the installing user's environment, from which settings and folders are copied.
    """
    kept = {
        name: value
        for name, value in sorted(environ.items())
        if name in _KEPT or name.startswith("SOTTO_")
    }
    if config is not None:
        kept["SOTTO_CONFIG"] = str(config.absolute())
    lines = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in kept.items())
    return _WRITTEN + _unit(command, lines + _ALWAYS, "default.target", "")


def system_unit(command: Path, user: str) -> str:
    """Return the unit of a service that starts at boot and runs as `user`.

    Only that user's apps reach it.

    Raises:
        InvalidInput: there is no such user, or it is root.
    """
    group_of(user)
    return _WRITTEN + _machines(command, user)


def packaged_unit(command: Path) -> str:
    """Return the system unit for a package, which runs as the package's user."""
    return _PACKAGED + _machines(command, ACCOUNT)


def settings_of_the_machine(example: str = "edge/packaging/agent.toml") -> str:
    """Return the initial text of `config.MACHINE`, with the service's folders.

    Args:
        example: the file that explains every key.
    """
    return (
        f"# Settings of this machine's agent; every key: {example}.\n"
        '[agent]\nlisten = "unix:/run/sottovoce/agent.sock"\nstate = "/var/lib/sottovoce/state"\n\n'
        '[bundle]\npath = "/var/lib/sottovoce/bundle"\n'
    )


def _machines(command: Path, user: str) -> str:
    service = f"User={user}\nEnvironment=SOTTO_CONFIG={MACHINE}\n{_ALWAYS}{_PRIVILEGED}"
    network = "Wants=network-online.target\nAfter=network-online.target\n"
    return _unit(command, service, "multi-user.target", network)


def group_of(user: str) -> int:
    """Return the group id of a user that may run the agent.

    Raises:
        InvalidInput: there is no user of that name, or it is root.
    """
    try:
        found = pwd.getpwnam(user)
    except KeyError as error:
        raise InvalidInput(
            f"there is no user {user!r}", fix="name one with --run-as", subject="run_as"
        ) from error
    if found.pw_uid == 0:
        raise InvalidInput(
            "the agent is not to run as root",
            fix="name the user whose apps use it with --run-as",
            subject="run_as",
        )
    return found.pw_gid


def _config_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or Path(environ["HOME"]) / ".config")


def _unit(command: Path, service: str, target: str, more: str) -> str:
    return (
        "[Unit]\nDescription=Sottovoce edge agent: privatises text before it meets a cloud\n"
        f"{more}StartLimitIntervalSec=60\nStartLimitBurst=5\n\n"
        f"[Service]\nExecStart={_quoted(str(command))} serve\n{service}\n"
        f"[Install]\nWantedBy={target}\n"
    )


def _quoted(value: str) -> str:
    """Quote a value for systemd, with its specifiers and escapes disabled."""
    for sign, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("%", "%%")):
        value = value.replace(sign, written)
    return f'"{value}"'
