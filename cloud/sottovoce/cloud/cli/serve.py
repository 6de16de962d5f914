"""``sotto-cloud serve``, ``replica``, ``front`` and ``trainer``: the processes."""

from __future__ import annotations

import os
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sottovoce.cloud.cli.options import (
    BUNDLE_VARIABLE,
    backbone_option,
    decoder_option,
    key_file_option,
    limit_option,
    log_option,
    metrics_option,
    number_option,
    objects_option,
    state_option,
    store_option,
    taking,
    trace_option,
)
from sottovoce.cloud.config import DEFAULT_LISTEN, ServerLimits, Settings, UpstreamSettings
from sottovoce.core.bundle.signature import show_key
from sottovoce.core.errors import ConfigError
from sottovoce.core.platform.console import Command, folder, if_interrupted, print_json
from sottovoce.core.rpc import telemetry
from sottovoce.core.rpc.telemetry import traced

if TYPE_CHECKING:
    from sottovoce.cloud.api.front import Front
    from sottovoce.cloud.api.server import Server

STOPPED: Final = (
    "calls have ended in order, and jobs keep what they have learnt",
    "start it again with the same options: jobs go on",
)
"""The message after Ctrl-C, for a process that serves or trains."""

threads: Final = click.IntRange(min=1)
_file = click.Path(dir_okay=False, exists=True, path_type=Path)

address_options: Final = taking(
    click.option(
        "--listen",
        default=DEFAULT_LISTEN,
        show_default=True,
        help="HOST:PORT, or unix:PATH; port 0 takes a free one.",
    ),
    state_option,
    store_option,
    objects_option,
    key_file_option,
    click.option(
        "--bundle",
        "bundles",
        type=folder,
        multiple=True,
        required=True,
        envvar=BUNDLE_VARIABLE,
        show_envvar=True,
        help="Folder of a bundle to serve, or id of a published one (`sotto-cloud bundles`); may "
        "be given again. The first is the default.",
    ),
    click.option("--tls-cert", type=_file, help="PEM certificate chain."),
    click.option("--tls-key", type=_file, help="PEM private key."),
    click.option(
        "--insecure-plaintext",
        is_flag=True,
        help="Allow plaintext on an address that others can reach, behind a proxy that ends TLS.",
    ),
    metrics_option,
    log_option,
    trace_option,
)

model_options: Final = taking(
    backbone_option,
    decoder_option,
    number_option(
        "--generation-memory", 2048, "Memory for the state of texts in progress.", metavar="MIB"
    ),
    click.option(
        "--upstream",
        default="",
        metavar="URL",
        help="Server with OpenAI's protocol (vLLM, llama-server, ollama) in place of a decoder, "
        "such as http://127.0.0.1:8000/v1.",
    ),
    click.option(
        "--upstream-key-file",
        type=_file,
        help="File with the upstream server's API key, on one line.",
    ),
    click.option(
        "--upstream-model",
        default="",
        metavar="MODEL",
        help="The upstream server's name for its model.",
    ),
    click.option(
        "--upstream-adapter",
        "upstream_adapters",
        multiple=True,
        metavar="TENANT/ADAPTER=MODEL",
        help="The upstream server's model for a tenant's adapter; may be given again.",
    ),
    click.option(
        "--upstream-plaintext",
        is_flag=True,
        help="Allow http:// to a server on another machine, in a private network.",
    ),
    click.option(
        "--hand-out-adapters",
        multiple=True,
        metavar="TENANT",
        help="Let this tenant's devices fetch its adapters and answer themselves; ALL for every "
        "tenant; may be given again.",
    ),
    click.option(
        "--threads",
        type=threads,
        default=max(1, (os.cpu_count() or 2) // 2),
        show_default="half the cores",
        help="CPU threads for predictions.",
    ),
    number_option(
        "--adapter-memory",
        1024,
        "Memory for adapters; beyond it the least recently used are dropped and read again.",
        metavar="MIB",
    ),
    click.option(
        "--precision",
        type=click.Choice(["auto", "float32", "bfloat16"]),
        default="auto",
        show_default=True,
        help="Number format of predictions; auto is bfloat16 on a GPU, else float32. bfloat16 is "
        "two to three times as fast on CPUs with AVX512-BF16 or AMX.",
    ),
)

job_limits: Final = taking(
    limit_option("examples", "Examples a job may hold."),
    limit_option("upload_bytes", "Bytes of examples a job may hold."),
    limit_option("unfinished_jobs", "Jobs of a tenant that may wait or run at once."),
    limit_option("held_bytes", "Bytes of examples that those jobs may hold together."),
    limit_option("past_jobs", "Jobs of a tenant that are remembered after they ended."),
)

client_ca_option: Final = click.option(
    "--client-ca",
    type=_file,
    help="PEM file of authorities: every client must show a certificate that one of them signed. A "
    "token then belongs to the first name that it comes with.",
)
"""The option that asks clients for certificates.

Only for a process that clients reach directly: a balancer that ends TLS ends certificates too.
"""


def settings_from(given: dict[str, Any], **more: Any) -> Settings:
    """Return the settings from all options; ``more`` overrides them."""
    given = {**given, **more}
    for name in ("adapter_memory", "generation_memory"):
        if name in given:
            given[name] <<= 20
    limits = {f.name: given.pop(f"limit_{f.name}", f.default) for f in fields(ServerLimits)}
    parts = {
        name: given.pop(f"upstream_{name}", None)
        for name in ("model", "key_file", "adapters", "plaintext")
    }
    url = given.pop("upstream", "")
    upstream = UpstreamSettings(url, **parts) if url else None
    return Settings(**given, upstream=upstream, limits=ServerLimits(**limits))


@click.command("serve", cls=Command)
@address_options
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
    type=threads,
    default=os.cpu_count() or 1,
    show_default="all cores",
    help="CPU threads for training.",
)
@model_options
@limit_option("training_seconds", "Seconds a job may train; it fails after that.")
@job_limits
@client_ca_option
def serve(no_trainer: bool, as_json: bool, **given: Any) -> None:
    """Serve bundles, training, predictions and texts until SIGTERM or Ctrl-C.

    A worker process beside the server trains the queued jobs, one at a time. After a
    crash or restart it continues unfinished jobs. Tenants take turns: the next job is
    from the tenant with the least training time in the last day. Limits hold for each
    tenant; `sotto-cloud limit` changes one tenant's. The server signs bundles that
    `build-bundle --key` has not signed, with signing.key of --state. Keep this file:
    devices refuse another key. Prints one line when ready, with the public key.
    """
    _run("serve", settings_from(given, trainer=not no_trainer), as_json=as_json)


def _run(role: str, settings: Settings, *, as_json: bool) -> None:
    """Run a process with models."""
    # Imported late, so that errors in most options appear without waiting for torch.
    from sottovoce.cloud.api import server

    telemetry.configure_logs(settings.log_format, role)
    if_interrupted(*STOPPED)
    with traced(role, settings.trace, plaintext=True):
        server.serve(settings, lambda running: tell(running, as_json=as_json), os.getpid())


def tell(running: Server, *, as_json: bool) -> None:
    """Report that the server answers calls, its address, and the key that signs its bundles."""
    keys = [show_key(signature.key) for signature in running.signatures.values()]
    if as_json:
        print_json(
            {
                "ready": True,
                "address": running.address,
                "pid": os.getpid(),
                "bundles": list(running.bundles),
                "keys": keys,
            }
        )
    else:
        signers = ", ".join(dict.fromkeys(keys))
        click.echo(f"serving on {running.address}, bundles signed by {signers}", err=True)


@click.command("replica", cls=Command)
@address_options
@model_options
@job_limits
def replica(as_json: bool, **given: Any) -> None:
    """Serve bundles, predictions, embeddings and texts until SIGTERM or Ctrl-C, beside others.

    Several replicas share one --store behind a balancer (`sotto-cloud balancer-config`). A
    replica keeps only adapters, in memory, so replicas may come and go. For customisation, it
    checks whether a job can be trained, and sends adapters to devices. `sotto-cloud front`
    answers the other calls.
    """
    _run("replica", settings_from(given, trainer=False, jobs=False), as_json=as_json)


@click.command("front", cls=Command)
@address_options
@job_limits
def front(as_json: bool, **given: Any) -> None:
    """Take uploads and answer for jobs until SIGTERM or Ctrl-C, beside replicas and trainers.

    A front has no model and starts in a moment. It shares --store with replicas and trainers
    behind a balancer (`sotto-cloud balancer-config`). The balancer sends calls that need a
    model to replicas. Give a front the replicas' bundles. Several fronts may run.
    """
    settings = settings_from(given, trainer=False)
    # Imported late, like the server.
    from sottovoce.cloud.api import front

    telemetry.configure_logs(settings.log_format, "front")
    if_interrupted(*STOPPED)

    def ready(running: Front) -> None:
        if as_json:
            print_json({"ready": True, "address": running.address, "pid": os.getpid()})
        else:
            click.echo(f"answering for jobs on {running.address}", err=True)

    with traced("front", settings.trace, plaintext=True):
        front.serve(settings, ready)


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
@click.option("--parent", type=int, hidden=True)
@click.option("--owner", default="", hidden=True)
def trainer_command(
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
    parent: int | None,
    owner: str,
    as_json: bool,
) -> None:
    """Train queued jobs until SIGTERM or Ctrl-C, one at a time; one process for each GPU.

    A trainer shares --state, or --store and --objects, with servers and other trainers.
    Trainers may come and go: ten seconds after a trainer has died, another continues its job.
    Use the servers' --backbone and --decoder. With --ray, all paths are paths on the
    cluster's machines.
    """
    # A server starts its worker by this command, with --parent and --owner.
    telemetry.configure_logs(log_format, "trainer", "worker: " if parent else "")
    if_interrupted(*STOPPED)
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
    from sottovoce.cloud.training.worker import Worker, work
    from sottovoce.core.bundle.backbone import resolve

    for model in filter(None, (backbone, decoder)):
        resolve(model)  # a wrong name would otherwise fail every job
    limits = ServerLimits(training_seconds=limit_training_seconds)
    worker = Worker(
        state,
        backbone,
        parent,
        limits,
        owner,
        decoder=decoder,
        store=store,
        objects=objects,
        key_file=key_file,
        threads=threads,
    )

    with traced("trainer", trace, plaintext=True):
        on_ready = None if parent else partial(_ready, state, as_json)
        if work(worker, metrics, on_ready) and not parent:
            raise KeyboardInterrupt


def _ready(state: Path, as_json: bool, trainers: int = 0) -> None:
    if as_json:
        told = {"ready": True, "pid": os.getpid()}
        print_json(told | {"trainers": trainers} if trainers else told)
    else:
        where = f", by {trainers} trainers on Ray" if trainers else ""
        click.echo(f"training the jobs of {state}{where}", err=True)
