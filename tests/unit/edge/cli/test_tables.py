"""Tables of examples: their header, and the line of each error."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.edge.cli.common import FOR_EITHER, read_table

from .conftest import Device

ROWS = ["the river in the garden\twet", "the stone in the garden\tdry"] * 10


def _table(device: Device, rows: list[str], header: str) -> str:
    file = device.folder / "train.tsv"
    file.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ("text\tclass", ROWS, "line 1: no column 'label'"),
        ("label", ROWS, "line 1: no column 'text'"),
        ("text\tlabel\tlabel", ROWS, "line 1: no column 'label'"),
        ("text\tlabel", [*ROWS[:3], "no tab"], "line 5: 1 columns where the header has 2"),
        ("text\tlabel", [*ROWS[:3], "a\tb\tc"], "line 5: 3 columns"),
        ("text\tlabel", [*ROWS[:3], " \twet"], "line 5: the text is empty"),
        ("text\tlabel", [*ROWS[:3], "the pond\t"], "line 5: the label is empty"),
    ],
)
def test_broken_tables_name_the_line(
    device: Device, header: str, rows: list[str], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_table(Path(_table(device, rows, header)))


def test_columns_may_stand_in_any_order_among_others(device: Device) -> None:
    table = _table(device, ["7\twet\tthe pond\r", "", "8\tdry\tthe stone\r"], "id\tlabel\ttext\r")
    assert [(e.text, e.label) for e in read_table(Path(table))] == [
        ("the pond", "wet"),
        ("the stone", "dry"),
    ]


def test_a_header_says_which_task_it_is(device: Device) -> None:
    table = Path(_table(device, ["7\ta pond\ta stone "], "id\tinput\toutput"))
    (example,) = read_table(table, *FOR_EITHER)
    assert (example.text, example.output, example.label) == ("a pond", "a stone ", "")
    with pytest.raises(InvalidInput, match="no column 'text'"):
        read_table(table)
    both = Path(_table(device, ["a\tb\tc\td"], "text\tlabel\tinput\toutput"))
    with pytest.raises(InvalidInput, match="both classification and generation"):
        read_table(both, *FOR_EITHER)


def test_bytes_that_are_no_text_name_line_and_offset(device: Device) -> None:
    file = device.folder / "train.tsv"
    file.write_bytes(b"text\tlabel\nthe pond\twet\ncaf\xe9\tdry\n")
    with pytest.raises(InvalidInput, match="line 3 is not UTF-8: byte 3"):
        read_table(file)
