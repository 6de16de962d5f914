"""``sotto ledger``."""

from __future__ import annotations

from dataclasses import asdict

import click

from sottovoce.core.platform.console import Command, json_option, plain, print_json, print_table
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import backend
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.tasks import spending

__all__ = ["command"]


@click.command("ledger", cls=Command)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Say in words what privacy was spent on this device, and for how much more there is room."""
    config = load_config(ctx)
    with backend(config) as device:
        status, spent = device.status(), device.spending()
    warning = spending.warning(status, config.privacy.warn_after)
    if as_json:
        shown = views.status(status, running=False)["ledger"]
        print_json(
            shown
            | {
                "messages_left": spending.messages_left(status),
                "warning": warning,
                "days": [asdict(each) for each in spending.by_day(spent)],
                "purposes": [asdict(each) for each in spending.by_purpose(spent)],
            }
        )
        return
    if warning:
        click.secho(f"warning    {warning}", fg="yellow")
    for name, value in spending.lines(status):
        click.echo(f"{name:11}{value}")
    for title, sums in (("day", spending.by_day(spent)), ("for", spending.by_purpose(spent))):
        if sums:
            click.echo()
            rows = [
                (plain(e.heading, line=True), f"{e.spent:,.6g}", f"{e.releases:,}") for e in sums
            ]
            print_table((title, "eta spent", "texts"), rows)
    click.echo(spending.MEANING)
