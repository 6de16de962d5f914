"""``sotto embed``."""

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
from sottovoce.edge.cli.client import Backend, backend
from sottovoce.edge.cli.common import either, load_config, numbered
from sottovoce.edge.cli.lines import Line, answered, read_texts, text_argument
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["command"]

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
def command(
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
    with backend(load_config(ctx)) as embedder, output as file:
        rows, number = _Rows(file) if file is not None else None, 0
        for chunk in _chunks(lines, CHUNK if source is not None else 1):
            for response in _embedded(embedder, chunk, settings):
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
    embedder: Backend, chunk: list[Line], settings: agent.EmbedRequest
) -> Iterator[agent.EmbedResponse]:
    requests = [
        agent.EmbedStreamRequest(
            request=agent.EmbedRequest(text=line.text, level=settings.level, local=settings.local)
        )
        for line in chunk
    ]
    count = 0
    try:
        for answer in embedder.embed_stream(requests):
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
