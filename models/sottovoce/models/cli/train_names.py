"""``sotto-models train-names``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click

from sottovoce.cloud.cli.options import folder, watch_stages
from sottovoce.core.platform.console import Command, json_option, print_json


@click.command("train-names", cls=Command)
@click.option(
    "--data", type=folder, required=True, help="Folder with ud_ewt, pos_masc, uner_ewt and wnut17."
)
@click.option(
    "--models",
    type=folder,
    default=Path("models"),
    show_default=True,
    help="Folder with the tagger, the word frequencies and the facts.",
)
@click.option(
    "--backbone",
    default="default",
    show_default=True,
    help="Model whose word list the devices will have.",
)
@click.option(
    "--out",
    type=folder,
    default=Path("models/names"),
    show_default=True,
    help="Folder to write.",
)
@click.option(
    "--neighbours",
    type=click.Choice(["looks", "words"]),
    default="looks",
    show_default=True,
    help='What the network sees of other words. "words" is for comparison: nothing is written.',
)
@json_option
def command(
    data: Path,
    models: Path,
    backbone: str,
    out: Path,
    neighbours: Literal["looks", "words"],
    as_json: bool,
) -> None:
    """Train the name finder that ships in every bundle.

    Sentences of our own are filled with the lists of names of Faker
    (pip install faker), which nothing else needs.
    """
    from sottovoce.cloud.models import backbone as backbones
    from sottovoce.core.text.tagger import OnnxTagger
    from sottovoce.models.corpus import frequencies
    from sottovoce.models.names.mentions import fakers_lists
    from sottovoce.models.names.network import Size
    from sottovoce.models.names.training import Listed, NamesHyperparameters, train_names
    from sottovoce.models.vocabulary import readings, vocabulary

    lists = fakers_lists()
    with watch_stages(enabled=not as_json) as show:
        show("words", 0, 1)
        table = frequencies.load(models / "frequencies")
        tokenizer = backbones.load(backbone).tokenizer
        words = vocabulary.make(tokenizer, table)
        found = readings.readings(
            words,
            OnnxTagger.load(models / "tagger"),
            table.language.carriers,
            readings.load_facts(models / "facts"),
        )
        show("words", 1, 1)
        # Of a word that is there twice the first counts, as on the device.
        by_word = dict(zip(reversed(words.words), found[::-1].tolist(), strict=True))
        recipe = NamesHyperparameters(size=Size(neighbours=neighbours))
        listed = Listed(by_word, vocabulary.normal_form(tokenizer))
        measured = train_names(data, out, listed, lists, recipe=recipe, progress=show)
    if as_json:
        print_json({"path": str(out), **asdict(measured)})
    else:
        where = f"name finder at {out}" if neighbours == "looks" else "nothing written"
        click.echo(
            f"{where}: of {measured.words:,} kept words, finds {measured.found:.3f} of those in"
            f" names that the list takes for ordinary words, and takes {measured.overdrawn:.4f} of"
            " those that name nothing for names"
        )
