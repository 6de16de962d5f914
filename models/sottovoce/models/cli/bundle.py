"""Commands that build what devices fetch: the bundle, the encoder, word counts and word lists."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sottovoce.cloud.cli.options import folder, folder_option, watch_stages
from sottovoce.cloud.store.keys import signing_key
from sottovoce.core.bundle.manifest import bundle_id
from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import Command, if_interrupted, json_option, print_json
from sottovoce.core.platform.files import in_place_of

if TYPE_CHECKING:
    from sottovoce.models.encoder import Exporter
    from sottovoce.models.indexes import Choice

_exporter_option = click.option(
    "--exporter",
    type=click.Choice(["built-in", "optimum"]),
    default="built-in",
    show_default=True,
    help="Writer of the encoder's graph. built-in knows encoders like BERT and takes every kind of"
    " adapter. optimum knows other encoders (DistilBERT, RoBERTa, XLM-R, ModernBERT), whose"
    " adapters cannot have prefixes. It needs the extra `export`.",
)


@click.command("build-bundle", cls=Command)
@folder_option("--out", "bundle", "Folder to write.")
@click.option(
    "--backbone",
    default="default",
    show_default=True,
    help="Model whose embeddings make the privacy space: a folder or a Hugging Face name.",
)
@folder_option("--models", "models", "Folder with the tagger and the word frequencies.")
@click.option(
    "--spacy",
    default="",
    metavar="PIPELINE",
    help="Tag with this spaCy pipeline instead. Devices must be set to the same pipeline.",
)
@click.option(
    "--dimensions",
    type=click.IntRange(2, 1024),
    default=16,
    show_default=True,
    help="Width of the privacy space.",
)
@click.option(
    "--index",
    type=click.Choice(["auto", "exact", "hnsw"]),
    default="auto",
    show_default=True,
    help="Search of words: auto measures the best one on this machine, exact compares with every"
    " word, hnsw takes a graph if it finds enough. Graphs need the extra `graph`. Without it, auto"
    " tries none.",
)
@click.option(
    "--words",
    type=click.IntRange(1_000, 200_000),
    help="Free words to list: the backbone's whole tokens first, then words of several tokens,"
    " commonest first.  [default: all whole tokens]",
)
@click.option(
    "--encoder",
    is_flag=True,
    help="Also write the backbone as devices run it, for on-device inference. Fetching it is"
    " optional for devices.",
)
@_exporter_option
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Sign the bundle with this private key (PEM, Ed25519). A missing key is created."
    "  [default: sotto-cloud serve signs]",
)
@json_option
def build_bundle(
    out: Path,
    backbone: str,
    models: Path,
    spacy: str,
    dimensions: int,
    index: Choice,
    words: int | None,
    encoder: bool,
    exporter: Exporter,
    key: Path | None,
    as_json: bool,
) -> None:
    """Build the bundle that devices fetch: privacy space, indexes, calibration, tagger.

    The same inputs give the same bytes. The command replaces a bundle at
    --out once the new one is complete.
    """
    from sottovoce.models.bundle import build

    started = time.monotonic()
    if_interrupted(
        f"no bundle was written to {out}; one that was there stays", "run the command again"
    )
    with watch_stages(enabled=not as_json) as show:
        manifest = build(
            out,
            backbone=backbone,
            models=models,
            spacy=spacy,
            dimensions=dimensions,
            index=index,
            words=words,
            encoder=encoder,
            exporter=exporter,
            sign=signing_key(key) if key else None,
            progress=show,
        )
    identity, seconds = bundle_id(manifest.to_json()), time.monotonic() - started
    graphs_tried = index != "exact" and find_spec("hnswlib") is not None
    if as_json:
        print_json(
            {
                "bundle_id": identity,
                "path": str(out),
                "backbone": manifest.backbone.name,
                "words": manifest.words,
                "bytes": sum(stored.bytes for stored in manifest.files.values()),
                "encoder_bytes": sum(stored.bytes for stored in manifest.optional.values()),
                "graphs_tried": graphs_tried,
                "seconds": round(seconds, 1),
            }
        )
    else:
        click.echo(f"bundle {identity}, {manifest.words:,} words, at {out} ({seconds:.0f} s)")
        if index == "auto" and not graphs_tried:
            click.echo(
                "Every word class is searched word by word. Graphs were not tried: hnswlib is not "
                "installed. To try them: pip install 'sottovoce-models[graph]'"
            )


@click.command("export", cls=Command)
@click.option(
    "--backbone",
    default="default",
    show_default=True,
    help="Encoder to export: a folder or a Hugging Face name.",
)
@_exporter_option
@folder_option("--out", "build/encoder", "Folder to write.")
@json_option
def export(backbone: str, exporter: Exporter, out: Path, as_json: bool) -> None:
    """Export a backbone as devices run it, and compare it with torch.

    Writes the graph, the token table and their description. Devices fetch an
    encoder as part of a bundle: see `build-bundle --encoder`.
    """
    from sottovoce.cloud.models import backbone as backbones
    from sottovoce.core.local.encoder import DESCRIPTION
    from sottovoce.models import encoder
    from sottovoce.models.bundle import replacing

    loaded = backbones.load(backbone)
    with replacing(out, DESCRIPTION) as made:
        agreement = encoder.write(loaded, made, exporter)
        size = sum(file.stat().st_size for file in made.iterdir())
    if as_json:
        print_json(
            {
                "path": str(out),
                "backbone": loaded.name,
                "exporter": exporter,
                "bytes": size,
                "max_difference": agreement.difference,
                "cosine": agreement.cosine,
            }
        )
    else:
        click.echo(f"encoder of {loaded.name} at {out}, {size / 1e6:.1f} MB")
        click.echo(
            f"compared with torch: max difference {agreement.difference:.1e} before rounding to"
            f" bytes, mean cosine {agreement.cosine:.4f} after"
        )


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
@json_option
def vocabulary(lists: Path, out: Path, sources: Path | None, as_json: bool) -> None:
    """Build the public vocabulary that ships with the device.

    Without --sources, the lists in the repository are used. The names of the
    sources are scowl, names, iso, functions, forms, debian, wordnet, registries
    and faker. The README of the lists says what each is.
    """
    from sottovoce.core.text.vocabulary import pack
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
    words = build(lists)
    data = pack(words)
    with in_place_of(out) as aside:  # a running agent maps the old file
        aside.write_bytes(data)
    if as_json:
        print_json({"path": str(out), "entries": len(words), "bytes": len(data)})
    else:
        click.echo(f"{len(words):,} entries in {len(data):,} bytes, at {out}")
