"""``sotto-models count-words``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud.cli.options import folder, watch_stages
from sottovoce.core.platform.console import Command, json_option, print_json


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
    "--spacy", default="", metavar="PIPELINE", help="Tag them with this spaCy pipeline instead."
)
@click.option(
    "--language",
    default="en",
    show_default=True,
    help='Whose words they are: "en", or a JSON file that describes the language.',
)
@click.option(
    "--out",
    type=folder,
    default=Path("models/frequencies"),
    show_default=True,
    help="Folder to write.",
)
@json_option
def command(data: Path, tagger: Path, spacy: str, language: str, out: Path, as_json: bool) -> None:
    """Count words by part of speech in public text, for calibration and the attacks.

    The text is that of the shipped table, if --data holds it, or else every
    treebank (*.conllu) and text (*.txt, a paragraph a line) there, gzip or not.
    """
    from sottovoce.core.text.tagger import OnnxTagger, SpacyTagger
    from sottovoce.models.corpus.frequencies import count_words
    from sottovoce.models.corpus.language import load

    described = load(language)
    chosen = SpacyTagger(spacy) if spacy else OnnxTagger.load(tagger)
    with watch_stages(enabled=not as_json) as show:
        table = count_words(data, out, chosen, described, show)
    entries, words = len(table.words), int(table.counts.sum())
    if as_json:
        print_json({"path": str(out), "entries": entries, "words": words})
    else:
        click.echo(f"{entries:,} entries from {words:,} words, at {out}")
