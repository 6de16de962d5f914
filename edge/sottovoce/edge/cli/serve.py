"""``sotto serve``."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys

import click

from sottovoce.core.platform.console import INTERRUPTED, Command, json_option, print_json
from sottovoce.core.rpc.logs import Sentences, to_standard_error
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.config import DoorwayConfig
from sottovoce.edge.daemon import server

__all__ = ["command"]


@click.command("serve", cls=Command)
@click.option(
    "--listen", help='Address: "unix:PATH" or "HOST:PORT".  [default: configured, a unix socket]'
)
@click.option(
    "--doorway",
    help="Also answer HTTP, as OpenAI's servers do: 127.0.0.1:PORT.  [default: configured, no]",
)
@json_option
@click.pass_context
def command(ctx: click.Context, listen: str | None, doorway: str | None, as_json: bool) -> None:
    """Run the agent for apps on this device, until SIGTERM (exit code 0) or Ctrl-C (130).

    Starts without a bundle and uses one as soon as it is pulled. Logs go to standard error and
    never hold text. With --json, one object {"serving": ADDRESS} is printed when it is ready.
    """
    config = load_config(ctx)
    if listen:
        config = dataclasses.replace(config, agent=dataclasses.replace(config.agent, listen=listen))
    if doorway is not None:
        config = dataclasses.replace(config, doorway=DoorwayConfig(doorway))
    to_standard_error(Sentences("%(levelname)s %(name)s: %(message)s"))

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
