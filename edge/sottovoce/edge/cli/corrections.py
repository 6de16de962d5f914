"""``sotto corrections``."""

from __future__ import annotations

import re
import sys

import click

from sottovoce.core.errors import InvalidInput, NotFound
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.client import Backend, backend
from sottovoce.edge.cli.common import load_config
from sottovoce.v1 import edge_adapters_pb2 as adapters

__all__ = ["command"]


@click.command("corrections", cls=Command)
@click.argument("name")
@click.option(
    "--show", is_flag=True, help="Print those that wait, as a table that `--input` takes."
)
@click.option("--forget", is_flag=True, help="Forget all of them; cannot be undone.")
@click.option("--text", default="", help="With --forget: only what was said of this text.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; needed where nobody can be asked.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, name: str, show: bool, forget: bool, text: str, yes: bool, as_json: bool
) -> None:
    """Say how many corrections of the adapter NAME wait on this device, show or forget them.

    What `sotto customize` has taken is forgotten here when it was learnt, and waits again if the
    training fails or is cancelled.
    """
    if (text and not forget) or (show and forget):
        raise InvalidInput(
            "--text without --forget" if text else "--show together with --forget",
            fix="give --forget alone, or with --text",
            subject="forget",
        )
    if forget and not (yes or text):
        if not sys.stdin.isatty():
            raise InvalidInput("forgetting must be confirmed", fix="add --yes", subject="yes")
        click.confirm(f"Forget all corrections of {name}?", abort=True, err=True)
    with backend(load_config(ctx)) as device:
        if forget:
            request = adapters.ForgetCorrectionsRequest(adapter=name, text=text)
            forgotten = device.forget_corrections(request)
            if as_json:
                print_json({"adapter": name, "forgotten": forgotten})
            else:
                click.echo(f"forgot {forgotten:,} of {name}")
            return
        waiting, taken = _count(device, name)
        shown = [*device.corrections(name)] if show else []
    if as_json:
        told: dict[str, object] = {"adapter": name, "waiting": waiting, "taken": taken}
        if show:
            told["corrections"] = [{"text": each.text, "label": each.label} for each in shown]
        print_json(told)
    elif show:
        click.echo("text\tlabel")
        for each in shown:  # tabs and line breaks would break the table
            click.echo(re.sub(r"[\t\r\n]+", " ", each.text) + f"\t{each.label}")
    else:
        click.echo(f"{waiting:,} of {name} wait, {taken:,} in training")


def _count(device: Backend, name: str) -> tuple[int, int]:
    """Return how many corrections wait, and how many are in training."""
    status = device.status()
    if all(record.adapter != name for record in status.customizations):
        raise NotFound(f"no adapter {name!r} on this device", fix="see `sotto list`", subject=name)
    for each in status.corrections:
        if each.adapter == name:
            return each.waiting, each.taken
    return 0, 0
