"""``sotto-cloud serve``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from sottovoce.cloud import logs
from sottovoce.cloud.cli import serving
from sottovoce.cloud.cli.options import limit_option
from sottovoce.core.bundle.signature import show_key
from sottovoce.core.platform.console import Command, if_interrupted, json_option, print_json
from sottovoce.core.rpc.opentelemetry import traced

if TYPE_CHECKING:
    from sottovoce.cloud.server.server import Server


@click.command("serve", cls=Command)
@serving.address_options
@click.option(
    "--no-trainer",
    is_flag=True,
    help="Start no worker; `sotto-cloud trainer` trains, with the same --store and --objects.",
)
@click.option(
    "--trainer-metrics",
    default="",
    metavar="HOST:PORT",
    help="Serve the worker's Prometheus metrics there, in plaintext; off by default.",
)
@click.option(
    "--training-threads",
    type=serving.threads,
    default=os.cpu_count() or 1,
    show_default="all cores",
    help="CPU threads for training.",
)
@serving.model_options
@limit_option("training_seconds", "Seconds a job may train; it fails after that.")
@serving.job_limits
@serving.certificate_options
@json_option
def command(no_trainer: bool, as_json: bool, **given: Any) -> None:
    """Serve bundles, training, predictions and texts until SIGTERM or Ctrl-C.

    A worker process beside the server trains the queued jobs, one at a time, and
    takes up what a crash or a restart left unfinished. Tenants take turns: next is
    the job of the one who had least of the trainer's time in the last day. Limits
    hold for each tenant; `sotto-cloud limit` changes them for one. Bundles that
    `build-bundle --key` has not signed are signed by a key of the state's own,
    signing.key: keep it, devices refuse another. Prints one line when ready, with
    the public key.
    """
    settings = serving.settings(given, trainer=not no_trainer)
    # Imported late, so that errors in most options appear without waiting for torch.
    from sottovoce.cloud.server import server

    logs.configure(settings.log_format, "serve")
    if_interrupted(*serving.STOPPED)
    with traced("serve", settings.trace, plaintext=True):
        server.serve(settings, lambda running: tell(running, as_json=as_json), os.getpid())


def tell(running: Server, *, as_json: bool) -> None:
    """Report that the server answers calls, its address, and the key that signs its bundles."""
    keys = [show_key(signature.key) for signature in running.signatures.values()]
    if as_json:
        print_json(
            {
                "ready": True,
                "address": running.address,
                "devices_address": running.devices_address,
                "pid": os.getpid(),
                "bundles": list(running.bundles),
                "keys": keys,
            }
        )
    else:
        signers = ", ".join(dict.fromkeys(keys))
        devices = f"{running.devices_address}, " if running.devices_address else ""
        click.echo(f"serving on {running.address}, {devices}bundles signed by {signers}", err=True)
