"""``sotto-cloud health``."""

from __future__ import annotations

import click
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sottovoce.cloud.config import DEFAULT_LISTEN
from sottovoce.core.errors import NotReady, Unavailable
from sottovoce.core.system.console import Command, json_option, print_json

_SECONDS = 5.0


@click.command("health", cls=Command)
@click.argument("address", default=DEFAULT_LISTEN)
@click.option("--tls-ca", type=click.Path(dir_okay=False, exists=True), help="PEM to trust.")
@json_option
def command(address: str, tls_ca: str | None, as_json: bool) -> None:
    """Ask the server, replica, front or balancer at ADDRESS whether it answers calls.

    In plaintext, unless --tls-ca is given. For who starts again what does not answer.
    """
    if tls_ca is None:
        channel = grpc.insecure_channel(address)
    else:
        with open(tls_ca, "rb") as file:
            channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(file.read()))
    with channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=_SECONDS
            )
        except grpc.RpcError as error:
            raise Unavailable(
                f"nobody who answers calls is at {address}",
                fix="start it, or correct the address and --tls-ca",
            ) from error
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise NotReady(f"{address} is starting or ending", fix="ask again soon")
    if as_json:
        print_json({"address": address, "serving": True})
    else:
        click.echo(f"{address} answers calls")
