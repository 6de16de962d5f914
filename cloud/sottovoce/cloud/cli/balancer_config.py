"""``sotto-cloud balancer-config``: a configuration of HAProxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sottovoce.cloud import balancing
from sottovoce.cloud.balancing import Backend, Layout
from sottovoce.core.platform.console import Command, json_option, print_json

_file = click.Path(dir_okay=False, path_type=Path)


@click.command("balancer-config", cls=Command)
@click.option("--listen", default="0.0.0.0:8471", show_default=True, help="Address for devices.")
@click.option(
    "--replica",
    "replicas",
    multiple=True,
    metavar="HOST:PORT[*MOST]",
    help="A replica, or, with *16, a name that stands for up to 16; may be given again.",
)
@click.option(
    "--front",
    "fronts",
    multiple=True,
    metavar="HOST:PORT[*MOST]",
    help="A front; may be given again.",
)
@click.option("--tls-cert", type=_file, help="PEM file of the certificate chain and its key.")
@click.option(
    "--insecure-plaintext", is_flag=True, help="Allow plaintext on an address others can reach."
)
@click.option(
    "--backend-ca",
    type=_file,
    help="PEM of the authority for replicas' and fronts' certificates.  [default: plaintext]",
)
@click.option(
    "--peer-calls",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Calls a second that one address may make.",
)
@click.option(
    "--peer-connections",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Connections that one address may hold.",
)
@click.option(
    "--peer-streams",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Downloads of bundles and other calls without a token that one address may hold open.",
)
@click.option(
    "--metrics", metavar="HOST:PORT", help="Serve the balancer's own metrics there, in plaintext."
)
@json_option
def command(
    listen: str,
    replicas: tuple[str, ...],
    fronts: tuple[str, ...],
    metrics: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Print a configuration of HAProxy before replicas and fronts.

    HAProxy spreads calls by the tenant they name, so that one replica's memory holds the tenant's
    adapters. Calls beyond a replica's share spill over to the next replica. The file also states
    which calls HAProxy may repeat, its health checks, and the limits on one address.
    """
    layout = Layout(
        Backend.parse(listen),
        tuple(map(Backend.parse, replicas)),
        tuple(map(Backend.parse, fronts)),
        metrics=Backend.parse(metrics) if metrics else None,
        **given,
    )
    made = balancing.configuration(layout)
    if as_json:
        print_json({"configuration": made})
    else:
        click.echo(made, nl=False)
