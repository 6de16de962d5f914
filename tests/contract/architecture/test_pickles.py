"""No module reads a pickle, because opening one runs its writer's code."""

from __future__ import annotations

from tests.support.paths import ROOT
from tests.support.pickles import pickles

PARTS = ("protos", "core", "edge", "cloud", "models", "bench", "deploy", "examples", "clients")


def test_nothing_of_ours_reads_a_pickle() -> None:
    files = [file for part in PARTS for file in (ROOT / part).rglob("*.py")]
    assert len(files) > 300, "the sources lie elsewhere"
    places = {
        f"{file.relative_to(ROOT)}:{place}"
        for file in files
        for place in pickles(file.read_text(encoding="utf-8"))
    }
    assert not places
