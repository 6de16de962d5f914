"""`chat.ask_first`: the first message of a conversation waits until the owner has seen it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.core.errors import NotReady, PermissionDenied
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.http.endpoints import openai_server, read_key
from sottovoce.edge.http.page import page_server
from sottovoce.edge.state.apps import inside
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation
from tests.support.agent import configured, opened
from tests.support.echo import EchoingCloud, echoing_cloud
from tests.support.openai_endpoint import Door, entered

REFUSED = 409
TEXT = "Anna Marsh saw the pond"


@dataclasses.dataclass
class Asking:
    """A device that asks its owner first, with its endpoint, page and cloud."""

    parts: Parts
    door: Door
    page: Door
    cloud: EchoingCloud


@pytest.fixture
def asking(tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger) -> Iterator[Asking]:
    with echoing_cloud() as cloud:
        config = configured(
            tmp_path,
            bundle=small_bundle_folder,
            SOTTO_CLOUD_ADDRESS=cloud.address,
            SOTTO_CHAT_ASK_FIRST="true",
        )
        with (
            opened(config, lexicon_tagger) as device,
            openai_server(device, "127.0.0.1:0") as endpoint,
        ):
            page = page_server(device)
            page.start()
            try:
                door = Door(endpoint.address, read_key(config.agent.state))
                yield Asking(device, door, entered(page.link()), cloud)
            finally:
                page.stop(0, 0)
                page.close()


def _said(*texts: str) -> dict[str, object]:
    roles = ("user", "assistant") * len(texts)
    return {"messages": [{"role": r, "content": t} for r, t in zip(roles, texts, strict=False)]}


def test_a_message_waits_on_the_page_and_leaves_once_it_is_allowed(asking: Asking) -> None:
    ask, page = asking.door.ask, asking.page
    for body in (_said(TEXT), _said(TEXT) | {"stream": True}):
        refused = ask("/v1/chat/completions", body)
        assert refused.status == REFUSED
        assert "sotto ui" in refused.error["message"]
        assert "chat.ask_first false" in refused.error["message"]
    assert asking.cloud.asked == []
    assert asking.parts.ledger.spending().releases == 0
    (waiting,) = page.ask("/api/waiting").json["waiting"]
    assert "Anna" not in str(waiting)
    assert page.ask("/api/waiting/allow", {"id": waiting["id"]}).json["waiting"][0]["allowed"]
    assert ask("/v1/chat/completions", _said(TEXT)).status == 200
    (left,) = asking.cloud.asked
    assert left.conversation.turns[0].released_text == waiting["texts"][0]
    assert page.ask("/api/waiting").json["waiting"] == []
    assert ask("/v1/chat/completions", _said(TEXT, TEXT, "and the garden")).status == 200
    assert ask("/v1/chat/completions", _said("Mark saw the pond")).status == REFUSED


def test_another_text_than_the_allowed_one_waits_again(asking: Asking) -> None:
    ask, page = asking.door.ask, asking.page
    named = {"x_sottovoce_conversation": "one"}
    assert ask("/v1/chat/completions", _said(TEXT), **named).status == REFUSED
    (waiting,) = page.ask("/api/waiting").json["waiting"]
    page.ask("/api/waiting/allow", {"id": waiting["id"]})
    assert ask("/v1/chat/completions", _said("the garden"), **named).status == REFUSED
    assert asking.cloud.asked == []
    assert page.ask("/api/waiting/allow", {"id": "none"}).status == 404


def test_other_endpoints_wait_too(asking: Asking) -> None:
    assert asking.door.ask("/v1/completions", {"prompt": TEXT}).status == REFUSED
    assert asking.door.ask("/v1/responses", {"input": f"{TEXT} too"}).status == REFUSED
    assert asking.cloud.asked == []
    assert len(asking.page.ask("/api/waiting").json["waiting"]) == 2


def _turn(**fields: bool) -> chats.ChatRequest:
    turn = chats.ChatTurn(role=generation.ROLE_USER, text=TEXT)
    return chats.ChatRequest(turns=[turn], **fields)


def test_a_preview_is_what_leaves_and_costs_nothing(asking: Asking) -> None:
    chat = asking.parts.conversations.chat
    (only,) = chat(_turn(preview=True, words=True))
    (turn,) = only.departed.turns
    assert asking.cloud.asked == []
    assert asking.parts.ledger.spending().releases == 0
    hidden = {TEXT[word.start : word.end]: word.hides for word in turn.words if word.hides}
    assert set(hidden) >= {"Anna", "Marsh"}
    *_, answered = chat(_turn(agreed=True))
    assert answered.answered.came == turn.released_text


def test_an_app_sees_no_preview_and_agrees_to_nothing(asking: Asking) -> None:
    apps = asking.parts.ledger.apps
    app = apps.find(apps.new("mail"))
    for request, error in ((_turn(preview=True), PermissionDenied), (_turn(agreed=True), NotReady)):
        with pytest.raises(error):
            inside(app).run(next, asking.parts.conversations.chat(request))
    assert asking.cloud.asked == []
    assert [each.app for each in asking.parts.consent.waiting()] == ["mail"]
