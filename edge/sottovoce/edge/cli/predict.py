"""``sotto predict``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import click
import numpy as np

from sottovoce.core.errors import SottovoceError
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.core.platform.files import atomic
from sottovoce.core.privacy.setting import LEVELS
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import Client, reach
from sottovoce.edge.cli.common import (
    Line,
    answered,
    either,
    load_config,
    numbered,
    privacy_options,
    read_texts,
    text_argument,
)
from sottovoce.edge.tasks.local_inference import who_answers
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["embed_command", "predict_command"]

_WHERE = {
    None: agent.WHERE_UNSPECIFIED,
    "device": agent.WHERE_DEVICE,
    "cloud": agent.WHERE_CLOUD,
    "auto": agent.WHERE_AUTO,
}


@click.command("predict", cls=Command)
@click.argument("adapter")
@text_argument
@click.option(
    "--where",
    type=click.Choice(["device", "cloud", "auto"]),
    help="Who answers: the device from the text itself, of which nothing leaves, the cloud from the"
    " released text, or the device if it can.  [default: configured]",
)
@privacy_options
@json_option
@click.pass_context
def predict_command(
    ctx: click.Context,
    adapter: str,
    text: str | None,
    source: Path | None,
    where: str | None,
    level: str,
    mechanism: str,
    policy: str,
    as_json: bool,
) -> None:
    """Have ADAPTER classify TEXT, or one text a line.

    A device that fetched the adapter (`sotto fetch`) answers itself: nothing is released, sent or
    charged. Otherwise each text is privatised first, by default as the adapter was trained, and the
    cloud answers. Prefer --input or stdin to TEXT: other
    users of the machine can see a command's arguments while it runs.
    """
    options = agent.PrivacyOptions(level=level, mechanism=mechanism, policy=policy)
    config = load_config(ctx)
    asked = _WHERE[where]
    if config.predict.where == "device":  # in spite of the running agent's configuration
        asked = who_answers(asked, config.predict.where)
    with reach(config) as client:
        for number, line in enumerate(read_texts(text, source), 1):
            request = agent.PredictRequest(
                text=line.text, adapter=adapter, privacy=options, where=asked
            )
            try:
                response = client.agent.Predict(request)
            except SottovoceError as error:
                raise (numbered(error, line.place) if line.place else error) from error
            if as_json:
                print_json(views.prediction(response))
            else:
                click.echo(f"{response.label}\t{response.scores[0].score:.3f}")
            answered(number)


CHUNK = 64
"""Lines of a file per stream. Standard input uses 1, so that an open pipe gets its answers at
once."""


@click.command("embed", cls=Command)
@text_argument
@click.option(
    "--output",
    "target",
    type=click.Path(path_type=Path),
    help="NumPy file, a float32 row for each text.  [default: numbers on stdout]",
)
@click.option(
    "--level",
    default="",
    help=f"Protection level: {either(LEVELS)}.  [default: configured]",
)
@click.option("--local", is_flag=True, help="Answer on this device; sends and charges nothing.")
@json_option
@click.pass_context
def embed_command(
    ctx: click.Context,
    text: str | None,
    source: Path | None,
    target: Path | None,
    level: str,
    local: bool,
    as_json: bool,
) -> None:
    """Turn TEXT, or one text a line, into sentence embeddings of length 1.

    The cloud sees token vectors with fresh noise, never words; each query is charged, the same text
    again as well. --output appears complete or not at all. Prefer --input or stdin to TEXT: other
    users of the machine can see a command's arguments while it runs.
    """
    lines = read_texts(text, source, "embedding")
    settings = agent.EmbedRequest(level=level, local=local)
    output = nullcontext(None) if target is None else atomic(target)
    with reach(load_config(ctx)) as client, output as file:
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
