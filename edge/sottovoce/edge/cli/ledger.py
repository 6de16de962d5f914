"""``sotto ledger``."""

from __future__ import annotations

import click

from sottovoce.core.system.console import Command, json_option, print_json
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import backend
from sottovoce.edge.cli.common import load_config
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["command"]

_WORDS = 10
"""With noise, of a message that what is left is told in."""

_MEANING = """
Every word that gets noise costs the eta of its kind, and costs add up: the more was released, the
more whoever has all of it can tell. A text that is released again is the same bytes and costs
nothing; a query of `sotto embed` costs each time. What gives way to a random one of its kind, such
as names and numbers, costs nothing. Labels and private adapters have guarantees of their own,
which are never added to these."""


@click.command("ledger", cls=Command)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Say in words what privacy was spent on this device, and for how much more there is room."""
    config = load_config(ctx)
    with backend(config) as device:
        status = device.status()
    ledger = status.ledger
    eta = next((each.eta for each in status.levels if each.name == status.default_level), 0.0)
    if as_json:
        shown = views.status(status, running=False)["ledger"]
        print_json(shown | {"messages_left": _messages_left(ledger, eta)})
        return
    click.echo(f"spent      {_spent(ledger)}")
    if ledger.releases:
        each = ledger.spent / ledger.releases
        click.echo(f"on average {each:.4g} a text")
    click.echo(f"left       {_left(ledger, eta, status.default_level)}")
    if ledger.labels_randomized or ledger.labels_as_they_are:
        click.echo(
            f"labels     {ledger.labels_randomized:,} with noise, epsilon "
            f"{ledger.label_epsilon:.4g} in sum; {ledger.labels_as_they_are:,} as they are"
        )
    if ledger.adapters_private:
        click.echo(
            f"adapters   {ledger.adapters_private} private, epsilon {ledger.adapter_epsilon:.4g} "
            f"and delta {ledger.adapter_delta:.2g} in sum"
        )
    click.echo(_MEANING)


def _spent(ledger: agent.LedgerStatus) -> str:
    texts = f"{ledger.releases:,} text{'s' * (ledger.releases != 1)}"
    if not ledger.limit:
        return f"{ledger.spent:,.6g} on {texts}; you set no limit"
    return (
        f"{ledger.spent:,.6g} of {ledger.limit:,.6g} ({ledger.spent / ledger.limit:.0%}) on {texts}"
    )


def _messages_left(ledger: agent.LedgerStatus, eta: float) -> int | None:
    """Messages of `_WORDS` words with noise for which there is room; None without a limit."""
    if not ledger.limit or not eta:
        return None
    return max(0, int((ledger.limit - ledger.spent) / (_WORDS * eta)))


def _left(ledger: agent.LedgerStatus, eta: float, level: str) -> str:
    messages = _messages_left(ledger, eta)
    if messages is None:
        return "no limit: privacy.ledger_limit in the configuration sets one"
    left = max(0.0, ledger.limit - ledger.spent)
    return (
        f"{left:,.6g}: about {messages:,} more messages of {_WORDS} such words at {level!r}, "
        f"each at most {_WORDS * eta:.4g}"
    )
