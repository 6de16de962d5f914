"""``sotto-cloud authority``: the authority for certificates of devices."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud.cli.options import state_option
from sottovoce.cloud.tenants.authority import AUTHORITY, Authority
from sottovoce.core.platform.console import Command, json_option, print_json


@click.group("authority")
def command() -> None:
    """Make the authority that signs devices' certificates, for `serve --devices-listen`."""


@command.command("init", cls=Command)
@state_option
@json_option
def init(state: Path, as_json: bool) -> None:
    """Make an authority in --state: authority.key, which nobody else may read, and authority.pem.

    Servers of one cloud on several machines need the same two files. One that is
    there is never replaced.
    """
    made = Authority.make(state)
    ends = made.certificate.not_valid_after_utc
    if as_json:
        print_json({"authority": str(state / AUTHORITY), "ends": ends.isoformat()})
    else:
        click.echo(f"{state / AUTHORITY} signs certificates of devices until {ends:%Y-%m-%d}")
