"""``sotto-cloud limit``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud.cli.options import opened, state_option, store_option
from sottovoce.cloud.state import quotas
from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import Command, json_option, print_json, print_table

_ORIGINS = {
    "tenant": "for this tenant",
    "all": "for all",
    "default": "for all (default)",
}


@click.command("limit", cls=Command)
@click.argument("tenant")
@click.argument("changes", metavar="[NAME=VALUE]...", nargs=-1)
@state_option
@store_option
@json_option
def command(tenant: str, changes: tuple[str, ...], state: Path, store: str, as_json: bool) -> None:
    """Show or change the limits of TENANT.

    NAME is one of examples, upload_bytes, training_seconds, unfinished_jobs,
    held_bytes and past_jobs. An empty VALUE returns to the limit for all tenants,
    an option of `sotto-cloud serve`. A running server uses a change at once; a job
    in training keeps the time it was given.
    """
    wanted = [_parsed(change) for change in changes]
    with opened(state, store) as database:
        for name, value in wanted:
            quotas.change(database, tenant, name, value)
        own = quotas.own(database, tenant)
        found = quotas.in_force(database, tenant)
    if as_json:
        values = {name: limit.value for name, limit in found.items()}
        print_json({"tenant": tenant, "limits": own, "in_force": values})
        return
    rows = [
        (name, f"{limit.value:,} {quotas.UNITS[name]}", _ORIGINS[limit.origin])
        for name, limit in found.items()
    ]
    print_table(("limit", "in force", "set"), rows)


def _parsed(change: str) -> tuple[str, int | None]:
    name, found, value = change.partition("=")
    if not found or not (value.isdecimal() or not value):
        raise InvalidInput(
            f"cannot read {change!r}", fix="write it like unfinished_jobs=50", subject="limit"
        )
    return name, int(value) if value else None
