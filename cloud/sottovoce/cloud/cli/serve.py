"""``sotto-cloud serve``."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sottovoce.cloud.cli.options import (
    backbone_option,
    decoder_option,
    folder,
    limit_option,
    objects_option,
    state_option,
    store_option,
)
from sottovoce.cloud.config import DEFAULT_LISTEN, Limits, Settings, UpstreamSettings
from sottovoce.core.bundle.signature import show_key
from sottovoce.core.system.console import Command, json_option, print_json

if TYPE_CHECKING:
    from sottovoce.cloud.server.server import Server

_file = click.Path(dir_okay=False, exists=True, path_type=Path)
_threads = click.IntRange(min=1)


@click.command("serve", cls=Command)
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    show_default=True,
    help="HOST:PORT, or unix:PATH; port 0 takes a free one.",
)
@state_option
@store_option
@objects_option
@click.option(
    "--bundle",
    "bundles",
    type=folder,
    multiple=True,
    required=True,
    help="Bundle folder to serve; may be given again. The first is the default.",
)
@click.option(
    "--no-trainer",
    is_flag=True,
    help="Start no worker; `sotto-cloud trainer` trains, with the same --store and --objects.",
)
@backbone_option
@decoder_option
@click.option(
    "--generation-memory",
    type=click.IntRange(min=1),
    default=2048,
    show_default=True,
    metavar="MIB",
    help="Memory for what texts that the decoder is writing remember.",
)
@click.option(
    "--upstream",
    default="",
    metavar="URL",
    help="Have a server write that speaks OpenAI's protocol (vLLM, llama-server, ollama), say "
    "http://127.0.0.1:8000/v1, in place of a decoder.",
)
@click.option("--upstream-key-file", type=_file, help="Key for it, on one line.")
@click.option("--upstream-model", default="", metavar="MODEL", help="What it calls its model.")
@click.option(
    "--upstream-adapter",
    "upstream_adapters",
    multiple=True,
    metavar="TENANT/ADAPTER=MODEL",
    help="What it calls a tenant's adapter; may be given again.",
)
@click.option(
    "--upstream-plaintext",
    is_flag=True,
    help="Allow http:// to a server on another machine, on a network of your own.",
)
@click.option(
    "--hand-out-adapters",
    multiple=True,
    metavar="TENANT",
    help="Let this tenant's devices fetch its adapters and answer themselves; ALL for every tenant;"
    " may be given again.",
)
@click.option("--tls-cert", type=_file, help="PEM certificate chain.")
@click.option("--tls-key", type=_file, help="PEM private key.")
@click.option(
    "--insecure-plaintext",
    is_flag=True,
    help="Allow plaintext on an address others can reach; for use behind a proxy that ends TLS.",
)
@click.option(
    "--threads",
    type=_threads,
    default=max(1, (os.cpu_count() or 2) // 2),
    show_default="half the cores",
    help="CPU threads for predictions.",
)
@click.option(
    "--training-threads",
    type=_threads,
    default=os.cpu_count() or 1,
    show_default="all cores",
    help="CPU threads for training.",
)
@click.option(
    "--adapter-memory",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    metavar="MIB",
    help="Memory for adapters; beyond it the least recently used are read again when asked for.",
)
@click.option(
    "--precision",
    type=click.Choice(["auto", "float32", "bfloat16"]),
    default="auto",
    show_default=True,
    help="Of predictions; auto is bfloat16 on a GPU, else float32. bfloat16 is two to three times "
    "as fast on CPUs with AVX512-BF16 or AMX.",
)
@click.option(
    "--metrics",
    default="",
    metavar="HOST:PORT",
    help="Serve Prometheus metrics there, in plaintext; off by default.",
)
@limit_option("examples", "Examples a job may hold.")
@limit_option("upload_bytes", "Bytes of examples a job may hold.")
@limit_option("training_seconds", "Seconds a job may train; it fails after that.")
@limit_option("unfinished_jobs", "Jobs of a tenant that may wait or run at once.")
@limit_option("held_bytes", "Bytes of examples that those jobs may hold together.")
@limit_option("past_jobs", "Jobs of a tenant that are remembered after they ended.")
@json_option
def command(
    listen: str,
    state: Path,
    store: str,
    objects: str,
    bundles: tuple[Path, ...],
    no_trainer: bool,
    backbone: str,
    decoder: str,
    generation_memory: int,
    upstream: str,
    upstream_key_file: Path | None,
    upstream_model: str,
    upstream_adapters: tuple[str, ...],
    upstream_plaintext: bool,
    hand_out_adapters: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    insecure_plaintext: bool,
    threads: int,
    training_threads: int,
    adapter_memory: int,
    precision: str,
    metrics: str,
    limit_examples: int,
    limit_upload_bytes: int,
    limit_training_seconds: int,
    limit_unfinished_jobs: int,
    limit_held_bytes: int,
    limit_past_jobs: int,
    as_json: bool,
) -> None:
    """Serve bundles, training, predictions and texts until SIGTERM or Ctrl-C.

    A worker process beside the server trains the queued jobs, one at a time, and
    takes up what a crash or a restart left unfinished. Tenants take turns: next is
    the job of the one who had least of the trainer's time in the last day. Limits
    hold for each tenant; `sotto-cloud limit` changes them for one. Bundles that
    `build-bundle --key` has not signed are signed by a key of the state's own,
    signing.key: keep it, devices refuse another. Prints one line when ready, with
    the public key.
    """
    settings = Settings(
        state=state,
        store=store,
        objects=objects,
        trainer=not no_trainer,
        bundles=bundles,
        listen=listen,
        backbone=backbone,
        decoder=decoder,
        generation_memory=generation_memory << 20,
        upstream=UpstreamSettings(
            upstream,
            upstream_model,
            upstream_key_file,
            upstream_adapters,
            upstream_plaintext,
        )
        if upstream
        else None,
        hand_out_adapters=hand_out_adapters,
        tls_cert=tls_cert,
        tls_key=tls_key,
        insecure_plaintext=insecure_plaintext,
        threads=threads,
        training_threads=training_threads,
        adapter_memory=adapter_memory << 20,
        precision=precision,
        metrics=metrics,
        limits=Limits(
            examples=limit_examples,
            upload_bytes=limit_upload_bytes,
            training_seconds=limit_training_seconds,
            unfinished_jobs=limit_unfinished_jobs,
            held_bytes=limit_held_bytes,
            past_jobs=limit_past_jobs,
        ),
    )
    # Imported late: half the options can be wrong without waiting for torch.
    from sottovoce.cloud.server import server

    logging.basicConfig(level=logging.INFO, format="%(message)s")

    def ready(running: Server) -> None:
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

    server.serve(settings, ready, os.getpid())
