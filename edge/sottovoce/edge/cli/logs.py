"""``sotto logs``."""

from __future__ import annotations

import click

from sottovoce.core.errors import NotReady
from sottovoce.core.platform.console import Command, if_interrupted, json_option, print_json
from sottovoce.edge.cli import progress, views
from sottovoce.edge.cli.client import remote
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.cli.interruptible import interruptible
from sottovoce.edge.state.outbox import ENDED
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["command"]


@click.command("logs", cls=Command)
@click.argument("name")
@click.option("--follow/--no-follow", "-f", default=True, help="Until it ends.  [default: follow]")
@json_option
@click.pass_context
def command(ctx: click.Context, name: str, follow: bool, as_json: bool) -> None:
    """Follow the newest training of the adapter NAME, a line for every change.

    The agent writes its own log to standard error, or to the journal where systemd runs it.
    """
    with remote(load_config(ctx)) as running:
        if_interrupted(*progress.left(name))
        for record in interruptible(lambda stop: running.watch("", name, stop)):
            if as_json:
                print_json(views.customization(record))
            else:
                click.echo(progress.sentence(record))
            if not follow:
                return
    if record.state in ENDED and record.state != agent.CUSTOMIZATION_STATE_SUCCEEDED:
        raise NotReady(f"adapter {name!r} was not trained", subject=name)
