"""``sotto-cloud health``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud.cli.options import tls_ca_option
from sottovoce.cloud.config import DEFAULT_LISTEN
from sottovoce.cloud.views import answers_calls
from sottovoce.core.errors import NotReady
from sottovoce.core.platform.console import Command, json_option, print_json


@click.command("health", cls=Command)
@click.argument("address", default=DEFAULT_LISTEN)
@tls_ca_option
@json_option
def command(address: str, tls_ca: Path | None, as_json: bool) -> None:
    """Ask the server, replica, front or balancer at ADDRESS whether it answers calls.

    In plaintext, unless --tls-ca is given. For who starts again what does not answer.
    """
    if not answers_calls(address, tls_ca):
        raise NotReady(f"{address} is starting or ending", fix="ask again soon")
    if as_json:
        print_json({"address": address, "serving": True})
    else:
        click.echo(f"{address} answers calls")
