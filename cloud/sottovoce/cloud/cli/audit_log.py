"""``sotto-cloud audit-log``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud import views
from sottovoce.cloud.cli.options import opened, state_option, store_option
from sottovoce.cloud.state.audit_log import KEPT, recorded
from sottovoce.cloud.state.database import when
from sottovoce.core.platform.console import Command, json_option, print_json, print_table


@click.command("audit-log", cls=Command)
@click.option("--tenant", default="", help="Only what concerns this tenant.")
@click.option(
    "--most",
    type=click.IntRange(1, KEPT),
    default=100,
    show_default=True,
    help="How many, the newest.",
)
@state_option
@store_option
@json_option
def command(tenant: str, most: int, state: Path, store: str, as_json: bool) -> None:
    """Show who let in, shut out or changed whom, newest first.

    Tenants, tokens, codes, limits, published bundles, and the provider's own cancelling
    and deleting of jobs: who by the system's user name, when by the database's clock.
    The last 10,000 are kept; there is no text, token or code in them.
    """
    with opened(state, store) as database:
        found = recorded(database, most=most, tenant=tenant)
    if as_json:
        print_json({"acts": [views.act(act) for act in found]})
        return
    columns = ("when", "who", "what", "tenant", "detail")
    print_table(columns, [(when(a.done), a.who, a.what, a.tenant, a.detail) for a in found])
