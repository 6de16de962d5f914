"""``sotto-cloud tenants``: the tenants of this cloud."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud import views
from sottovoce.cloud.cli.options import opened, state_option, store_option
from sottovoce.cloud.state.credentials import Credentials
from sottovoce.cloud.state.database import when
from sottovoce.cloud.state.tenants import Tenants
from sottovoce.core.platform.console import Command, json_option, print_json, print_table


@click.group("tenants")
def command() -> None:
    """List tenants, shut them out, let them in again. `sotto-cloud enroll` adds one."""


@command.command("list", cls=Command)
@state_option
@store_option
@json_option
def list_(state: Path, store: str, as_json: bool) -> None:
    """All tenants, by name: since when, whether they are let in, their tokens and jobs."""
    with opened(state, store) as database:
        found = Tenants(database).all()
    if as_json:
        print_json({"tenants": [views.tenant(each) for each in found]})
        return
    print_table(
        ("tenant", "since", "state", "tokens", "jobs"),
        [
            (t.name, when(t.created), "disabled" if t.disabled else "", str(t.tokens), str(t.jobs))
            for t in found
        ],
    )


@command.command("disable", cls=Command)
@click.argument("tenant")
@state_option
@store_option
@json_option
def disable(tenant: str, state: Path, store: str, as_json: bool) -> None:
    """Shut TENANT out until it is enabled again.

    Its tokens, jobs and adapters stay as they are; what it has open ends within
    seconds. Jobs that are queued or in training go on: `sotto-cloud jobs cancel`
    ends them.
    """
    _switch(tenant, state, store, disabled=True, as_json=as_json)


@command.command("enable", cls=Command)
@click.argument("tenant")
@state_option
@store_option
@json_option
def enable(tenant: str, state: Path, store: str, as_json: bool) -> None:
    """Let TENANT in again, with the tokens it had."""
    _switch(tenant, state, store, disabled=False, as_json=as_json)


def _switch(tenant: str, state: Path, store: str, *, disabled: bool, as_json: bool) -> None:
    with opened(state, store) as database:
        Tenants(database).disable(tenant, disabled=disabled)
    if as_json:
        print_json({"tenant": tenant, "disabled": disabled})
    else:
        click.echo(f"{tenant} is {'disabled' if disabled else 'enabled'}")


@command.command("revoke", cls=Command)
@click.argument("tenant")
@state_option
@store_option
@json_option
def revoke(tenant: str, state: Path, store: str, as_json: bool) -> None:
    """Revoke all tokens and codes of TENANT, for good. `sotto-cloud tokens new` gives new ones."""
    with opened(state, store) as database:
        count = Credentials(database).revoke(tenant)
    if as_json:
        print_json({"tenant": tenant, "revoked": count})
    else:
        click.echo(f"{count} tokens of {tenant} revoked")
