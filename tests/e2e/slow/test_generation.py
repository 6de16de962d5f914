"""An owner's inputs and outputs become an adapter of the provider's decoder, which writes."""

from __future__ import annotations

import json
from pathlib import Path

from bench.live.testbed import Agent, Cloud
from sottovoce.cloud.models import adapters, decoder
from tests.support import decoders

ROWS = [f"The train of Ramona Sitwell, {n}\tRamona Sitwell came at {n}." for n in range(24)]


def test_a_table_becomes_an_adapter_that_writes(owner: Path, bundle_folder: Path) -> None:
    tiny = str(decoders.save(owner / "tiny"))
    cloud = Cloud.at(owner, bundle_folder, "--decoder", tiny)
    cloud.start()
    try:
        agent = Agent.at(owner, cloud=cloud.address, tenant="t", token=cloud.enroll("t"))
        agent.run("pull", cloud.address)
        agent.start()
        table = owner / "letters.tsv"
        table.write_text("\n".join(["input\toutput", *ROWS]) + "\n", encoding="utf-8")
        asked = ["--input", str(table), "--policy", "names", "--epochs", "2", "--json"]
        try:
            done = json.loads(agent.run("customize", "letters", *asked))
            brief = ["--max-tokens", "12", "--json"]
            written = json.loads(agent.run("generate", "letters", ROWS[3].split("\t")[0], *brief))
            turns = b"Where does Ramona Sitwell live?\nAnd whose train is it?\n"
            talked = agent.run("chat", *brief, stdin=turns).splitlines()
            agent.stop()
        finally:
            agent.kill()
    finally:
        cloud.kill()

    # What a model of two layers says is nothing to go by: it is asked, and stops where it must.
    # The adapter is asked under its own policy, and a conversation under that of conversations.
    policies = ("names", "personal", "personal")
    for answer, policy in zip((written, *map(json.loads, talked)), policies, strict=True):
        assert (answer["finish_reason"], answer["completion_tokens"]) == ("length", 12)
        assert answer["policy"] == policy
        assert answer["left"]
        assert "Sitwell" not in json.dumps(answer["left"])
    assert len(talked) == 2
    assert (done["state"], done["examples"]) == ("ready", len(ROWS))
    assert done["loss"] > 0
    (kept,) = cloud.state.rglob("adapter.json")
    adapter = adapters.load(kept.parent)
    assert (adapter.task, adapter.labels) == ("generation", ())
    assert adapter.backbone_sha256 == decoder.load(tiny).backbone.sha256
    assert adapter.origin["release"]["policy"] == "names"
    assert not any(b"Sitwell" in f.read_bytes() for f in cloud.state.rglob("*") if f.is_file())
