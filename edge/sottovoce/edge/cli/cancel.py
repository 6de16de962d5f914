"""``sotto cancel``."""

from __future__ import annotations

import click

from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import backend
from sottovoce.edge.cli.common import load_config
from sottovoce.v1 import edge_adapters_pb2 as adapters

__all__ = ["command"]


@click.command("cancel", cls=Command)
@click.argument("name")
@json_option
@click.pass_context
def command(ctx: click.Context, name: str, as_json: bool) -> None:
    """End the newest training of the adapter NAME.

    Nothing more of it leaves this device from then on, and the cloud is told to stop; where it
    cannot be told, this fails and may be repeated. What was released before stays released, and
    charged.
    """
    with backend(load_config(ctx)) as device:
        record = device.cancel(adapters.CancelCustomizationRequest(adapter=name))
    if as_json:
        print_json(views.customization(record))
    else:
        click.echo(f"{name} ({record.id[:8]}) is cancelled")
