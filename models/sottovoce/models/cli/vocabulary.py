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
@click.option("--scowl", type=folder, help="Collect anew: folder of Debian's scowl.")
@click.option("--names", type=folder, help="Collect anew: folder of the census lists.")
@click.option("--iso", type=folder, help="Collect anew: folder of Debian's iso-codes.")
@click.option(
    "--functions",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Collect anew: file of the package stopwordsiso.",
)
@click.option("--forms", type=folder, help="Collect anew: tables of spacy-lookups-data.")
@json_option
def command(
    lists: Path,
    out: Path,
    scowl: Path | None,
    names: Path | None,
    iso: Path | None,
    functions: Path | None,
    forms: Path | None,
    as_json: bool,
) -> None:
    """Build the public vocabulary that ships with the device.

    Without the five sources, the lists in the repository are used.
    """
    from sottovoce.core.text.vocabulary import pack
    from sottovoce.models.public_words import build, collect

    if scowl and names and iso and functions and forms:
        counts = collect(scowl, names, iso, functions, forms, lists)
        if not as_json:
            click.echo("".join(f"{name}: {n:,} words\n" for name, n in counts.items()), nl=False)
    elif scowl or names or iso or functions or forms:
        raise InvalidInput(
            "not all sources are given",
            fix="give --scowl, --names, --iso, --functions and --forms, or none of them",
            subject="sources",
        )
    words = build(lists)
    data = pack(words)
    with in_place_of(out) as aside:  # a running agent maps the old file
        aside.write_bytes(data)
    if as_json:
        print_json({"path": str(out), "entries": len(words), "bytes": len(data)})
    else:
        click.echo(f"{len(words):,} entries in {len(data):,} bytes, at {out}")
