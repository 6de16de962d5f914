"""Commands about tenants: enroll, tenants, tokens, limit, audit-log."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

import click

from sottovoce.cloud import views
from sottovoce.cloud.cli.options import (
    DURATION,
    on_database,
    opened,
    say,
    state_option,
    store_option,
    taking,
)
from sottovoce.cloud.store import open_database
from sottovoce.cloud.store.audit_log import KEPT, recorded
from sottovoce.cloud.store.database import Database, when
from sottovoce.cloud.tenants import Tenants, quotas
from sottovoce.cloud.tenants.credentials import CODE_SECONDS, Codes, Credentials, Scope
from sottovoce.core.errors import InvalidInput, NotFound
from sottovoce.core.platform.console import Command, print_json, print_table
from sottovoce.core.platform.files import in_place_of


@click.group("tenants")
def tenants() -> None:
    """List tenants, shut them out, let them in again. `sotto-cloud enroll` adds one."""


@tenants.command("list", cls=Command)
@on_database()
def list_tenants(database: Database, as_json: bool) -> None:
    """List all tenants by name: creation, state, tokens and jobs."""
    told = [views.tenant(each) for each in Tenants(database).all()]
    if as_json:
        print_json({"tenants": told})
        return
    columns = ("name", "created", "state", "tokens", "jobs")
    print_table(columns, [[str(view[c]) for c in columns] for view in told], ("created",))


@tenants.command("disable", cls=Command)
@click.argument("tenant")
@on_database()
def disable(database: Database, tenant: str, as_json: bool) -> None:
    """Shut TENANT out until it is enabled again.

    Its tokens, jobs and adapters stay unchanged. Its open calls end within seconds.
    Queued and running jobs continue; `sotto-cloud jobs cancel` ends them.
    """
    _switch(database, tenant, disabled=True, as_json=as_json)


@tenants.command("enable", cls=Command)
@click.argument("tenant")
@on_database()
def enable(database: Database, tenant: str, as_json: bool) -> None:
    """Let TENANT in again, with its earlier tokens."""
    _switch(database, tenant, disabled=False, as_json=as_json)


def _switch(database: Database, tenant: str, *, disabled: bool, as_json: bool) -> None:
    Tenants(database).disable(tenant, disabled=disabled)
    now = "disabled" if disabled else "enabled"
    say(as_json, {"tenant": tenant, "state": now}, f"{tenant} is {now}")


@tenants.command("revoke", cls=Command)
@click.argument("tenant")
@on_database()
def revoke_tenant(database: Database, tenant: str, as_json: bool) -> None:
    """Revoke all tokens and codes of TENANT, for good. `sotto-cloud tokens new` makes new ones."""
    count = Credentials(database).revoke(tenant)
    say(as_json, {"tenant": tenant, "revoked": count}, f"{count} tokens of {tenant} revoked")


token_file_option = click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the token here (mode 0600) instead of printing it.",
)


@click.command("enroll", cls=Command)
@click.argument("tenant")
@state_option
@store_option
@token_file_option
@click.option("--renew", is_flag=True, help="Give an enrolled tenant a new first token.")
def enroll(
    tenant: str, state: Path, store: str, token_file: Path | None, renew: bool, as_json: bool
) -> None:
    """Add TENANT and print its first token, which cannot be shown again.

    On the device, set cloud.tenant to TENANT and cloud.token_file to a file that
    holds the token. A running server knows the tenant at once. `sotto-cloud tokens`
    makes a separate token for each further device.
    """
    try:
        database = open_database(state, store, create=False)
    except NotFound:
        if renew:
            raise
        database = open_database(state, store)
    with closing(database):
        tenants = Tenants(database)
        token = tenants.renew(tenant) if renew else tenants.enroll(tenant)
    show_token(tenant, token, token_file, as_json=as_json)


def show_token(tenant: str, token: str, token_file: Path | None, *, as_json: bool) -> None:
    """Print a new token, or write it into the file.

    Raises:
        InvalidInput: it cannot be written; the token is lost.
    """
    if token_file is not None:
        _write_private(token_file, token)
    shown = {"token_file": str(token_file)} if token_file else {"token": token}
    sentence = f"token of {tenant} written to {token_file}" if token_file else token
    say(as_json, {"tenant": tenant, **shown}, sentence)


def _write_private(file: Path, token: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with in_place_of(file) as aside:
            aside.touch(0o600, exist_ok=False)
            aside.write_text(token + "\n")
    except OSError as error:
        raise InvalidInput(
            f"cannot write {file}: {error.strerror}",
            fix="choose another --token-file, and run it again with --renew or --replace",
            subject="token_file",
        ) from error


GRACE_SECONDS: Final = 3600.0

device_options = taking(
    click.option("--name", required=True, help="Name of the device."),
    click.option(
        "--scope",
        type=click.Choice([str(scope) for scope in Scope]),
        help="Permitted calls.  [default: all; with --replace, as before]",
    ),
    click.option(
        "--ends-in",
        "seconds",
        type=DURATION,
        help="Lifetime of the token, like 90d.  [default: unlimited; with --replace, as before]",
    ),
    click.option(
        "--replace", is_flag=True, help="Replace the token of this name, which then ends."
    ),
)
"""Options for a device's next token."""


@click.group("tokens")
def tokens() -> None:
    """List, make and revoke the tokens of a tenant's devices."""


@tokens.command("list", cls=Command)
@click.argument("tenant", default="")
@on_database()
def list_tokens(database: Database, tenant: str, as_json: bool) -> None:
    """List the tokens of TENANT, or of all tenants: name, scope, start, end.

    The list includes the last hundred ended tokens. The tokens themselves are not
    kept, and cannot be shown.
    """
    found, now = Credentials(database).all(tenant)
    told = [views.token(credential, now) for credential in found]
    if as_json:
        print_json({"tokens": told})
        return
    columns = ("number", "tenant", "name", "scope", "state", "created", "ends")
    rows = [[str(view[c]) for c in columns[:-1]] + [view["ends"] or "never"] for view in told]
    print_table(columns, rows, ("created", "scope"))


@tokens.command("new", cls=Command)
@click.argument("tenant")
@device_options
@click.option(
    "--grace",
    type=DURATION,
    help="With --replace: time for which the old token still works.  [default: 1h]",
)
@token_file_option
@state_option
@store_option
def new_token(
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
    """Make another token for TENANT and print it; it cannot be shown again.

    With a separate token for each device, a lost or sold device can be shut out alone.
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


@tokens.command("code", cls=Command)
@click.argument("tenant")
@device_options
@click.option(
    "--valid",
    type=DURATION,
    default=CODE_SECONDS,
    show_default="10m",
    help="Lifetime of the code; 1d at most.",
)
@on_database()
def new_code(
    database: Database,
    tenant: str,
    name: str,
    scope: str | None,
    seconds: float | None,
    replace: bool,
    valid: float,
    as_json: bool,
) -> None:
    """Print a one-time code, with which a device of TENANT fetches its token.

    On the device, run `sotto enroll CODE`. The code works once, and becomes void after
    five wrong guesses.
    """
    made = Codes(database).new(
        tenant,
        name,
        scope=Scope(scope) if scope else None,
        token_seconds=seconds,
        seconds=valid,
        replace=replace,
    )
    say(as_json, {"tenant": tenant, "name": name, "code": made, "seconds": valid}, made)


@tokens.command("revoke", cls=Command)
@click.argument("tenant")
@click.argument("name")
@on_database()
def revoke_token(database: Database, tenant: str, name: str, as_json: bool) -> None:
    """Shut out the device NAME of TENANT, for good.

    If two valid tokens have one name, give the token's number from `tokens list` as NAME.
    Calls with the token end within seconds, on every machine. Codes for a device of
    that name become void.
    """
    count = Credentials(database).revoke(tenant, name)
    facts = {"tenant": tenant, "name": name, "revoked": count}
    say(as_json, facts, f"token {name} of {tenant} revoked")


_ORIGINS = {"tenant": "for this tenant", "all": "for all", "default": "for all (default)"}


@click.command("limit", cls=Command)
@click.argument("tenant")
@click.argument("changes", metavar="[NAME=VALUE]...", nargs=-1)
@state_option
@store_option
def limit(tenant: str, changes: tuple[str, ...], state: Path, store: str, as_json: bool) -> None:
    """Show or change the limits of TENANT.

    NAME is one of examples, upload_bytes, training_seconds, unfinished_jobs,
    held_bytes and past_jobs. An empty VALUE returns to the limit for all tenants,
    an option of `sotto-cloud serve`. A running server uses a change at once. A running
    job keeps its training time.
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
    if not found:
        raise InvalidInput(
            f"cannot read {change!r}", fix="write it like unfinished_jobs=50", subject="limit"
        )
    return name, quotas.value_of(value)


@click.command("audit-log", cls=Command)
@click.option("--tenant", default="", help="Only entries about this tenant.")
@click.option(
    "--most",
    type=click.IntRange(1, KEPT),
    default=100,
    show_default=True,
    help="Number of entries, newest first.",
)
@on_database()
def audit_log(database: Database, tenant: str, most: int, as_json: bool) -> None:
    """Show the changes to tenants and their data, newest first.

    Changes to tenants, tokens, codes, limits and published bundles are recorded, and
    jobs that the provider cancelled or deleted. Each entry has the system's user name and
    the database's time. The last 10,000 are kept. They contain no text, token or code.
    """
    found = recorded(database, most=most, tenant=tenant)
    if as_json:
        print_json({"acts": [views.act(act) for act in found]})
        return
    columns = ("when", "who", "what", "tenant", "detail")
    rows = [(when(a.done), a.who, a.what, a.tenant, a.detail) for a in found]
    print_table(columns, rows, ("who",))
