"""Apps at the OpenAI endpoint: by their tokens, with the limits that they have at the socket."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.http.endpoints import openai_server, read_key
from sottovoce.edge.state.apps import Apps, Hides
from sottovoce.edge.state.database import DATABASE
from tests.support.agent import configured, opened
from tests.support.echo import EchoingCloud, echoing_cloud, last_text
from tests.support.openai_endpoint import Answer, Door

Found = tuple[Door, Apps, EchoingCloud]


@contextmanager
def _opened(folder: Path, bundle: Path, tagger: Tagger, **environ: str) -> Iterator[Found]:
    with echoing_cloud() as cloud:
        config = configured(folder, bundle=bundle, SOTTO_CLOUD_ADDRESS=cloud.address, **environ)
        with opened(config, tagger) as device, openai_server(device, "127.0.0.1:0") as endpoint:
            yield Door(endpoint.address, read_key(config.agent.state)), device.ledger.apps, cloud


@pytest.fixture
def found(tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger) -> Iterator[Found]:
    with _opened(tmp_path, small_bundle_folder, lexicon_tagger) as all_of_it:
        yield all_of_it


def _asked(door: Door, text: str) -> Answer:
    """Ask one turn; its words get noise, which is charged."""
    body = {"messages": [{"role": "user", "content": text}]}
    return door.ask("/v1/chat/completions", body, x_sottovoce_policy="all")


def test_a_token_opens_it_until_it_is_taken_away(found: Found) -> None:
    door, apps, _ = found
    mail = dataclasses.replace(door, key=apps.new("mail"))
    assert _asked(mail, "Anna saw the pond").status == 200
    ((_, spent),) = apps.all()
    assert spent > 0
    assert _asked(door, "Anna saw a lamp").status == 200  # the owner's, and not the app's
    assert apps.all()[0][1] == spent
    apps.remove("mail")
    assert _asked(mail, "Anna saw the pond").status == 401
    assert _asked(door, "Anna saw the pond").status == 200


def test_a_page_gets_in_with_no_token_either(found: Found) -> None:
    door, apps, _ = found
    mail = dataclasses.replace(door, key=apps.new("mail"))
    assert mail.ask("/v1/models", Origin="https://page.example").status == 403
    assert mail.ask("/v1/models", Authorization=f"Basic {mail.key}").status == 401


def test_calls_a_minute_are_counted(found: Found) -> None:
    door, apps, _ = found
    mail = dataclasses.replace(door, key=apps.new("mail", calls_a_minute=2))
    assert [mail.ask("/v1/models").status for _ in range(3)] == [200, 200, 429]
    refused = mail.ask("/v1/models")
    assert refused.error["type"] == "rate_limit_error"
    assert 20 < int(refused.headers["retry-after"]) <= 30  # two a minute: one each half minute
    assert door.ask("/v1/models").status == 200


def test_a_day_is_counted(found: Found) -> None:
    door, apps, cloud = found
    mail = dataclasses.replace(door, key=apps.new("mail", a_day=0.001))
    refused = _asked(mail, "Anna saw the pond")
    assert refused.status == 429
    assert refused.error["type"] == "insufficient_quota"
    assert refused.error["param"] == "app"
    assert cloud.asked == []  # nothing has left
    assert _asked(door, "Anna saw the pond").status == 200


def test_a_stream_ends_for_one_that_is_removed(found: Found) -> None:
    door, apps, cloud = found
    mail = dataclasses.replace(door, key=apps.new("mail"))

    def answer(asked: object) -> Iterator[str]:
        yield "one two three "
        apps.remove("mail")
        yield "four five six seven eight nine ten"

    cloud.answer = answer
    told = mail.chat("Anna saw the pond", stream=True).body.decode()
    assert "no token, or one of no app" in told
    assert "[DONE]" not in told


def test_who_has_the_key_waits_for_no_strangers_tokens(
    found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, apps, _ = found
    asked, free = threading.Event(), threading.Event()

    def taken(token: str) -> None:
        asked.set()
        assert free.wait(60)

    monkeypatch.setattr(apps, "find", taken)  # as behind a long transaction
    stranger = dataclasses.replace(door, key="sotto-app-" + "x" * 43)
    status: list[int] = []
    thread = threading.Thread(target=lambda: status.append(stranger.ask("/v1/models").status))
    thread.start()
    try:
        assert asked.wait(60)
        assert door.ask("/v1/models").status == 200
        assert status == []
    finally:
        free.set()
        thread.join(60)
    assert status == [401]


def test_a_damaged_app_is_told_so_and_the_others_are_not(found: Found, tmp_path: Path) -> None:
    door, apps, _ = found
    mail = dataclasses.replace(door, key=apps.new("mail"))
    lamp = dataclasses.replace(door, key=apps.new("lamp"))
    known = apps.find(mail.key)
    assert known is not None
    (database,) = tmp_path.rglob(DATABASE)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE apps SET sealed = X'00' WHERE key = ?", (known.key,))
    broken = mail.ask("/v1/models")
    assert (broken.status, broken.error["code"]) == (500, "data_loss")
    assert lamp.ask("/v1/models").status == 200
    assert dataclasses.replace(door, key="sotto-app-none").ask("/v1/models").status == 401


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chat/completions", {"messages": [{"role": "user", "content": "TEXT"}]}),
        ("chat/completions", {"messages": [{"role": "user", "content": "TEXT"}], "stream": True}),
        ("completions", {"prompt": "TEXT"}),
        ("responses", {"input": "TEXT"}),
    ],
)
def test_an_app_hides_more_than_the_owner_at_every_endpoint(
    found: Found, path: str, body: dict[str, Any]
) -> None:
    door, apps, cloud = found
    text = "they had the letter by the pond"
    asked = json.loads(json.dumps(body).replace("TEXT", text))
    mail = dataclasses.replace(door, key=apps.new("mail", hides=Hides(words=("the letter",))))
    assert [each.ask(f"/v1/{path}", asked).status for each in (door, mail)] == [200, 200]
    of_the_owner, of_the_app = map(last_text, cloud.asked)
    assert of_the_owner == text
    assert "letter" not in of_the_app
    assert of_the_app.endswith("by the pond")


def test_an_app_allows_nothing(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    least = {"SOTTO_PRIVACY_LEAST_POLICY": "names"}
    with _opened(tmp_path, small_bundle_folder, lexicon_tagger, **least) as (door, apps, cloud):
        mail = dataclasses.replace(door, key=apps.new("mail", hides=Hides(kinds=("facts",))))
        body = {"messages": [{"role": "user", "content": "Anna saw the pond"}]}
        refused = mail.ask("/v1/chat/completions", body, x_sottovoce_policy="personal")
        assert refused.status in (400, 403, 409, 503)
        assert "least_policy" in refused.body.decode()
        assert cloud.asked == []


def test_a_text_with_what_an_app_hides_is_not_embedded(found: Found) -> None:
    door, apps, _ = found
    mail = dataclasses.replace(door, key=apps.new("mail", hides=Hides(words=("pond",))))
    refused = mail.ask("/v1/embeddings", {"input": "the pond"})
    assert refused.status == 400
    assert "never to leave" in refused.error["message"]
