"""Every table of `sotto` fits a narrow terminal."""

from __future__ import annotations

import pytest

from tests.support.agent import running

from .conftest import Device

NAME = "messages-of-the-help-desk-by-urgency"


@pytest.fixture
def busy(linked: Device) -> Device:
    """A device with an adapter, an app and spending of some size."""
    rows = ["the river in the garden\twet", "the stone in the garden\tdry"] * 5
    file = linked.folder / "train.tsv"
    file.write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    with running(linked.config):
        linked.sotto("customize", NAME, "--input", str(file), "--level", "light")
        for number in range(30):
            linked.sotto("privatize", "the river and the stone " * (number + 1))
    linked.sotto("apps", "new", NAME, "--calls-a-minute", "100000", "--a-day", "123456.789")
    return linked


TABLES = {
    ("list",): {"NAME", "STATE"},
    ("show", NAME): {"VERSION", "STATE"},
    ("apps", "list"): {"NAME"},
    ("ledger",): {"TEXTS"},
    ("status",): set(),
    ("calibrate",): {"LEVEL", "ETA", "REPLACED", "BEST"},
    ("try", "the river and the stone"): {"POLICY", "LEVEL", "GUESSED"},
}


@pytest.mark.parametrize("columns", [80, 60])
def test_a_table_fits_and_keeps_what_matters(
    busy: Device, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments, kept in TABLES.items():
        shown = busy.sotto(*arguments).output.splitlines()
        assert [line for line in shown if len(line) > columns] == [], arguments
        assert not kept or any(kept <= set(line.split()) for line in shown), arguments


def test_large_amounts_are_whole_numbers_without_an_exponent(busy: Device) -> None:
    shown = busy.sotto("apps", "list").stdout
    assert "123,457" in shown
    (spent,) = busy.json("ledger")
    assert spent["spent"] >= 1000
    assert f"{spent['spent']:,.0f} eta on" in busy.sotto("ledger").stdout
    assert "e+" not in busy.sotto("ledger").stdout
