"""``sotto-cloud ui``: the provider's page."""

from __future__ import annotations

import os
import signal
import webbrowser
from pathlib import Path

import click

from sottovoce.cloud.cli.options import (
    figures_option,
    health_option,
    objects_option,
    opened,
    state_option,
    store_option,
    tls_ca_option,
)
from sottovoce.cloud.page.endpoints import changes, endpoints, page_server
from sottovoce.core.platform.console import Command, if_interrupted, json_option, print_json
from sottovoce.core.platform.threads import Ending

__all__ = ["command"]


@click.command("ui", cls=Command)
@state_option
@store_option
@objects_option
@click.option(
    "--listen",
    default="127.0.0.1:0",
    metavar="HOST:PORT",
    help="Address of the page, on loopback.  [default: a free port]",
)
@health_option
@figures_option
@tls_ca_option
@click.option(
    "--open/--no-open",
    " /--no-browser",
    "show",
    default=None,
    help="Open the page in this desktop's browser.  [default: if there is a desktop]",
)
@json_option
def command(
    state: Path,
    store: str,
    objects: str,
    listen: str,
    health: tuple[str, ...],
    metrics: tuple[str, ...],
    tls_ca: Path | None,
    show: bool | None,
    as_json: bool,
) -> None:
    """Serve a page of jobs, tenants and processes on loopback, until SIGTERM or Ctrl-C.

    The page shows the results of status, jobs, tenants, tokens and audit-log, updated every
    few seconds. It can cancel a job, set a limit, and make or revoke a token; the audit log
    notes each. The link works once, for ten minutes. Addresses for --health and --metrics may
    be in the file that --config names, in a table [ui]. With --json, the command prints one
    object {"url": LINK, "pid": PID} and opens no browser.
    """
    ending = Ending()
    if_interrupted("the page is closed", "`sotto-cloud ui` opens another")
    # Only cancelling a job uses the objects, and it checks them then.
    with opened(state, store, objects, check=False) as database:
        told = endpoints(database, health, metrics, tls_ca)
        with page_server(listen, told, changes(database)) as server:
            url = server.link()
            if as_json:
                print_json({"url": url, "pid": os.getpid()})
            else:
                click.echo(url)
                desktop = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
                if show or (show is None and desktop):
                    webbrowser.open(url)
            ended_by = ending.wait()
    if ended_by is signal.SIGINT:
        raise KeyboardInterrupt
