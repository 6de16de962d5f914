"""Where the texts are: data sets, which do not come with the repository, and our own messages.

Why it is here: a measurement that lacks a data set says so at once, not after ten minutes of work.
"""

from __future__ import annotations

import csv
import gzip
from argparse import ArgumentParser
from pathlib import Path
from typing import Final

__all__ = ["DATA", "document", "labelled_messages", "messages", "require", "rows"]

DATA: Final = Path(__file__).parents[2] / "shared" / "data"
"""Default data folder, beside a development checkout."""

_MESSAGES: Final = Path(__file__).parents[1] / "examples" / "helpdesk"


def require(parser: ArgumentParser, folder: Path, *paths: str) -> None:
    """Ends the program with a message if ``folder`` lacks any of ``paths``."""
    missing = [path for path in paths if not (folder / path).exists()]
    if missing:
        parser.error(f"not in {folder}: {', '.join(missing)}; name the data folder with --data")


def rows(file: Path) -> list[dict[str, str]]:
    """Read a data set in gzip TSV; each row maps column names to values."""
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        return [*csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)]


def labelled_messages(part: str = "train") -> list[tuple[str, str]]:
    """Return the example's helpdesk messages, which are free to use, with their topics."""
    lines = (_MESSAGES / f"{part}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    parted = (line.partition("\t") for line in lines)
    return [(text, label) for text, _, label in parted]


def messages(part: str = "train") -> list[str]:
    """Return the messages without their topics."""
    return [text for text, _ in labelled_messages(part)]


def document(words: int, start: int = 0) -> str:
    """Real messages from word ``start`` on, repeated to the length asked for."""
    running = " ".join(messages()).split()[start:]
    return " ".join((running * (words // len(running) + 1))[:words])
