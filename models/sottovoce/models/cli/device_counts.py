"""``sotto-models device-counts``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud.cli.options import folder
from sottovoce.core.platform.console import Command, json_option, print_json


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
    """Make the word lists that ship with the device.

    Devices measure with the counts what a bundle's levels protect, and hold
    with the readings what a bundle says of each word.
    """
    from sottovoce.cloud.models import backbone
    from sottovoce.core.text.tagger import OnnxTagger
    from sottovoce.models.corpus import frequencies
    from sottovoce.models.corpus.device_counts import cut
    from sottovoce.models.vocabulary.readings import KINDS, load_facts, public_readings
    from sottovoce.models.vocabulary.vocabulary import make

    facts = load_facts(models / "facts")
    table = frequencies.load(models / "frequencies")
    counts = cut(table, {word: KINDS[kind] for word, kind in facts.items()})
    listed = make(backbone.load().tokenizer, table).words
    readings = public_readings(table, listed, OnnxTagger.load(models / "tagger"), facts)
    counted, read = len(counts.words), sum(len(each.split()) for each in readings.words.values())
    made = []
    for name, entries, data in (
        ("counts", counted, counts.pack()),
        ("readings", read, readings.pack()),
    ):
        file = out / f"{name}.{table.language.code}.tsv.gz"
        file.write_bytes(data)
        made.append({"path": str(file), "entries": entries, "bytes": len(data)})
        if not as_json:
            click.echo(f"{entries:,} entries in {len(data):,} bytes, at {file}")
    if as_json:
        print_json({"files": made})
