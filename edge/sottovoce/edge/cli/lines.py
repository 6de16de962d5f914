"""Input of commands: TEXT, or one text a line from a file or standard input.

A pipe may never end, so each line is processed as it arrives. Lines are read as bytes first, so
that every error names its line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import click

from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import if_interrupted, progress_bar
from sottovoce.core.text.checks import LARGEST_TEXT, decode
from sottovoce.edge.cli.common import numbered
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = [
    "FOR_EITHER",
    "Line",
    "answered",
    "read_lines",
    "read_table",
    "read_texts",
    "text_argument",
]

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its line feed, and its place ("notes.txt, line 3")."""

    text: str
    place: str


def text_argument(function: _F) -> _F:
    """Add TEXT and --input, which the function gets as ``text`` and ``source``."""
    option = click.option(
        "--input",
        "source",
        type=click.Path(path_type=Path),
        help="File.  [default: TEXT, else stdin]",
    )
    return click.argument("text", required=False)(option(function))


def answered(number: int, target: Path | None = None) -> None:
    """Record for Ctrl-C how many texts were answered, and the output file if any."""
    if target is not None:
        if_interrupted(f"{target} is not written", "run the command again")
    else:
        some = "1 text is" if number == 1 else f"{number} texts are"
        if_interrupted(
            f"{some} answered", f"run it again with the texts from number {number + 1} on"
        )


def read_texts(text: str | None, source: Path | None, doing: str = "privatising") -> Iterator[Line]:
    """Yield TEXT alone, or the lines of a file or of standard input.

    Raises:
        InvalidInput: both are given; or see `read_lines`.
    """
    if text is None:
        return read_lines(source, doing)
    if source is not None:
        raise InvalidInput("both TEXT and --input are given", fix="give one", subject="text")
    return iter([Line(text, "")])


def read_lines(source: Path | None, doing: str = "privatising") -> Iterator[Line]:
    """Yield the lines of a file or of standard input; a bar shows progress for files.

    Raises:
        InvalidInput: no lines, a line over 1 MiB, text not in UTF-8, or an unreadable file.
    """
    name = "standard input" if source is None else str(source)
    with _opened(source) as file, progress_bar(enabled=source is not None) as progress:
        size = source.stat().st_size if source is not None else None
        task = progress.add_task(doing, total=size, note="bytes")
        number = 0
        while data := file.readline(LARGEST_TEXT + 2):
            number += 1
            place = f"{name}, line {number}"
            if len(data) > LARGEST_TEXT + 1:
                raise InvalidInput(
                    f"{place} is longer than {LARGEST_TEXT} bytes",
                    fix="put one text on a line, each at most 1 MiB",
                    subject="text",
                )
            yield Line(decode(data, place, begins=number == 1).removesuffix("\n"), place)
            progress.advance(task, len(data))
        if number == 0:
            raise InvalidInput(f"{name} is empty", fix="give one text a line", subject="text")


@contextmanager
def _opened(source: Path | None) -> Iterator[BinaryIO]:
    if source is None:
        with nullcontext(sys.stdin.buffer) as file:
            yield file
        return
    try:
        opened = source.open("rb")
    except OSError as error:
        raise numbered(
            InvalidInput(f"cannot be read: {error.strerror}", fix="name another file"), str(source)
        ) from error
    with opened as file:
        yield file


FOR_EITHER: Final = (("text", "label"), ("input", "output"))
"""The column pairs of tables for classification and for generation."""


def read_table(source: Path | None, *columns: tuple[str, str]) -> list[agent.LabelledText]:
    """Read the examples of a tab-separated file whose header names two columns.

    Args:
        source: the file; None is standard input.
        columns: the allowed pairs, from `FOR_EITHER`; by default texts and labels.

    Raises:
        InvalidInput: the header or a row is wrong; the message gives the line number.
    """
    columns = columns or FOR_EITHER[:1]
    name = source or "standard input"
    rows = read_lines(source, "reading")
    header = next(rows).text.rstrip("\r").split("\t")
    found = [names for names in columns if all(header.count(column) == 1 for column in names)]
    if len(found) != 1:
        wanted = " or ".join("<TAB>".join(names) for names in columns)
        missing = [column for column in columns[0] if header.count(column) != 1]
        raise InvalidInput(
            f"{name}, line 1: no column {missing[0]!r}"
            if missing
            else f"{name}, line 1: columns for both classification and generation",
            fix=f"begin the file with a header: {wanted}",
            subject="input",
        )
    names = found[0]
    examples: list[agent.LabelledText] = []
    for line in rows:
        fields = line.text.rstrip("\r").split("\t")
        if fields == [""]:
            continue
        if len(fields) != len(header):
            raise InvalidInput(
                f"{line.place}: {len(fields)} columns where the header has {len(header)}",
                fix=f"put one tab between {names[0]} and {names[1]}, and none inside them",
                subject="input",
            )
        row = dict(zip(header, fields, strict=True))
        for column in names:
            if not row[column].strip():
                raise InvalidInput(
                    f"{line.place}: the {column} is empty", fix="fill it in or drop the line"
                )
        text, other = (row[column] for column in names)
        examples.append(
            agent.LabelledText(text=text, label=other.strip())
            if names == FOR_EITHER[0]
            else agent.LabelledText(text=text, output=other)
        )
    return examples
