"""``sotto corrections``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from sottovoce.core.errors import InvalidInput, NotFound, SottovoceError
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.client import Client, reach
from sottovoce.edge.cli.common import load_config, numbered, read_lines, read_table
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["correct_command", "corrections_command"]


@click.command("corrections", cls=Command)
@click.argument("name")
@click.option(
    "--show", is_flag=True, help="Print those that wait, as a table that `--input` takes."
)
@click.option("--forget", is_flag=True, help="Forget all of them; cannot be undone.")
@click.option("--text", default="", help="With --forget: only what was said of this text.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; needed where nobody can be asked.")
@json_option
@click.pass_context
def corrections_command(
    ctx: click.Context, name: str, show: bool, forget: bool, text: str, yes: bool, as_json: bool
) -> None:
    """Say how many corrections of the adapter NAME wait on this device, show or forget them.

    What `sotto customize` has taken is forgotten here when it was learnt, and waits again if the
    training fails or is cancelled.
    """
    if (text and not forget) or (show and forget):
        raise InvalidInput(
            "--text without --forget" if text else "--show together with --forget",
            fix="give --forget alone, or with --text",
            subject="forget",
        )
    if forget and not (yes or text):
        if not sys.stdin.isatty():
            raise InvalidInput("forgetting must be confirmed", fix="add --yes", subject="yes")
        click.confirm(f"Forget all corrections of {name}?", abort=True, err=True)
    with reach(load_config(ctx)) as client:
        if forget:
            request = adapters.ForgetCorrectionsRequest(adapter=name, text=text)
            forgotten = client.adapters.ForgetCorrections(request).forgotten
            if as_json:
                print_json({"adapter": name, "forgotten": forgotten})
            else:
                click.echo(f"forgot {forgotten:,} of {name}")
            return
        waiting, taken = _count(client, name)
        listed = adapters.ListCorrectionsRequest(adapter=name)
        kept = client.adapters.ListCorrections(listed) if show else ()
        shown = [response.correction for response in kept]
    if as_json:
        told: dict[str, object] = {"adapter": name, "waiting": waiting, "taken": taken}
        if show:
            told["corrections"] = [{"text": each.text, "label": each.label} for each in shown]
        print_json(told)
    elif show:
        click.echo("text\tlabel")
        for each in shown:  # tabs and line breaks would break the table
            click.echo(re.sub(r"[\t\r\n]+", " ", each.text) + f"\t{each.label}")
    else:
        click.echo(f"{waiting:,} of {name} wait, {taken:,} in training")


def _count(client: Client, name: str) -> tuple[int, int]:
    """Return how many corrections wait, and how many are in training."""
    status = client.agent.GetStatus(agent.GetStatusRequest())
    if all(record.adapter != name for record in status.customizations):
        raise NotFound(f"no adapter {name!r} on this device", fix="see `sotto list`", subject=name)
    for each in status.corrections:
        if each.adapter == name:
            return each.waiting, each.taken
    return 0, 0


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
def correct_command(
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
    with reach(config) as client:
        for part in _parts(corrections):
            request = adapters.KeepCorrectionsRequest(adapter=name, corrections=part)
            try:
                waiting = client.adapters.KeepCorrections(request).waiting
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
