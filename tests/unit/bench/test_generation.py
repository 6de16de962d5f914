"""The gates count correct and wrong restorations, and characters held back by a stream."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench import generation
from bench.generation import SETTINGS, Device, Entry
from tests.support.paths import MODELS

ENTRIES = [
    Entry("", ("Ramona Sitwell lives in Aarhus.",), ("Ramona Sitwell", "Aarhus")),
    Entry("", ("The bridge in Budapest was built by Gustav Lindqvist.",), ("Budapest",)),
    Entry("", ("There are 4815 people in Harrietstown.",), ("4815", "Harrietstown")),
]


@pytest.fixture(scope="module")
def device(bundle_folder: Path) -> Device:
    """A device over the default bundle."""
    return Device.of(bundle_folder, MODELS)


def test_entries_are_read_with_the_entities_that_their_text_has(tmp_path: Path) -> None:
    entry = {
        "triples": [["Aarhus_Airport", "runwayLength", "2702.0"], ["Aarhus", "inCountry", '"DK"']],
        "texts": ["Aarhus  Airport is 2702.0 long.", "It is long."],
    }
    with gzip.open(tmp_path / "dev.jsonl.gz", "wt") as file:
        file.write(f"{json.dumps(entry)}\n" * 3)
        file.write("\n".join(json.dumps({**entry, "texts": []}) for _ in range(2)))
    read = generation.read(tmp_path / "dev.jsonl.gz", 2)
    assert (
        read
        == [
            Entry(
                "Aarhus Airport | runway Length | 2702.0; Aarhus | in Country | DK",
                ("Aarhus Airport is 2702.0 long.", "It is long."),
                ("Aarhus Airport", "2702.0", "Aarhus"),
            )
        ]
        * 2
    )


def test_what_a_faithful_cloud_gives_back_comes_back(device: Device) -> None:
    found = generation.tally(device, ENTRIES, SETTINGS["names"])
    assert (found.entities, found.kept) == ([2, 1, 2], [2, 1, 2])
    assert found.left == [0, 0, 0]
    assert sum(found.false) == 0
    assert found.alike
    assert 1 <= found.held <= 2
    assert generation.gates(found)["kept"]


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, True),
        ({"kept": [49, 49]}, False),
        ({"false": [0, 4]}, False),
        ({"alike": False}, False),
        ({"held": 3}, False),
    ],
)
def test_every_gate_can_fail(change: dict[str, object], kept: bool) -> None:
    counts = {"entities": [50, 50], "kept": [50, 49], "words": [500, 500], "false": [0, 3]}
    found = generation.Tally(**{**counts, "left": [0, 0], "held": 2, **change})  # type: ignore[arg-type]
    assert generation.gates(found)["kept"] == kept
