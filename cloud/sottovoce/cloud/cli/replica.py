"""``sotto-cloud replica``."""

from __future__ import annotations

import os
from typing import Any

import click

from sottovoce.cloud import logs
from sottovoce.cloud.cli import serving
from sottovoce.cloud.cli.serve import tell
from sottovoce.core.platform.console import Command, if_interrupted, json_option
from sottovoce.core.rpc.opentelemetry import traced


@click.command("replica", cls=Command)
@serving.address_options
@serving.model_options
@serving.job_limits
@json_option
def command(as_json: bool, **given: Any) -> None:
    """Serve bundles, predictions, embeddings and texts until SIGTERM or Ctrl-C, beside others.

    One of many behind a balancer (`sotto-cloud balancer-config`), on one --store. It keeps
    nothing but adapters in memory, so replicas may come and go. Of customisation it answers what
    needs a model: whether a job can be trained, and adapters for devices. The rest is for
    `sotto-cloud front`.
    """
    settings = serving.settings(given, trainer=False, jobs=False)
    # Imported late, so that errors in most options appear without waiting for torch.
    from sottovoce.cloud.server import server

    logs.configure(settings.log_format, "replica")
    if_interrupted(*serving.STOPPED)
    with traced("replica", settings.trace, plaintext=True):
        server.serve(settings, lambda running: tell(running, as_json=as_json), os.getpid())
