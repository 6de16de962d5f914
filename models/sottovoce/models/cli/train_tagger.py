"""``sotto-models train-tagger``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sottovoce.cloud.cli.options import folder, watch_stages
from sottovoce.core.platform.console import Command, json_option, print_json


@click.command("train-tagger", cls=Command)
@click.option("--data", type=folder, required=True, help="Folder with ud_ewt and pos_masc.")
@click.option(
    "--out",
    type=folder,
    default=Path("models/tagger"),
    show_default=True,
    help="Folder to write.",
)
@json_option
def command(data: Path, out: Path, as_json: bool) -> None:
    """Train the part-of-speech tagger that ships in every bundle."""
    from sottovoce.models.tagger.training import train_tagger

    with watch_stages(enabled=not as_json) as show:
        measured = train_tagger(data, out, progress=show)
    if as_json:
        print_json({"path": str(out), **asdict(measured)})
    else:
        click.echo(f"tagger at {out}: {measured.accuracy:.4f} of {measured.words:,} test words")
