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
from typing import Any, BinaryIO, TypeVar

import click

from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import if_interrupted, progress_bar
from sottovoce.core.text.checks import LARGEST_TEXT, decode
from sottovoce.edge.cli.common import numbered

__all__ = ["Line", "answered", "read_lines", "read_texts", "text_argument"]


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
