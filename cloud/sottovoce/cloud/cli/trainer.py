"""``sotto-cloud trainer``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from sottovoce.cloud import logs
from sottovoce.cloud.cli.options import (
    backbone_option,
    decoder_option,
    folder,
    key_file_option,
    limit_option,
    log_option,
    metrics_option,
    objects_option,
    state_option,
    store_option,
    trace_option,
)
from sottovoce.cloud.config import Limits
from sottovoce.core.system.console import Command, json_option, print_json
from sottovoce.core.wire.opentelemetry import traced


@click.command("trainer", cls=Command)
@state_option
@store_option
@objects_option
@key_file_option
@click.option(
    "--bundle",
    "bundles",
    type=folder,
    multiple=True,
    help="Bundle folder that is served, for the noise-aware input; may be given again.",
)
@backbone_option
@decoder_option
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="all",
    help="CPU threads.",
)
@limit_option("training_seconds", "Seconds a job may train; it fails after that.")
@metrics_option
@log_option
@trace_option
@json_option
def command(
    state: Path,
    store: str,
    objects: str,
    key_file: Path | None,
    bundles: tuple[Path, ...],
    backbone: str,
    decoder: str,
    threads: int,
    limit_training_seconds: int,
    metrics: str,
    log_format: str,
    trace: str,
    as_json: bool,
) -> None:
    """Train queued jobs until SIGTERM or Ctrl-C, one at a time; one process for each GPU.

    It shares --state, or --store and --objects, with servers and with other trainers, which may
    come and go: a job whose trainer has died is given to another after ten seconds. Give it the
    --backbone, --decoder and --bundle of the servers.
    """
    # Imported late: no option's mistake should wait for torch.
    from sottovoce.cloud.training.process import work
    from sottovoce.cloud.training.worker import Worker

    logs.configure(log_format, "trainer")
    limits = Limits(training_seconds=limit_training_seconds)
    worker = Worker(
        state,
        backbone,
        limits=limits,
        bundles=bundles,
        decoder=decoder,
        store=store,
        objects=objects,
        key_file=key_file,
    )

    def ready() -> None:
        if as_json:
            print_json({"ready": True, "pid": os.getpid()})
        else:
            click.echo(f"training the jobs of {state}", err=True)

    with traced("trainer", trace, plaintext=True):
        work(worker, threads, metrics, ready)
