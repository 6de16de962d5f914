"""Each figure of a cloud on paper follows from the inputs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.scale import __main__ as program
from bench.scale.paper import Prices, needs
from bench.scale.simulation import POLICIES, Cloud
from sottovoce.cloud.config import Settings
from sottovoce.v1 import inference_pb2 as wire
from tests.support.backbones import tiny_bert
from tests.support.cloud import cloud
from tests.support.tiny_bundle import tiny_bundle


def test_a_table_and_figures_come_of_what_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = "--simulate --devices 9000 --counted 2000 --tenants 500 --cache 100 --replica-cost 2"
    monkeypatch.setattr(sys, "argv", ["scale", *asked.split(), "--out", str(tmp_path), "--json"])
    program.main()
    told = json.loads(capsys.readouterr().out)
    assert told["inputs"]["tenants"] == 500
    assert told["calls_a_second"] == 1500
    assert told["replicas"] == 2
    assert told["policies"].keys() == told["needs"].keys() == set(POLICIES)
    (replicas,) = (n for n in told["needs"]["random"] if n["what"] == "replicas")
    assert (replicas["units"], replicas["cost"]) == (2, 4.0)
    monkeypatch.setattr(sys, "argv", ["scale", *asked.split(), "--out", str(tmp_path)])
    program.main()
    shown = capsys.readouterr().out
    assert "time is the sample: 2,000 calls of each policy" in " ".join(shown.split())
    assert "What binds first: database" in shown
    assert all(policy in shown for policy in POLICIES)


def test_needs_are_multiplication() -> None:
    found = {need.what.partition(",")[0]: need for need in needs(Cloud(), Prices(), reads=1000)}
    assert Cloud().calls == pytest.approx(166_666.7, rel=1e-6)
    assert found["replicas"].units == 174
    assert found["database"].units == 9  # 500,000 reads a second of 60,000
    assert found["database"].devices == pytest.approx(120_000)
    assert found["balancers"].units == 3  # by calls: 2.8; by memory 1.9
    assert found["network"].much == "3.3 Gbit/s"
    store = [n for n in needs(Cloud(), Prices(), 1000) if n.what.startswith("store, reads")]
    assert store[0].cost == pytest.approx(1000 * 3 * 3600 / 1e6 * 0.4)
    more = Prices(database_reads=1e6, balancer_gb=1.0)
    changed = {need.what.partition(",")[0]: need for need in needs(Cloud(), more, reads=0)}
    assert (changed["database"].units, changed["balancers"].units) == (1, 60)


def test_a_call_reads_the_database_as_often_as_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bert = tiny_bert(tmp_path / "bert")
    bundle = tiny_bundle(tmp_path / "bundle", bert)
    settings = Settings(tmp_path / "state", (bundle,), f"unix:{tmp_path}/s.sock", str(bert))
    with cloud(settings) as running, running.caller() as caller:
        from tests.support.examples import examples

        caller.submit(running.bundle_id, examples(24), adapter="a", training={"epochs": 1})
        running.work()
        asked = wire.InferenceServicePredictRequest(
            adapter="a", bundle_id=running.bundle_id, released_text="a text"
        )
        caller.inference.Predict(asked, metadata=caller.metadata)  # reads the adapter
        kind = type(running.server.database)
        real, reads = kind.read, []

        def read(self: object) -> object:
            reads.append(1)
            return real(self)  # type: ignore[arg-type]

        monkeypatch.setattr(kind, "read", read)
        caller.inference.Predict(asked, metadata=caller.metadata)
        monkeypatch.undo()
    assert len(reads) == Prices().reads_a_call
