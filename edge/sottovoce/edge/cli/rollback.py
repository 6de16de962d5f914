"""``sotto rollback``."""

from __future__ import annotations

import click

from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import backend
from sottovoce.edge.cli.common import load_config
from sottovoce.v1 import edge_adapters_pb2 as adapters

__all__ = ["command"]


@click.command("rollback", cls=Command)
@click.argument("name")
@click.argument("version", required=False, default="")
@json_option
@click.pass_context
def command(ctx: click.Context, name: str, version: str, as_json: bool) -> None:
    """Have an earlier version of the adapter NAME back: VERSION, or the one before the present one.

    VERSION is an id that `sotto show NAME` lists, or how it begins; a later one that was rolled
    back may be named as well. The cloud keeps earlier versions, up to the limit of past jobs that
    its provider set.
    """
    with backend(load_config(ctx)) as device:
        record = device.roll_back(adapters.RollBackAdapterRequest(adapter=name, id=version))
    if as_json:
        print_json(views.customization(record))
    else:
        made = views.day(record.create_time)
        click.echo(f"{name} is version {record.id[:8]} of {made}, {record.examples:,} examples")
