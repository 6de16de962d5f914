"""``sotto-cloud front``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from sottovoce.cloud import logs
from sottovoce.cloud.cli import serving
from sottovoce.core.platform.console import Command, if_interrupted, json_option, print_json
from sottovoce.core.rpc.opentelemetry import traced

if TYPE_CHECKING:
    from sottovoce.cloud.server.front import Front


@click.command("front", cls=Command)
@serving.address_options
@serving.job_limits
@json_option
def command(as_json: bool, **given: Any) -> None:
    """Take uploads and answer for jobs until SIGTERM or Ctrl-C, beside replicas and trainers.

    It has no model, starts in a moment and shares --store with the others behind a balancer
    (`sotto-cloud balancer-config`), which sends the calls that need a model to replicas. Give it
    the bundles of the replicas. Several may run.
    """
    settings = serving.settings(given, trainer=False)
    # Imported late, like the server.
    from sottovoce.cloud.server import front

    logs.configure(settings.log_format, "front")
    if_interrupted(*serving.STOPPED)

    def ready(running: Front) -> None:
        if as_json:
            print_json({"ready": True, "address": running.address, "pid": os.getpid()})
        else:
            click.echo(f"answering for jobs on {running.address}", err=True)

    with traced("front", settings.trace, plaintext=True):
        front.serve(settings, ready)
