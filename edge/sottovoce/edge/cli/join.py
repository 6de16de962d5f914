"""``sotto join``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.client import in_process
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.tasks.sharing import LARGEST, join

__all__ = ["command"]


@click.command("join", cls=Command)
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--name", default="", help="Call the adapter so on this device.  [default: as there]")
@json_option
@click.pass_context
def command(ctx: click.Context, source: Path, name: str, as_json: bool) -> None:
    """Use an adapter of another device of yours, out of the FILE that `sotto share` wrote there.

    `sotto predict`, `fetch` and `customize --add` then take it as if it were trained here. Sends
    nothing.
    """
    try:
        with source.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise InvalidInput(
            f"cannot read {source}: {error.strerror}", fix="give what `sotto share` wrote"
        ) from error
    with in_process(load_config(ctx)) as device:
        record = join(device.store, device.outbox, data, name)
    if as_json:
        print_json({"adapter": record.adapter, "adapter_id": record.adapter_id})
    else:
        click.echo(f"{record.adapter} is known here; bring it home with `sotto fetch`")
