"""``sotto-models vocabulary``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud.cli.options import folder
from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.core.platform.files import in_place_of


@click.command("vocabulary", cls=Command)
@click.option(
    "--lists",
    type=folder,
    default=Path("models/vocabulary"),
    show_default=True,
    help="Folder with the lists of words.",
)
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
def command(lists: Path, out: Path, sources: Path | None, as_json: bool) -> None:
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
