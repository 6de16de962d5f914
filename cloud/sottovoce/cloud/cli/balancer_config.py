"""``sotto-cloud balancer-config``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from sottovoce.cloud.balancing import envoy, haproxy
from sottovoce.cloud.balancing.layout import Backend, Layout
from sottovoce.core.errors import ConfigError
from sottovoce.core.system.console import Command, json_option, print_json

_MAKERS = {"haproxy": haproxy.configuration, "envoy": envoy.configuration}
_file = click.Path(dir_okay=False, path_type=Path)


@click.command("balancer-config", cls=Command)
@click.argument("balancer", type=click.Choice([*_MAKERS]))
@click.option("--listen", default="0.0.0.0:8471", show_default=True, help="Where devices call.")
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
@click.option("--tls-cert", type=_file, help="PEM certificate chain; for haproxy, with the key.")
@click.option("--tls-key", type=_file, help="PEM private key, for envoy.")
@click.option(
    "--insecure-plaintext", is_flag=True, help="Allow plaintext on an address others can reach."
)
@click.option(
    "--backend-ca",
    type=_file,
    help="PEM of who signed the certificates of replicas and fronts.  [default: plaintext]",
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
    help="Connections that one address may hold (haproxy).",
)
@click.option(
    "--peer-streams",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Downloads of bundles and other calls without a token that one address may hold open "
    "(haproxy).",
)
@click.option(
    "--metrics", metavar="HOST:PORT", help="Serve the balancer's own metrics there, in plaintext."
)
@json_option
def command(
    balancer: str,
    listen: str,
    replicas: tuple[str, ...],
    fronts: tuple[str, ...],
    metrics: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Print a configuration of BALANCER before replicas and fronts.

    Calls go by the tenant they name, so that its adapters are in one replica's memory; a tenant
    with more than its share spills over. What the balancer may repeat, whom it asks for health
    and what one address may do before it says who it is, stands in it. HAProxy's was run by our
    tests, Envoy's was not.
    """
    if balancer == "haproxy" and given["tls_key"] is not None:
        raise ConfigError(
            "HAProxy reads certificate and key from one file",
            fix="give it with --tls-cert: cat chain.pem key.pem > both.pem",
        )
    for name in ("peer_connections", "peer_streams") if balancer == "envoy" else ():
        asked = click.get_current_context().get_parameter_source(name)
        if asked is not ParameterSource.DEFAULT:
            raise ConfigError(
                f"Envoy bounds no address: --{name.replace('_', '-')} would do nothing",
                fix="leave it out, or print HAProxy's",
            )
    layout = Layout(
        Backend.parse(listen),
        tuple(map(Backend.parse, replicas)),
        tuple(map(Backend.parse, fronts)),
        metrics=Backend.parse(metrics) if metrics else None,
        **given,
    )
    made = _MAKERS[balancer](layout)
    if as_json:
        print_json({"balancer": balancer, "configuration": made})
    else:
        click.echo(made, nl=False)
