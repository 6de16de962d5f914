"""`sotto bench`: real measurements of this device, whatever they are."""

from __future__ import annotations

from pathlib import Path

from tests.unit.edge.cli.conftest import Device


def test_it_measures_texts_and_an_agent_and_leaves_no_trace(device: Device) -> None:
    (before,) = device.json("status")
    (found,) = device.json("bench", "--most", "20", "--repeats", "2", "--level", "strong")
    assert [row["words"] for row in found["documents"]] == [1, 10, 20]
    for row in found["documents"]:
        assert 0 < sum(row["stages_ms"].values()) < 2 * row["ms"]
        assert abs(row["us_per_word"] - row["ms"] / row["words"] * 1e3) < 1
    assert (found["level"], found["eta"], found["bundle_id"]) == (
        "strong",
        4.0,
        before["bundle_id"],
    )
    assert found["device"]["cores"] >= 1
    assert found["daemon"]["ready_s"] > 0
    if Path("/proc/self/status").exists():
        assert found["daemon"]["peak_mb"] > 20
    (after,) = device.json("status")
    assert after["ledger"] == before["ledger"]


def test_the_table_is_for_people(device: Device) -> None:
    told = device.sotto("bench", "--most", "1", "--repeats", "1").stdout
    assert "us/word" in told.lower()
    assert "agent: ready in" in told


def test_an_unknown_level_is_told_before_anything_is_measured(device: Device) -> None:
    result = device.sotto("bench", "--level", "weak", code=4)
    assert "unknown level" in result.stderr
