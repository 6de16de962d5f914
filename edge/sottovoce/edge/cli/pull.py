"""``sotto pull``."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path

import click

from sottovoce.core.bundle.signature import read_key, show_key
from sottovoce.core.platform.console import (
    Command,
    if_interrupted,
    json_option,
    print_json,
    progress_bar,
)
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.cli.owner_check import not_as_root
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.pull import pull
from sottovoce.edge.state.adapters import ADAPTERS, any_held

__all__ = ["command"]


@click.command("pull", cls=Command)
@click.argument("address", metavar="[HOST[:PORT]]", required=False)
@click.option("--bundle", "wanted", default="", help="Bundle id.  [default: the cloud's own]")
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path),
    help="Certificate authority of the cloud.  [default: configured, else the public ones]",
)
@click.option(
    "--key",
    default="",
    help="The provider's public key, ed25519:..., to note in place of the one noted before.",
)
@click.option(
    "--encoder",
    is_flag=True,
    help="Also fetch the backbone as devices run it, for `sotto predict --where device`.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    address: str | None,
    wanted: str,
    ca_file: Path | None,
    key: str,
    encoder: bool,
    as_json: bool,
) -> None:
    """Fetch the bundle from a cloud, or update it.

    An interrupted pull goes on where it stopped. Every file is checked against the manifest before
    the bundle is used; a running agent takes the new one up by itself. The key that signed it is
    noted at the first pull, and another one is refused after that. Needs no account. The cloud is
    the configured one unless HOST is given; the port is 8471 unless given. A device that has the
    encoder is given the new bundle's too.
    """
    expected = read_key(key) if key else None
    config = load_config(ctx)
    not_as_root(config)
    cloud_config = dataclasses.replace(
        config.cloud,
        address=address or config.cloud.address,
        ca_file=ca_file or config.cloud.ca_file,
    )
    if_interrupted(
        "what has arrived is kept, and the bundle in use is as before",
        "run `sotto pull` again to go on",
    )
    with closing(Cloud(cloud_config)) as cloud, progress_bar() as bar:
        task = bar.add_task("pulling", total=None, note="")

        def progress(name: str, done: int, total: int) -> None:
            bar.update(task, completed=done >> 10, total=total >> 10, note=f"KiB  {name}")

        pulled = pull(
            cloud, config.bundle, wanted=wanted, encoder=encoder, key=expected, progress=progress
        )
    if not pulled.encoder and any_held(config.agent.state / ADAPTERS):
        click.echo(
            "the adapters on this device cannot answer without the bundle's encoder: fetch it with "
            "`sotto pull --encoder`, or have the cloud answer with --where cloud",
            err=True,
        )
    if as_json:
        print_json(
            {
                "bundle_id": pulled.id,
                "folder": str(pulled.folder),
                "bytes": pulled.bytes,
                "key": show_key(pulled.key),
                "up_to_date": pulled.up_to_date,
                "encoder": pulled.encoder,
            }
        )
    elif pulled.up_to_date:
        click.echo(f"bundle {pulled.id} is up to date")
    else:
        size = f"{pulled.bytes / 1e6:.1f} MB"
        click.echo(f"bundle {pulled.id} is in place ({size}), signed by {show_key(pulled.key)}")
