"""Tab-separated tables: a header with column names, then an example a line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sottovoce.core.errors import InvalidInput
from sottovoce.edge.cli.lines import read_lines
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["FOR_EITHER", "read_table"]

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
