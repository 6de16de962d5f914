"""``sotto list``."""

from __future__ import annotations

import click

from sottovoce.core.platform.console import Command, json_option, print_json, print_table
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import backend
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.state.outbox import ENDED
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["command"]


@click.command("list", cls=Command)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the adapters that were customised here, the newest first.

    Of each name the version that it stands for, and those in training; `sotto show NAME` lists all.
    Corrections are those that wait on this device or are in training (`sotto corrections NAME`).
    """
    with backend(load_config(ctx)) as device:
        status = device.status()
    records = status.customizations
    named: dict[str, agent.Customization] = {}
    for record in views.by_standing(records):
        named.setdefault(record.adapter, record)
    present = {record.id for record in named.values()}
    shown = [each for each in records if each.id in present or each.state not in ENDED]
    if as_json:
        print_json(
            {
                "adapters": [
                    views.customization(each)
                    | {"corrections": views.corrections(status, each.adapter)}
                    for each in shown
                ]
            }
        )
        return
    if not shown:
        click.echo("no adapters yet: `sotto customize NAME --input FILE` trains one")
        return
    print_table(
        ("name", "id", "state", "examples", "accuracy", "level", "corrections", "made"),
        [
            (
                each.adapter,
                each.id[:8],
                views.standing(each),
                f"{each.examples:,}",
                views.accuracy(each),
                each.privacy.level or "-",
                f"{sum(views.corrections(status, each.adapter).values()):,}",
                views.day(each.create_time),
            )
            for each in shown
        ],
        ("made", "corrections", "examples"),
    )
