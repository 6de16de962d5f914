"""--json shows every field of the protos; tables fit a narrow terminal."""

from __future__ import annotations

import json

import pytest
from google.protobuf.message import Message

from sottovoce.edge.cli import views
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import running

from .conftest import Device

PROGRESS = set(training.JobProgress.DESCRIPTOR.fields_by_name) - {"step", "steps"}


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (views.release(agent.PrivatizeResponse()), agent.PrivatizeResponse),
        (
            views.release(agent.PrivatizeResponse(words=[agent.ReleasedWord()]))["words"][0],
            agent.ReleasedWord,
        ),
        (views.prediction(agent.PredictResponse()), agent.PredictResponse),
        (views.embedding(agent.EmbedResponse()), agent.EmbedResponse),
        (views.customization(agent.Customization()), agent.Customization),
        (views.status(agent.GetStatusResponse(), running=True), agent.GetStatusResponse),
        (
            views.status(agent.GetStatusResponse(), running=True)["ledger"],
            agent.LedgerStatus,
        ),
        (
            views.status(agent.GetStatusResponse(levels=[agent.LevelStatus()]), running=True)[
                "levels"
            ][0],
            agent.LevelStatus,
        ),
        (
            views.status(
                agent.GetStatusResponse(embed_levels=[agent.EmbedLevelStatus()]), running=True
            )["embed_levels"][0],
            agent.EmbedLevelStatus,
        ),
    ],
)
def test_every_field_is_shown(shown: dict[str, object], message: type[Message]) -> None:
    fields = set(message.DESCRIPTOR.fields_by_name)
    if "progress" in fields:  # shown beside the others
        fields = fields - {"progress"} | PROGRESS
    assert shown.keys() - {"running"} == fields
    assert json.loads(json.dumps(shown)) == shown


def test_a_state_has_one_word_whoever_shows_it() -> None:
    past = agent.Customization(state=agent.CUSTOMIZATION_STATE_SUCCEEDED, set_aside=True)
    records = [
        past,
        *(agent.Customization(state=each) for each in agent.CustomizationState.values()),
    ]
    assert [views.customization(each)["state"] for each in records] == [
        *("rolled back", "unspecified", "uploading", "training", "ready", "failed", "cancelled")
    ]


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
