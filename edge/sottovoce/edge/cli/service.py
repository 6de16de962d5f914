"""``sotto service``: the agent under systemd."""

from __future__ import annotations

import dataclasses
import getpass
import logging
import os
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path

import click

from sottovoce.core.errors import ConfigError, NotReady
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.core.platform.files import disk, in_place_of
from sottovoce.core.platform.program import INTERRUPTED
from sottovoce.core.rpc import logs
from sottovoce.edge.cli import systemd
from sottovoce.edge.cli.client import remote
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.config import MACHINE
from sottovoce.edge.daemon import server
from sottovoce.v1 import edge_owner_pb2 as owner

__all__ = ["serve_command", "service_command", "ui_command"]

_scope = click.option(
    "--system",
    is_flag=True,
    help="For this machine, from boot on; needs root.  [default: for you, while logged in]",
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
@json_option
@click.pass_context
def install(ctx: click.Context, system: bool, user: str, only_print: bool, as_json: bool) -> None:
    """Write the unit, and start the agent with it now and from then on.

    For yourself it runs while you are logged in; `loginctl enable-linger` has it run always. The
    settings it was installed with in SOTTO_ variables are taken along. With --system it runs as
    one user, whose apps and commands alone reach it; its settings are /etc/sottovoce/agent.toml.
    """
    manager = _manager(system=system)
    if system:
        unit = systemd.system_unit(systemd.program(), user)
    else:
        unit = systemd.user_unit(systemd.program(), ctx.obj, os.environ)
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
        _write(MACHINE, systemd.settings_of_the_machine(), 0o640)
        with disk(MACHINE):
            os.chown(MACHINE, 0, systemd.group_of(user))
    _told(manager, "daemon-reload")
    _told(manager, "enable", systemd.NAME)
    _told(manager, "restart", systemd.NAME)
    if as_json:
        print_json({"file": str(manager.file), "active": True})
    else:
        click.echo(f"the agent runs, by {manager.file}")


@service_command.command("uninstall", cls=Command)
@_scope
@json_option
def uninstall(system: bool, as_json: bool) -> None:
    """Stop the agent and take the unit away; state, bundle and settings stay."""
    manager = _manager(system=system)
    _not_packaged(manager)
    if not manager.file.exists():
        raise NotReady(
            f"there is no {manager.file}", fix="nothing is to be done", subject="service"
        )
    _told(manager, "disable", "--now", systemd.NAME)
    with disk(manager.file):
        manager.file.unlink()
    _told(manager, "daemon-reload")
    if as_json:
        print_json({"file": str(manager.file), "active": False})
    else:
        click.echo(f"removed {manager.file}; state, bundle and settings are where they were")


@service_command.command("status", cls=Command)
@_scope
@json_option
@click.pass_context
def status(ctx: click.Context, system: bool, as_json: bool) -> None:
    """Whether the unit is there, and the agent runs by it; exit code 3 if not."""
    manager = _manager(system=system)
    unit = manager.unit
    installed = unit is not None
    active = installed and _systemctl(manager, "is-active", "--quiet", systemd.NAME).returncode == 0
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


def _manager(*, system: bool) -> systemd.Manager:
    return systemd.SYSTEM if system else systemd.user_manager(os.environ)


def _not_packaged(manager: systemd.Manager) -> None:
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


def _told(manager: systemd.Manager, *arguments: str) -> None:
    done = _systemctl(manager, *arguments)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ConfigError(
            f"systemctl {arguments[0]} failed: {said[-1] if said else done.returncode}",
            fix="see `journalctl -e -u sottovoce`, with --user where it is your own",
            subject="service",
        )


def _systemctl(manager: systemd.Manager, *arguments: str) -> subprocess.CompletedProcess[str]:
    asked = [_program(manager), *manager.systemctl[1:], *arguments]
    return subprocess.run(asked, capture_output=True, text=True, check=False)


def _program(manager: systemd.Manager) -> str:
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
@json_option
@click.pass_context
def serve_command(
    ctx: click.Context, listen: str | None, openai: str | None, as_json: bool
) -> None:
    """Run the agent for apps on this device, until SIGTERM (exit code 0) or Ctrl-C (130).

    Starts without a bundle and uses one as soon as it is pulled. Logs go to standard error and
    never hold text. With --json, one object {"serving": ADDRESS} is printed when it is ready.
    """
    config = load_config(ctx)
    if listen:
        config = dataclasses.replace(config, agent=dataclasses.replace(config.agent, listen=listen))
    if openai is not None:
        config = dataclasses.replace(
            config, openai=dataclasses.replace(config.openai, address=openai)
        )
    logs.configure("text", "agent", "%(levelname)s %(name)s: ")

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
@json_option
@click.pass_context
def ui_command(ctx: click.Context, show: bool | None, as_json: bool) -> None:
    """Open the running agent's page: try texts, see levels, ledger, adapters and what left.

    The agent answers it on loopback from now on, until it ends. The link is good once, for ten
    minutes; run this again for another. With --json, one object {"url": LINK} and no browser.
    """
    with remote(load_config(ctx)) as client:
        url = client.owner.OpenPage(owner.OpenPageRequest()).url
    if as_json:
        print_json({"url": url})
        return
    click.echo(url)
    desktop = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if show or (show is None and desktop):
        webbrowser.open(url)
