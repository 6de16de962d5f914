"""``sotto licences``."""

from __future__ import annotations

from pathlib import PurePosixPath

import click

from sottovoce.core.bundle.folder import CARDS, Bundle
from sottovoce.core.platform.console import Command, json_option, plain, print_json
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.tasks.bundle import open_current

__all__ = ["command"]

_OURS = "Apache-2.0"


@click.command("licences", cls=Command)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Say under which licences the program and the models of the bundle are, and whose texts they
    learnt."""
    bundle = open_current(load_config(ctx).bundle)
    cards = _cards(bundle)
    if as_json:
        print_json({"program": _OURS, "bundle_id": bundle.id, "cards": cards})
        return
    click.echo(f"program: {_OURS}\nbundle {bundle.id}:\n")
    for card in cards.values():
        click.echo(plain(card))
    if not cards:
        click.echo("it brings no cards of its models: it is of an earlier version; ask who made it")


def _cards(bundle: Bundle) -> dict[str, str]:
    """Return the model cards of the bundle's parts that have one."""
    files = map(PurePosixPath, sorted(bundle.manifest.files))
    return {
        path.stem: (bundle.folder / path).read_text(encoding="utf-8", errors="replace")
        for path in files
        if path.parent == PurePosixPath(CARDS)
    }
