"""``sotto-cloud tokens``: the tokens of a tenant's devices."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from sottovoce.cloud import views
from sottovoce.cloud.cli.enroll import show_token, token_file_option
from sottovoce.cloud.cli.options import DURATION, opened, state_option, store_option
from sottovoce.cloud.state.codes import SECONDS, Codes
from sottovoce.cloud.state.credentials import Credentials, Scope
from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import Command, json_option, print_json, print_table

GRACE_SECONDS: Final = 3600.0

scope_option = click.option(
    "--scope",
    type=click.Choice([str(scope) for scope in Scope]),
    help="What it is for.  [default: all; with --replace, as before]",
)
seconds_option = click.option(
    "--ends-in",
    "seconds",
    type=DURATION,
    help="How long it is valid, like 90d.  [default: ever; with --replace, as before]",
)


@click.group("tokens")
def command() -> None:
    """List, make and revoke the tokens of a tenant's devices."""


@command.command("list", cls=Command)
@click.argument("tenant", default="")
@state_option
@store_option
@json_option
def list_(tenant: str, state: Path, store: str, as_json: bool) -> None:
    """Tokens of TENANT, or of all: name, scope, since when, until when.

    The last hundred that are over are listed, too. The tokens themselves are not
    kept, and cannot be shown.
    """
    with opened(state, store) as database:
        found, now = Credentials(database).all(tenant)
    told = [views.token(credential, now) for credential in found]
    if as_json:
        print_json({"tokens": told})
        return
    columns = ("number", "tenant", "name", "scope", "state", "created", "ends")
    print_table(columns, [[str(view[c]) for c in columns] for view in told], ("created",))


@command.command("new", cls=Command)
@click.argument("tenant")
@click.option("--name", required=True, help="Of the device that gets it.")
@scope_option
@seconds_option
@click.option("--replace", is_flag=True, help="In place of the one of this name, which then ends.")
@click.option(
    "--grace",
    type=DURATION,
    help="With --replace: how long the old one still works, while the device gets the new one."
    "  [default: 1h]",
)
@token_file_option
@state_option
@store_option
@json_option
def new(
    tenant: str,
    name: str,
    scope: str | None,
    seconds: float | None,
    replace: bool,
    grace: float | None,
    token_file: Path | None,
    state: Path,
    store: str,
    as_json: bool,
) -> None:
    """Make one more token for TENANT and print it; it cannot be shown again.

    Each device gets one of its own, so that a device that is lost or sold can be
    shut out alone.
    """
    if grace is not None and not replace:
        raise InvalidInput("--grace is for --replace", fix="give both, or neither", subject="grace")
    with opened(state, store) as database:
        token = Credentials(database).new(
            tenant,
            name,
            scope=Scope(scope) if scope else None,
            seconds=seconds,
            replace=replace,
            grace=GRACE_SECONDS if grace is None else grace,
        )
    show_token(tenant, token, token_file, as_json=as_json)


@command.command("code", cls=Command)
@click.argument("tenant")
@click.option("--name", required=True, help="Of the device that is let in.")
@scope_option
@seconds_option
@click.option("--replace", is_flag=True, help="In place of the one of this name, which then ends.")
@click.option(
    "--valid",
    type=DURATION,
    default=SECONDS,
    show_default="10m",
    help="How long the code can be used; 1d at most.",
)
@state_option
@store_option
@json_option
def code(
    tenant: str,
    name: str,
    scope: str | None,
    seconds: float | None,
    replace: bool,
    valid: float,
    state: Path,
    store: str,
    as_json: bool,
) -> None:
    """Print a code with which one device of TENANT fetches a token of its own.

    Read it out: `sotto enroll CODE` on the device does the rest. It works once, and
    not after five wrong guesses.
    """
    with opened(state, store) as database:
        made = Codes(database).new(
            tenant,
            name,
            scope=Scope(scope) if scope else None,
            token_seconds=seconds,
            seconds=valid,
            replace=replace,
        )
    if as_json:
        print_json({"tenant": tenant, "name": name, "code": made, "seconds": valid})
    else:
        click.echo(made)


@command.command("revoke", cls=Command)
@click.argument("tenant")
@click.argument("name")
@state_option
@store_option
@json_option
def revoke(tenant: str, name: str, state: Path, store: str, as_json: bool) -> None:
    """Shut out the device NAME of TENANT, for good.

    NAME may be a token's number, as `tokens list` shows it, where two of one name
    are valid. What was opened with it ends within seconds, on every machine; a code
    for a device of that name is void.
    """
    with opened(state, store) as database:
        count = Credentials(database).revoke(tenant, name)
    if as_json:
        print_json({"tenant": tenant, "name": name, "revoked": count})
    else:
        click.echo(f"token {name} of {tenant} revoked")
