"""``sotto share``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.core.platform.files import atomic
from sottovoce.edge.cli.client import in_process
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.tasks.sharing import share

__all__ = ["command"]


@click.command("share", cls=Command)
@click.argument("adapter")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File to write (mode 0600); carry it to the other devices yourself.",
)
@json_option
@click.pass_context
def command(ctx: click.Context, adapter: str, output: Path, as_json: bool) -> None:
    """Write down what your other devices need to use ADAPTER, and to teach it (`sotto join`).

    It holds the adapter's name and labels, and what the cloud knows them by: show it to nobody
    else. The other devices need the same tenant, each with a token of its own.
    """
    with in_process(load_config(ctx)) as device:
        data = share(device.outbox, adapter)
    try:
        with atomic(output) as file:
            file.write(data)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {output}: {error.strerror}", fix="choose another --output"
        ) from error
    if as_json:
        print_json({"adapter": adapter, "output": str(output)})
    else:
        click.echo(f"{output} is for your other devices: `sotto join {output.name}` there")
