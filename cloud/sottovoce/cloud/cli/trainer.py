"""``sotto-cloud trainer``: a process that trains queued jobs."""

from __future__ import annotations

import os
from pathlib import Path

import click

from sottovoce.cloud.cli import serve
from sottovoce.cloud.cli.options import (
    backbone_option,
    decoder_option,
    key_file_option,
    limit_option,
    log_option,
    metrics_option,
    objects_option,
    state_option,
    store_option,
    trace_option,
)
from sottovoce.cloud.config import ServerLimits
from sottovoce.core.errors import ConfigError
from sottovoce.core.platform.console import Command, if_interrupted, json_option, print_json
from sottovoce.core.rpc import logs
from sottovoce.core.rpc.opentelemetry import traced


@click.command("trainer", cls=Command)
@state_option
@store_option
@objects_option
@key_file_option
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
@click.option(
    "--ray",
    is_flag=False,
    flag_value="auto",
    default="",
    metavar="[ADDRESS]",
    help="Start trainers on a Ray cluster, which assigns GPUs and restarts them; on this "
    "machine's cluster without ADDRESS.",
)
@click.option(
    "--ray-trainers",
    type=click.IntRange(min=1),
    help="Number of trainers on Ray.  [default: one for each GPU]",
)
@json_option
def command(
    state: Path,
    store: str,
    objects: str,
    key_file: Path | None,
    backbone: str,
    decoder: str,
    threads: int,
    limit_training_seconds: int,
    metrics: str,
    log_format: str,
    trace: str,
    ray: str,
    ray_trainers: int | None,
    as_json: bool,
) -> None:
    """Train queued jobs until SIGTERM or Ctrl-C, one at a time; one process for each GPU.

    A trainer shares --state, or --store and --objects, with servers and other trainers.
    Trainers may come and go: ten seconds after a trainer has died, another continues its job.
    Use the servers' --backbone and --decoder. With --ray, all paths are paths on the
    cluster's machines.
    """
    logs.configure(log_format, "trainer")
    if_interrupted(*serve.STOPPED)
    if ray_trainers and not ray:
        raise ConfigError("--ray-trainers is for --ray", fix="give --ray, too", subject="ray")
    if ray and metrics:
        raise ConfigError(
            "--metrics is not for --ray",
            fix="leave it out: several trainers of a machine cannot have one port; "
            "`sotto-cloud status` and a front's metrics tell what the database knows",
            subject="ray",
        )
    if ray:
        from sottovoce.cloud.training import on_ray

        given = on_ray.Given(
            state.absolute(),
            backbone,
            decoder,
            objects,
            key_file.absolute() if key_file else None,
            threads,
            limit_training_seconds,
            log_format,
            trace,
            store,
        )
        on_ray.run(ray, ray_trainers or 0, given, lambda number: _ready(state, as_json, number))
        return
    # Imported late, so that option errors appear without waiting for torch.
    from sottovoce.cloud.models.backbone import resolve
    from sottovoce.cloud.training.process import work
    from sottovoce.cloud.training.worker import Worker

    for model in filter(None, (backbone, decoder)):
        resolve(model)  # a wrong name would otherwise fail every job
    limits = ServerLimits(training_seconds=limit_training_seconds)
    worker = Worker(
        state,
        backbone,
        limits=limits,
        decoder=decoder,
        store=store,
        objects=objects,
        key_file=key_file,
    )

    with traced("trainer", trace, plaintext=True):
        if work(worker, threads, metrics, lambda: _ready(state, as_json)):
            raise KeyboardInterrupt


def _ready(state: Path, as_json: bool, trainers: int = 0) -> None:
    if as_json:
        told = {"ready": True, "pid": os.getpid()}
        print_json(told | {"trainers": trainers} if trainers else told)
    else:
        where = f", by {trainers} trainers on Ray" if trainers else ""
        click.echo(f"training the jobs of {state}{where}", err=True)
