"""``sotto-cloud count-words``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud.cli.options import folder, watch_stages
from sottovoce.edge.cli.common import Command, json_option, print_json


@click.command("count-words", cls=Command)
@click.option("--data", type=folder, required=True, help="Folder with the public texts.")
@click.option(
    "--tagger",
    type=folder,
    default=Path("models/tagger"),
    show_default=True,
    help="Folder of the tagger for texts without tags.",
)
@click.option(
    "--out",
    type=folder,
    default=Path("models/frequencies"),
    show_default=True,
    help="Folder to write.",
)
@json_option
def command(data: Path, tagger: Path, out: Path, as_json: bool) -> None:
    """Count words by part of speech in public text, for calibration and the attacks."""
    from sottovoce.cloud.frequencies import count_words
    from sottovoce.edge.tagger import OnnxTagger

    with watch_stages(enabled=not as_json) as show:
        table = count_words(data, out, OnnxTagger.load(tagger), show)
    entries, words = len(table.words), int(table.counts.sum())
    if as_json:
        print_json({"path": str(out), "entries": entries, "words": words})
    else:
        click.echo(f"{entries:,} entries from {words:,} words, at {out}")
