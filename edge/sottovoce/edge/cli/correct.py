"""``sotto correct``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from sottovoce.core.errors import InvalidInput, SottovoceError
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.client import backend
from sottovoce.edge.cli.common import load_config, numbered
from sottovoce.edge.cli.lines import read_lines
from sottovoce.edge.cli.tables import read_table
from sottovoce.v1 import edge_adapters_pb2 as adapters

__all__ = ["command"]

_LARGEST = 2 << 20
"""Bytes of a message; the agent takes a message whole or not at all."""


@click.command("correct", cls=Command)
@click.argument("name")
@click.argument("text", required=False)
@click.argument("label", required=False)
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    help="Table: a header with the columns text and label, then one correction a line, "
    "tab-separated.  [default: TEXT and LABEL, else stdin]",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    text: str | None,
    label: str | None,
    source: Path | None,
    as_json: bool,
) -> None:
    """Keep on this device that TEXT should have been answered with LABEL by the adapter NAME.

    Nothing leaves: it waits, sealed, until `sotto customize NAME --add --corrections` releases it.
    A text that was corrected before gets the new label. A TEXT of "-" takes one text a line from
    stdin, all of LABEL. Prefer a file or stdin to TEXT: other users of the machine can see a
    command's arguments while it runs.
    """
    config = load_config(ctx)
    kept, waiting = 0, 0
    corrections = [*_read(text, label, source)]
    with backend(config) as device:
        for part in _parts(corrections):
            request = adapters.KeepCorrectionsRequest(adapter=name, corrections=part)
            try:
                waiting = device.keep_corrections(request)
            except SottovoceError as error:
                raise (numbered(error, f"after {kept} that are kept") if kept else error) from error
            kept += len(part)
    if as_json:
        print_json({"adapter": name, "kept": kept, "waiting": waiting})
    else:
        teach = f"`sotto customize {name} --add --corrections` teaches them"
        click.echo(f"kept; {waiting:,} correction{'s' * (waiting != 1)} of {name} wait: {teach}")


def _read(
    text: str | None, label: str | None, source: Path | None
) -> Iterator[adapters.Correction]:
    if text is None:
        for row in read_table(source):
            yield adapters.Correction(text=row.text, label=row.label)
        return
    if source is not None:
        raise InvalidInput("both TEXT and --input are given", fix="give one", subject="text")
    if label is None:
        raise InvalidInput(
            "a text without its label",
            fix="give TEXT and LABEL, or a table (--input)",
            subject="label",
        )
    if text != "-":
        yield adapters.Correction(text=text, label=label)
        return
    for line in read_lines(None, "reading"):
        if line.text.strip():
            yield adapters.Correction(text=line.text.rstrip("\r"), label=label)


def _parts(corrections: list[adapters.Correction]) -> Iterator[list[adapters.Correction]]:
    """Split corrections into messages of at most `_LARGEST` bytes, if possible one."""
    part: list[adapters.Correction] = []
    size = 0
    for each in corrections:
        if part and size + each.ByteSize() > _LARGEST:
            yield part
            part, size = [], 0
        part.append(each)
        size += each.ByteSize()
    yield part
