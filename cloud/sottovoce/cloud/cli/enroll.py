"""``sotto-cloud enroll``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud.cli.options import state_option, store_option
from sottovoce.cloud.state.opening import open_database
from sottovoce.cloud.state.tenants import Tenants
from sottovoce.core.errors import InvalidInput, NotFound
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.core.platform.files import in_place_of

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
@json_option
def command(
    tenant: str, state: Path, store: str, token_file: Path | None, renew: bool, as_json: bool
) -> None:
    """Add TENANT and print its first token, which cannot be shown again.

    On the device, set cloud.tenant to TENANT and cloud.token_file to a file that
    holds the token. A running server knows the tenant at once. `sotto-cloud tokens`
    gives each further device one of its own.
    """
    try:
        database = open_database(state, store, create=False)
    except NotFound:
        if renew:
            raise
        database = open_database(state, store)
    try:
        tenants = Tenants(database)
        token = tenants.renew(tenant) if renew else tenants.enroll(tenant)
    finally:
        database.close()
    show_token(tenant, token, token_file, as_json=as_json)


def show_token(tenant: str, token: str, token_file: Path | None, *, as_json: bool) -> None:
    """Print a new token, or write it into the file.

    Raises:
        InvalidInput: it cannot be written; the token is lost.
    """
    if token_file is not None:
        _write_private(token_file, token)
    if as_json:
        shown = {"token_file": str(token_file)} if token_file else {"token": token}
        print_json({"tenant": tenant, **shown})
    else:
        click.echo(f"token of {tenant} written to {token_file}" if token_file else token)


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
