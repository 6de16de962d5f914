"""``sotto rm``."""

from __future__ import annotations

import sys

import click

from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.client import backend
from sottovoce.edge.cli.common import load_config
from sottovoce.v1 import edge_adapters_pb2 as adapters

__all__ = ["command"]


@click.command("rm", cls=Command)
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; needed where nobody can be asked.")
@click.option(
    "--force", "-f", is_flag=True, help="Forget it here even where the cloud cannot be told."
)
@json_option
@click.pass_context
def command(ctx: click.Context, name: str, yes: bool, force: bool, as_json: bool) -> None:
    """Delete the adapter NAME with all its versions, here and in the cloud.

    Cannot be undone. What was released for it stays released, and charged.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidInput("deleting must be confirmed", fix="add --yes", subject="yes")
        click.confirm(f"Delete {name} and all its versions?", abort=True, err=True)
    with backend(load_config(ctx)) as device:
        deleted = device.delete(adapters.DeleteAdapterRequest(adapter=name, force=force))
    if as_json:
        print_json({"adapter": name, "deleted": deleted})
    else:
        click.echo(f"deleted {name} ({deleted} version{'s' * (deleted != 1)})")
