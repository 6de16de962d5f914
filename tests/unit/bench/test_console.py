"""A measurement prints and keeps its figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import console

FIGURES = {"rows": [{"name": "a", "share": 0.25}, {"name": "b", "share": None}]}


def published(out: Path, *flags: str) -> None:
    parser = console.parser("speed.thing", "What is it?\n\nMore.", quick="less", data="texts")
    arguments = parser.parse_args(["--out", str(out / "new"), *flags])
    rows = [(row["name"], console.share(row["share"])) for row in FIGURES["rows"]]
    table = console.table("a title", ("name",), ("share",), rows)
    console.publish(arguments, FIGURES, table, "a word")


def test_tables_are_printed_and_figures_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published(tmp_path)
    shown = capsys.readouterr().out
    assert "a title" in shown
    assert "0.250" in shown
    assert "a word" in shown
    assert "None" not in shown
    assert json.loads((tmp_path / "new" / "thing.json").read_text("utf-8")) == FIGURES


def test_with_json_the_figures_are_all_that_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published(tmp_path, "--json", "--quick")
    printed = capsys.readouterr().out
    assert json.loads(printed) == FIGURES
    assert printed.count("\n") == 1


def test_names_that_nobody_knows_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    parser = console.parser("thing", "What is it?")
    console.ask_names(parser, "--tasks", ("a", "b", "c"), ("b",))
    assert parser.parse_args([]).tasks == ("b",)
    assert parser.parse_args(["--tasks", "c,a"]).tasks == ("c", "a")
    with pytest.raises(SystemExit):
        parser.parse_args(["--tasks", "a,d"])
    assert "unknown: d; there are a, b, c" in capsys.readouterr().err


def test_a_mean_and_its_interval_are_written_in_percent() -> None:
    assert console.percent({"mean": 0.5, "interval": [0.25, 0.75]}) == "50.0 (25.0 to 75.0)"
    assert console.percent(None) == ""
