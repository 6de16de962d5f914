"""``sotto ui``."""

from __future__ import annotations

import os
import webbrowser

import click

from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.client import remote
from sottovoce.edge.cli.common import load_config

__all__ = ["command"]


@click.command("ui", cls=Command)
@click.option(
    "--open/--no-open",
    "show",
    default=None,
    help="Show it in this desktop's browser.  [default: where there is a desktop]",
)
@json_option
@click.pass_context
def command(ctx: click.Context, show: bool | None, as_json: bool) -> None:
    """Open the running agent's page: try texts, see levels, ledger, adapters and what left.

    The agent answers it on loopback from now on, until it ends. The link is good once, for ten
    minutes; run this again for another. With --json, one object {"url": LINK} and no browser.
    """
    with remote(load_config(ctx)) as agent:
        url = agent.open_page()
    if as_json:
        print_json({"url": url})
        return
    click.echo(url)
    desktop = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if show or (show is None and desktop):
        webbrowser.open(url)
