"""``sotto serve``, ``service`` and ``ui``; and the systemd units of the agent.

Paths, user and hardening depend on the installation, so a unit copied by hand would be wrong. A
user's manager may not set restrictions that need privileges, so the user unit has fewer. The system
unit has all the hardening of a service that starts at boot.
"""

from __future__ import annotations

import dataclasses
import getpass
import logging
import os
import pwd
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from sottovoce.core.errors import ConfigError, InvalidInput, NotReady
from sottovoce.core.platform.console import Command, print_json
from sottovoce.core.platform.files import disk, in_place_of
from sottovoce.core.platform.program import INTERRUPTED
from sottovoce.core.rpc import telemetry
from sottovoce.edge import server
from sottovoce.edge.cli.client import remote
from sottovoce.edge.cli.common import load_config, say
from sottovoce.edge.config import MACHINE
from sottovoce.v1 import edge_owner_pb2 as owner

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
    """Return the path of the running ``sotto`` program, for a service to start."""
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
    """Return the group id of a user that may run the agent."""
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


_scope = click.option(
    "--system",
    is_flag=True,
    help="Run for this machine, from boot on; needs root.  [default: for you, while logged in]",
)


@click.group("service")
def service_command() -> None:
    """Have systemd run the agent: install, uninstall, status."""


@service_command.command("install", cls=Command)
@_scope
@click.option(
    "--run-as",
    "user",
    default=lambda: os.environ.get("SUDO_USER") or getpass.getuser(),
    show_default="who called sudo",
    help="With --system, the user whose apps and commands reach the agent.",
)
@click.option("--print", "only_print", is_flag=True, help="Print the unit and change nothing.")
@click.pass_context
def install(ctx: click.Context, system: bool, user: str, only_print: bool, as_json: bool) -> None:
    """Write the systemd unit, and start the agent now and at each login or boot.

    Your own agent runs while you are logged in; with `loginctl enable-linger` it always runs. Its
    unit keeps the SOTTO_ variables that are set now. With --system, the agent runs as one user, and
    only this user's apps and commands reach it; its settings are in /etc/sottovoce/agent.toml.
    """
    manager = _manager(system=system)
    unit = system_unit(program(), user) if system else user_unit(program(), ctx.obj, os.environ)
    if only_print:
        if as_json:
            print_json({"file": str(manager.file), "unit": unit})
        else:
            click.echo(unit, nl=False)
        return
    _program(manager)  # check before anything is written
    _not_packaged(manager)
    _write(manager.file, unit, 0o644)
    if system and not MACHINE.exists():
        _write(MACHINE, settings_of_the_machine(), 0o640)
        with disk(MACHINE):
            os.chown(MACHINE, 0, group_of(user))
    _told(manager, "daemon-reload")
    _told(manager, "enable", NAME)
    _told(manager, "restart", NAME)
    say({"file": str(manager.file), "active": True}, f"the agent runs, by {manager.file}")


@service_command.command("uninstall", cls=Command)
@_scope
def uninstall(system: bool, as_json: bool) -> None:
    """Stop the agent and remove the unit; state, bundle and settings stay."""
    manager = _manager(system=system)
    _not_packaged(manager)
    if not manager.file.exists():
        raise NotReady(
            f"there is no {manager.file}", fix="nothing is to be done", subject="service"
        )
    _told(manager, "disable", "--now", NAME)
    with disk(manager.file):
        manager.file.unlink()
    _told(manager, "daemon-reload")
    say(
        {"file": str(manager.file), "active": False},
        f"removed {manager.file}; state, bundle and settings are where they were",
    )


@service_command.command("status", cls=Command)
@_scope
@click.pass_context
def status(ctx: click.Context, system: bool, as_json: bool) -> None:
    """Check that the unit exists and runs the agent; exit code 3 if not."""
    manager = _manager(system=system)
    unit = manager.unit
    installed = unit is not None
    active = installed and _systemctl(manager, "is-active", "--quiet", NAME).returncode == 0
    if as_json:
        print_json(
            {
                "file": str(unit or manager.file),
                "installed": installed,
                "active": active,
            }
        )
    else:
        click.echo(f"unit    {unit or 'none: run `sotto service install`'}")
        click.echo(f"agent   {'running' if active else 'not running'}")
    if not active:
        ctx.exit(NotReady.exit_code)


def _manager(*, system: bool) -> Manager:
    return SYSTEM if system else user_manager(os.environ)


def _not_packaged(manager: Manager) -> None:
    """Raise `NotReady` if a package owns the unit.

    Its unit, or the owner's override, must not be replaced or removed.
    """
    with disk(manager.file):
        packaged = manager.is_packages
    if packaged:
        raise NotReady(
            f"{manager.packaged} belongs to a package of this system",
            fix="`systemctl enable --now sottovoce` runs it, `systemctl disable --now sottovoce` "
            "ends it, and `systemctl edit sottovoce` changes it",
            subject="service",
        )


def _write(file: Path, text: str, mode: int) -> None:
    with disk(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with in_place_of(file) as aside:
            aside.write_text(text, encoding="utf-8")
            aside.chmod(mode)


def _told(manager: Manager, *arguments: str) -> None:
    done = _systemctl(manager, *arguments)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ConfigError(
            f"systemctl {arguments[0]} failed: {said[-1] if said else done.returncode}",
            fix="see `journalctl -e -u sottovoce`, with --user where it is your own",
            subject="service",
        )


def _systemctl(manager: Manager, *arguments: str) -> subprocess.CompletedProcess[str]:
    asked = [_program(manager), *manager.systemctl[1:], *arguments]
    return subprocess.run(asked, capture_output=True, text=True, check=False)


def _program(manager: Manager) -> str:
    found = shutil.which(manager.systemctl[0])
    if found is None:
        raise ConfigError(
            "there is no systemd here",
            fix="have what starts programs on this machine run `sotto serve`",
            subject="service",
        )
    return found


@click.command("serve", cls=Command)
@click.option(
    "--listen", help='Address: "unix:PATH" or "HOST:PORT".  [default: configured, a unix socket]'
)
@click.option(
    "--openai",
    help="Also answer HTTP, as OpenAI's servers do: 127.0.0.1:PORT.  [default: configured, no]",
)
def serve_command(listen: str | None, openai: str | None, as_json: bool) -> None:
    """Run the agent for apps on this device, until SIGTERM (exit code 0) or Ctrl-C (130).

    Starts without a bundle and uses one as soon as it is pulled. Logs go to standard error and
    never hold text. With --json, one object {"serving": ADDRESS} is printed when it is ready.
    """
    config = load_config()
    if listen:
        config = dataclasses.replace(config, agent=dataclasses.replace(config.agent, listen=listen))
    if openai is not None:
        config = dataclasses.replace(
            config, openai=dataclasses.replace(config.openai, address=openai)
        )
    telemetry.configure_logs("text", "agent", "%(levelname)s %(name)s: ")

    def ready(address: str) -> None:
        if as_json:
            print_json({"serving": address})

    interrupted = server.serve(config, ready=ready)
    if interrupted:
        click.echo("interrupted: what is queued goes on with the next `sotto serve`", err=True)
    # All is closed, and no more text is released. A thread that still processes a long text for a
    # departed caller would otherwise keep the process alive.
    sys.stdout.flush()
    logging.shutdown()
    os._exit(INTERRUPTED if interrupted else 0)


@click.command("ui", cls=Command)
@click.option(
    "--open/--no-open",
    "show",
    default=None,
    help="Show it in this desktop's browser.  [default: where there is a desktop]",
)
def ui_command(show: bool | None, as_json: bool) -> None:
    """Open the running agent's page: try texts, see levels, ledger, adapters and texts that left.

    The agent serves the page on loopback from now on, until the agent ends. The link works once,
    within ten minutes; run this again for another. With --json, print one object {"url": LINK} and
    open no browser.
    """
    with remote(load_config()) as client:
        url = client.owner.OpenPage(owner.OpenPageRequest()).url
    if as_json:
        print_json({"url": url})
        return
    click.echo(url)
    desktop = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if show or (show is None and desktop):
        webbrowser.open(url)
