"""``sotto-models train-context-finder``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from sottovoce.cloud.cli.options import folder, watch_stages
from sottovoce.core.platform.console import Command, json_option, print_json

_SHIPPED: Final = Path("core/sottovoce/core/text")
_PINS: Final = Path("core/sottovoce/core/local/full_finder.json")


@click.command("train-context-finder", cls=Command)
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
    help="Model whose knowledge of single words the finder learns first.",
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
    help="A list of ordinary words, for sentences of our own that name nobody. With"
    " --evaluate, words in no list count as hidden.",
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
    help="Only train the last round, from the finder in --out. With --full, go on from the adapter"
    " that ships, for one more round.",
)
@json_option
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
    """Train the finder of names that reads the sentence, or measure it.

    It ships with every device. Names for sentences of our own come from Faker
    (pip install faker), which nothing else needs.
    """
    listed = _read(words)
    if evaluate:
        _measure(data, out, listed, as_json=as_json)
        return
    from sottovoce.cloud.models import backbone as backbones
    from sottovoce.models.context_finder.training import train_context_finder
    from sottovoce.models.names.data import fakers_lists, fakers_words

    loaded, lists, foreign = backbones.load(backbone), fakers_lists(), fakers_words()
    rare = sorted(word for word in listed or () if word.isalpha())
    with watch_stages(enabled=not as_json) as show:
        if full:
            import torch

            from sottovoce.models.context_finder.full import (
                ADAPTER,
                FURTHER,
                train_full_finder,
            )
            from sottovoce.models.context_finder.full_export import pin

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
            out, size = ADAPTER, pin(loaded, ADAPTER, _PINS)
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
