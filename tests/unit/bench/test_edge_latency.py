"""How long the device takes is asked in two ways, and one's figures do not replace the other's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.speed import edge_latency
from tests.support.backbones import tiny_bert
from tests.support.encoder_bundle import with_encoder


def test_answers_at_home_have_a_file_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = with_encoder(tmp_path / "bundle", tiny_bert(tmp_path / "bert"))
    out = tmp_path / "out"
    asked = ["edge_latency", "--predict", "--repeats", "1", "--json"]
    asked += ["--bundle", str(bundle), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", asked)
    edge_latency.main()
    (kept,) = out.iterdir()
    assert kept.name == "edge_latency_predict.json"
    assert json.loads(kept.read_text("utf-8"))["ms"]["median"] > 0
