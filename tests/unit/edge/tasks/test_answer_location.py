"""The owner's "device" is a limit; anything else is a default."""

from __future__ import annotations

import pytest

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.edge.tasks.local_inference import who_answers
from sottovoce.v1 import edge_agent_pb2 as agent

UNSPECIFIED, DEVICE = agent.WHERE_UNSPECIFIED, agent.WHERE_DEVICE
CLOUD, AUTO = agent.WHERE_CLOUD, agent.WHERE_AUTO


@pytest.mark.parametrize(
    ("asked", "configured", "answers"),
    [
        (UNSPECIFIED, "device", DEVICE),
        (AUTO, "device", DEVICE),
        (DEVICE, "device", DEVICE),
        (UNSPECIFIED, "cloud", CLOUD),
        (AUTO, "cloud", AUTO),
        (DEVICE, "cloud", DEVICE),
        (UNSPECIFIED, "auto", AUTO),
        (CLOUD, "auto", CLOUD),
        (DEVICE, "auto", DEVICE),
    ],
)
def test_requests_choose_within_the_limit(
    asked: agent.Where, configured: str, answers: agent.Where
) -> None:
    assert who_answers(asked, configured) == answers


def test_the_cloud_is_refused_where_the_owner_said_device() -> None:
    with pytest.raises(NotReady, match=r"\[predict\]"):
        who_answers(CLOUD, "device")


@pytest.mark.parametrize("configured", ["device", "cloud", "auto"])
@pytest.mark.parametrize("unknown", [4, 9, -1])
def test_what_nobody_knows_is_refused(unknown: agent.Where, configured: str) -> None:
    with pytest.raises(InvalidInput):
        who_answers(unknown, configured)
