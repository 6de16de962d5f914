"""``sotto show``."""

from __future__ import annotations

import click

from sottovoce.core.errors import NotFound
from sottovoce.core.platform.console import Command, json_option, print_json, print_table
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import backend
from sottovoce.edge.cli.common import load_config

__all__ = ["command"]


@click.command("show", cls=Command)
@click.argument("name")
@json_option
@click.pass_context
def command(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show the adapter NAME and its versions, the newest first."""
    with backend(load_config(ctx)) as device:
        status = device.status()
    customized = status.customizations
    kept = views.corrections(status, name)
    records = [each for each in customized if each.adapter == name]
    if not records:
        raise NotFound(f"no adapter {name!r} on this device", fix="see `sotto list`", subject=name)
    present = views.by_standing(records)[0]
    if as_json:
        versions = [views.customization(each) for each in records]
        print_json({"name": name, "present": present.id, "versions": versions, "corrections": kept})
        return
    shown = views.customization(present)
    privacy = ", ".join(value for value in shown["privacy"].values() if value)
    shown |= {"adapter": name, "state": views.standing(present), "privacy": privacy}
    for key, value in shown.items():
        if value not in ("", 0, 0.0, False):
            click.echo(f"{key.replace('_', ' '):20}{value}")
    if any(kept.values()):
        click.echo(f"{'corrections':20}{kept['waiting']:,} wait, {kept['taken']:,} in training")
    click.echo()
    print_table(
        ("", "version", "state", "examples", "accuracy", "made"),
        [
            (
                "*" if each.id == present.id else "",
                each.id[:8],
                views.standing(each),
                f"{each.examples:,}",
                views.accuracy(each),
                views.day(each.create_time),
            )
            for each in records
        ],
    )
