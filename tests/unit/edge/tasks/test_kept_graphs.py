"""A device keeps the graphs it built in its own state, and answers alike with and without them."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.edge.config import Config
from sottovoce.edge.tasks.parts import Parts
from tests.support.agent import configured

pytest.importorskip("hnswlib", reason="graphs need the extra `graph` (hnswlib)")

TEXT = "the river by the house was cold and the doctor will sing a song"


def _released(config: Config) -> str:
    with closing(Parts(config)) as device:
        setting = dataclasses.replace(device.default, mechanism="t2t.v1", level="strong")
        return device.releases.release(TEXT, setting).text


def test_graphs_stay_in_the_state_and_change_no_release(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    before = sorted(small_bundle_folder.rglob("*"))
    first = _released(config)
    assert first != TEXT
    (graph,) = (config.agent.state / "graphs").rglob("*.hnsw")
    written = graph.stat().st_mtime_ns
    assert _released(config) == first
    assert graph.stat().st_mtime_ns == written
    assert sorted(small_bundle_folder.rglob("*")) == before


def test_an_altered_graph_is_built_again_and_changes_no_release(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    first = _released(config)
    (graph,) = (config.agent.state / "graphs").rglob("*.hnsw")
    sound = graph.read_bytes()
    graph.write_bytes(sound[:-100] + bytes([255]) * 100)
    assert _released(config) == first
    assert graph.read_bytes() == sound
