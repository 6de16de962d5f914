"""--json shows every field of the protos as JSON."""

from __future__ import annotations

import json

import pytest
from google.protobuf.message import Message

from sottovoce.edge.cli import views
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

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
