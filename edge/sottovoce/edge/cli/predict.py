"""``sotto predict``, ``embed``, ``correct`` and ``corrections``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import click
import numpy as np

from sottovoce.core.errors import InvalidInput, NotFound, SottovoceError
from sottovoce.core.platform.console import Command, print_json
from sottovoce.core.platform.files import atomic
from sottovoce.core.privacy.policies import LEVELS
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import Client, reach
from sottovoce.edge.cli.common import (
    PATH,
    Line,
    answered,
    at,
    either,
    load_config,
    numbered,
    privacy_options,
    read_lines,
    read_table,
    read_texts,
    say,
    text_argument,
)
from sottovoce.edge.tasks.local_inference import CONFIGURED, who_answers
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent


@click.command("predict", cls=Command)
@click.argument("adapter")
@text_argument
@click.option(
    "--where",
    type=click.Choice([*CONFIGURED]),
    help="device: answer here from the original text, and send nothing. cloud: answer there from"
    " the released text. auto: the device if it can.  [default: configured]",
)
@privacy_options
def predict_command(
    adapter: str,
    text: str | None,
    source: Path | None,
    where: str | None,
    privacy: agent.PrivacyOptions,
    as_json: bool,
) -> None:
    """Have ADAPTER classify TEXT, or one text a line.

    A device that fetched the adapter (`sotto fetch`) answers by itself: nothing is released, sent
    or charged. Otherwise each text is privatised first, by default as the adapter's examples were,
    and the cloud answers. Prefer --input or stdin to TEXT: other users of the machine can see a
    command's arguments while it runs.
    """
    config = load_config()
    asked = CONFIGURED[where] if where else agent.WHERE_UNSPECIFIED
    if config.predict.where == "device":  # in spite of the running agent's configuration
        asked = who_answers(asked, config.predict.where)
    with reach(config) as client:
        for number, line in enumerate(read_texts(text, source), 1):
            request = agent.PredictRequest(
                text=line.text, adapter=adapter, privacy=privacy, where=asked
            )
            with at(line):
                response = client.agent.Predict(request)
            say(views.prediction(response), f"{response.label}\t{response.scores[0].score:.3f}")
            answered(number)


CHUNK = 64
"""Lines of a file per stream. Standard input uses 1, so that an open pipe gets its answers at
once."""


@click.command("embed", cls=Command)
@text_argument
@click.option(
    "--output",
    "target",
    type=PATH,
    help="NumPy file, a float32 row for each text.  [default: numbers on stdout]",
)
@click.option(
    "--level",
    default="",
    help=f"Protection level: {either(LEVELS)}.  [default: configured]",
)
@click.option("--local", is_flag=True, help="Answer on this device; sends and charges nothing.")
def embed_command(
    text: str | None,
    source: Path | None,
    target: Path | None,
    level: str,
    local: bool,
    as_json: bool,
) -> None:
    """Turn TEXT, or one text a line, into sentence embeddings of length 1.

    The cloud sees token vectors with fresh noise, never words. Each query is charged, even for the
    same text. --output appears complete or not at all. Prefer --input or stdin to TEXT: other users
    of the machine can see a command's arguments while it runs.
    """
    lines = read_texts(text, source, "embedding")
    settings = agent.EmbedRequest(level=level, local=local)
    output = nullcontext(None) if target is None else atomic(target)
    with reach(load_config()) as client, output as file:
        rows, number = _Rows(file) if file is not None else None, 0
        for chunk in _chunks(lines, CHUNK if source is not None else 1):
            for response in _embedded(client, chunk, settings):
                if rows is not None:
                    rows.write(response.embedding)
                elif as_json:
                    print_json(views.embedding(response))
                else:
                    click.echo(" ".join(f"{value:.6g}" for value in response.embedding))
                number += 1
                answered(number, target)
        if rows is not None:
            rows.end()
    if rows is not None and as_json:
        print_json({"output": str(target), "texts": rows.count, "width": rows.width})


def _chunks(lines: Iterable[Line], size: int) -> Iterator[list[Line]]:
    chunk: list[Line] = []
    try:
        for line in lines:
            chunk.append(line)
            if len(chunk) == size:
                yield chunk
                chunk = []
    except SottovoceError:
        if chunk:  # answer the lines before the bad one first
            yield chunk
        raise
    if chunk:
        yield chunk


def _embedded(
    client: Client, chunk: list[Line], settings: agent.EmbedRequest
) -> Iterator[agent.EmbedResponse]:
    requests = [
        agent.EmbedStreamRequest(
            request=agent.EmbedRequest(text=line.text, level=settings.level, local=settings.local)
        )
        for line in chunk
    ]
    count = 0
    try:
        for answer in client.agent.EmbedStream(iter(requests)):
            count += 1
            yield answer.response
    except SottovoceError as error:  # concerns the first text without an answer
        place = chunk[min(count, len(chunk) - 1)].place
        raise (numbered(error, place) if place else error) from error


class _Rows:
    """A .npy file written row by row; the header leaves room for the final row count."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = self.width = 0

    def write(self, row: Iterable[float]) -> None:
        values = np.fromiter(row, np.dtype("<f4"))
        if not self.count:
            self.width = len(values)
            self._header()
        self._file.write(values.tobytes())
        self.count += 1

    def end(self) -> None:
        self._file.seek(0)
        self._header()

    def _header(self) -> None:
        shape = (self.count, self.width)
        layout = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, layout)


@click.command("corrections", cls=Command)
@click.argument("name")
@click.option(
    "--show", is_flag=True, help="Print the waiting corrections, as a table for `--input`."
)
@click.option("--forget", is_flag=True, help="Forget all of them; cannot be undone.")
@click.option("--text", default="", help="With --forget: only the correction of this text.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; needed without a terminal.")
def corrections_command(
    name: str, show: bool, forget: bool, text: str, yes: bool, as_json: bool
) -> None:
    """Count, show or forget the corrections of the adapter NAME that wait on this device.

    Corrections in training are deleted here once the training succeeds. If it fails or is
    cancelled, they wait again.
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
    with reach(load_config()) as client:
        if forget:
            request = adapters.ForgetCorrectionsRequest(adapter=name, text=text)
            forgotten = client.adapters.ForgetCorrections(request).forgotten
            say({"adapter": name, "forgotten": forgotten}, f"forgot {forgotten:,} of {name}")
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
    type=PATH,
    help="Table: a header with the columns text and label, then one correction a line, "
    "tab-separated.  [default: TEXT and LABEL, else stdin]",
)
def correct_command(
    name: str,
    text: str | None,
    label: str | None,
    source: Path | None,
    as_json: bool,
) -> None:
    """Keep on this device the right LABEL of a TEXT, as a correction for the adapter NAME.

    Nothing leaves: the correction waits, sealed, until `sotto customize NAME --add --corrections`
    releases it. A text that was corrected before gets the new label. With "-" as TEXT, every line
    of stdin is a text, and all get LABEL. Prefer a file or stdin to TEXT: other users of the
    machine can see a command's arguments while it runs.
    """
    config = load_config()
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
