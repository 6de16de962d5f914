"""The owner's page over HTTP from a real daemon: access and contents."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sottovoce.core.errors import ConfigError
from sottovoce.core.http.page import SESSION
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.cli.client import Client, connect
from sottovoce.edge.http import page as page_module
from sottovoce.edge.http.page import LONGEST_TEXT, MOST_TRIED
from sottovoce.edge.tasks.privatize import Trial, tried
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_owner_pb2
from tests.support.agent import configured, running
from tests.support.openai_endpoint import Answer, Door, entered

MARKUP = "<img src=x onerror=alert(1)> Zelphira</script> was in the garden"


@dataclass(frozen=True)
class Page:
    """An open page, and the daemon it is of."""

    door: Door
    device: Client

    def ask(self, path: str, body: Any = None, method: str = "", **headers: str) -> Answer:
        return self.door.ask(path, body, method, **headers)


@pytest.fixture(scope="module")
def page(
    tmp_path_factory: pytest.TempPathFactory, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("page")
    config = configured(folder, bundle=small_bundle_folder, SOTTO_UI_RECORD="true")
    with running(config, lexicon_tagger) as address, connect(address) as device:
        yield Page(entered(device.owner.OpenPage(edge_owner_pb2.OpenPageRequest()).url), device)


def test_a_link_is_good_once_and_a_session_for_long(page: Page) -> None:
    parts = urlsplit(page.device.owner.OpenPage(edge_owner_pb2.OpenPageRequest()).url)
    assert parts.netloc == page.door.address  # one page, however often it is opened
    assert parts.hostname == "127.0.0.1"
    link = Door(parts.netloc, parts.fragment)
    assert link.ask("/api/overview").status == 401
    first, again = link.ask(SESSION, b"", "POST"), link.ask(SESSION, b"", "POST")
    assert (first.status, again.status) == (200, 401)
    assert "sotto ui" in again.error["message"]
    entered = Door(parts.netloc, first.json["session"])
    assert [entered.ask("/api/overview").status for _ in range(2)] == [200, 200]
    assert entered.ask(SESSION, b"", "POST").status == 401  # a session makes no other


@pytest.mark.parametrize("key", ["", "wrong", "ü"])
@pytest.mark.parametrize(
    ("path", "body"), [("/api/overview", None), ("/api/record", None), ("/api/try", {"text": "a"})]
)
def test_nothing_is_told_without_a_session(page: Page, key: str, path: str, body: Any) -> None:
    answer = page.ask(path, body, Authorization=f"Bearer {key}".encode().decode("latin-1"))
    assert answer.status == 401
    assert answer.error["code"] == "invalid_link"


@pytest.mark.parametrize("path", ["/", "/page.js", "/api/overview"])
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1:1", "evil.example:{port}", "127.0.0.1"]
)
def test_a_name_that_was_made_to_point_here_is_refused(page: Page, path: str, host: str) -> None:
    answer = page.ask(path, Host=host.format(port=page.door.place[1]))
    assert (answer.status, answer.error["code"]) == (403, "forbidden_host")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},  # another port of this machine
    ],
)
def test_other_pages_are_refused_even_with_a_session(page: Page, headers: dict[str, str]) -> None:
    before = page.device.agent.GetStatus(agent.GetStatusRequest()).ledger.releases
    for path, body in (("/api/try", {"text": "the pond"}), ("/api/overview", None), ("/", None)):
        answer = page.ask(path, body, **headers)
        assert (answer.status, answer.error["code"]) == (403, "forbidden_origin")
    asking = page.ask("/api/try", method="OPTIONS", **headers)  # what a browser asks beforehand
    assert asking.status == 403
    assert not [name for name in asking.headers if name.startswith("access-control")]
    assert page.device.agent.GetStatus(agent.GetStatusRequest()).ledger.releases == before


def test_its_own_requests_come_in(page: Page) -> None:
    own = {"Origin": f"http://{page.door.address}", "Sec_Fetch_Site": "same-origin"}
    assert page.ask("/api/overview", **own).status == 200
    local = f"localhost:{page.door.place[1]}"  # as through a tunnel
    assert page.ask("/api/overview", Host=local, Origin=f"http://{local}").status == 200


def test_every_answer_forbids_what_the_page_does_not_need(page: Page) -> None:
    for path, kind in (("/", "text/html"), ("/look.css", "text/css"), ("/none", "application")):
        answer = page.ask(path, Authorization="" if path != "/none" else f"Bearer {page.door.key}")
        assert answer.headers["content-type"].startswith(kind)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "set-cookie" not in answer.headers


def test_its_files_name_nobody_else(page: Page) -> None:
    for path in ("/", "/look.css", "/parts.js", "/page.js"):
        text = page.ask(path).body.decode()
        assert "//" not in text.replace("// ", "")
        assert "innerHTML" not in text


def test_nothing_is_read_of_who_has_not_entered(page: Page) -> None:
    with closing(http.client.HTTPConnection(*page.door.place, timeout=60)) as connection:
        connection.request("GET", "/", b"x" * 1000, {"Host": page.door.address})
        assert connection.getresponse().status == 413


def test_a_text_is_tried_and_nothing_is_charged(page: Page) -> None:
    before = page.device.agent.GetStatus(agent.GetStatusRequest()).ledger
    answer = page.ask("/api/try", {"text": MARKUP, "draws": 5, "policy": "content"})
    for trial in answer.json:
        assert trial["policy"] == "content"
        assert len(trial["draws"]) == 5
        assert 0 < trial["guessed"] <= 1
        for draw in trial["draws"]:
            text = "".join(piece["text"] for piece in draw)
            assert text.startswith("<")  # as it is: the page puts it in as text
            assert {piece["became"] for piece in draw} <= {"", "pass", "noise", "draw"}
            assert "Zelphira" not in text  # in no list that is drawn from
    assert [trial["level"] for trial in answer.json] == ["strong", "balanced", "light"]
    assert page.device.agent.GetStatus(agent.GetStatusRequest()).ledger == before


def test_wrong_requests_are_told_what_to_do(page: Page) -> None:
    for body, said in (
        ({"text": "a" * (LONGEST_TEXT + 1)}, "at most"),
        ({"text": "a", "draws": 1000}, "out of range"),
        ({"text": "a" * (MOST_TRIED // 9 // 5 + 1), "draws": 5}, "try at most"),
        ({"text": "a", "level": "none"}, "level"),
        ({"text": "a", "more": 1}, "not supported"),
        ({}, "text is missing"),
    ):
        answer = page.ask("/api/try", body)
        assert 400 <= answer.status < 500
        assert said in answer.error["message"]
    assert page.ask("/api/try").status == 405
    assert page.ask("/v1/models").status == 404  # the OpenAI endpoint is another place


def test_one_text_is_tried_at_a_time(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    within = most = 0

    def counted(*given: Any) -> Trial:
        nonlocal within, most
        within += 1
        most = max(most, within)
        try:
            time.sleep(0.01)  # long enough to be met
            return tried(*given)
        finally:
            within -= 1

    monkeypatch.setattr(page_module, "tried", counted)
    with ThreadPoolExecutor(4) as threads:
        asked = threads.map(lambda _: page.ask("/api/try", {"text": "the pond"}).status, range(4))
    assert [*asked] == 4 * [200]
    assert most == 1


def test_what_left_and_what_it_cost_is_told(page: Page) -> None:
    released = page.device.agent.Privatize(agent.PrivatizeRequest(text="Anna sees the pond")).text
    told = page.ask("/api/record").json
    assert told["on"] is True
    assert told["left"][0]["text"] == released
    assert (told["left"][0]["kind"], told["left"][0]["to"]) == ("app", "")
    ledger = page.ask("/api/ledger").json
    ((_, spent, texts),) = ledger["days"]
    assert ledger["purposes"] == [["apps on this device", spent, texts]]
    status = page.device.agent.GetStatus(agent.GetStatusRequest()).ledger
    assert (status.spent, status.releases) == (spent, texts)


def test_the_doctor_looks(page: Page) -> None:
    found = {each["check"]: each["result"] for each in page.ask("/api/doctor").json}
    assert found["daemon"] == "OK"
    assert found["cloud"] == "SKIP"


def test_it_ends_with_its_daemon_and_is_not_there_unasked(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with running(config, lexicon_tagger) as address, connect(address) as device:
        door = entered(device.owner.OpenPage(edge_owner_pb2.OpenPageRequest()).url)
        device.agent.Privatize(agent.PrivatizeRequest(text="Anna sees the pond"))
        assert door.ask("/api/record").json == {"on": False, "left": []}
    with pytest.raises(ConnectionRefusedError):
        door.ask("/")


def test_it_stands_on_loopback_alone(tmp_path: Path, small_bundle_folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"ui\.address"):
        configured(tmp_path, bundle=small_bundle_folder, SOTTO_UI_ADDRESS="0.0.0.0:0")
