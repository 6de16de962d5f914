"""``sotto-models device-counts``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud.cli.options import folder
from sottovoce.core.system.console import Command, json_option, print_json


@click.command("device-counts", cls=Command)
@click.option(
    "--models",
    type=folder,
    default=Path("models"),
    show_default=True,
    help="Folder with the word frequencies and the lists of facts.",
)
@click.option(
    "--out",
    type=folder,
    default=Path("core/sottovoce/core/text"),
    show_default=True,
    help="Folder of the device's sources to write to.",
)
@json_option
def command(models: Path, out: Path, as_json: bool) -> None:
    """Cut the word counts down to the table that ships with the device.

    Devices measure with it what a bundle's levels protect, whatever the bundle
    says.
    """
    from sottovoce.models.corpus import frequencies
    from sottovoce.models.corpus.device_counts import cut
    from sottovoce.models.vocabulary.readings import KINDS, load_facts

    listed = {word: KINDS[kind] for word, kind in load_facts(models / "facts").items()}
    counts = cut(frequencies.load(models / "frequencies"), listed)
    file = out / f"counts.{counts.language}.tsv.gz"
    data = counts.pack()
    file.write_bytes(data)
    if as_json:
        print_json({"path": str(file), "entries": len(counts.words), "bytes": len(data)})
    else:
        click.echo(f"{len(counts.words):,} entries in {len(data):,} bytes, at {file}")
