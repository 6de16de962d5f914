"""What an app hides in addition to the owner, at every RPC that an app may call."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.state.apps import Hides
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation
from tests.support.admission import Asked, asked, asking
from tests.support.echo import EchoingCloud, echoing_cloud, last_text

TEXT = "they were in the garden by the pond"
POND = Hides(words=("the pond",))


@pytest.fixture
def cloud() -> Iterator[EchoingCloud]:
    with echoing_cloud() as found:
        yield found


@pytest.fixture
def device(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, cloud: EchoingCloud
) -> Iterator[Asked]:
    config = asking(
        tmp_path,
        small_bundle_folder,
        SOTTO_CLOUD_ADDRESS=cloud.address,
        SOTTO_PRIVACY_POLICY="names",
        SOTTO_UI_RECORD="true",
        SOTTO_PRIVACY_LEAST_POLICY="personal",
        SOTTO_HIDE_WORDS="they",
    )
    with asked(config, lexicon_tagger) as found:
        yield found


def test_a_stream_hides_what_its_app_hides_by_then(device: Asked) -> None:
    app = device.app(hides=POND)

    answered = threading.Event()

    def requests() -> Iterator[agent.PrivatizeStreamRequest]:
        yield agent.PrivatizeStreamRequest(request=agent.PrivatizeRequest(text=TEXT))
        assert answered.wait(60)
        device.apps.hide("mail", Hides(words=("were",)))
        yield agent.PrivatizeStreamRequest(request=agent.PrivatizeRequest(text=TEXT))

    answers = device.agent.PrivatizeStream(requests(), **app)
    first = next(answers).response.text
    answered.set()
    second = next(answers).response.text
    assert "the pond" not in first
    assert "were in the garden" in first
    assert "were" not in second
    assert second.endswith("the pond")
    assert "they" not in f"{first} {second}"  # which the owner hides
    assert device.agent.Privatize(agent.PrivatizeRequest(text=TEXT), **device.owner).text.endswith(
        "by the pond"
    )


@pytest.mark.parametrize("policy", ["names", "personal"])
def test_conversations_hide_it(device: Asked, cloud: EchoingCloud, policy: str) -> None:
    app = device.app(hides=POND)
    privacy = agent.PrivacyOptions(policy=policy)
    turn = chats.ChatTurn(role=generation.ROLE_USER, text=TEXT)
    for caller in (app, device.owner):
        *_, told = device.chat.Chat(chats.ChatRequest(turns=[turn], privacy=privacy), **caller)
        assert told.answered.finish_reason == generation.FINISH_REASON_STOP
        *_, told = device.chat.Complete(chats.CompleteRequest(text=TEXT, privacy=privacy), **caller)
    left = [last_text(request) for request in cloud.asked]
    assert ["the pond" in each for each in left] == [False, False, True, True]
    assert not [each for each in left if "they" in each]


def test_a_kind_that_the_owner_lets_pass_is_hidden_for_the_app(device: Asked) -> None:
    request = agent.PrivatizeRequest(
        text="he has a fever", privacy=agent.PrivacyOptions(policy="personal"), words=True
    )
    app = device.app(hides=Hides(kinds=("facts",)))
    assert device.agent.Privatize(request, **device.owner).text.endswith("a fever")
    told = device.agent.Privatize(request, **app)
    assert "fever" not in told.text
    assert told.words[-1].hides == "fact"
