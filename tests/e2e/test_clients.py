"""The clients that need nothing but Python, against a real daemon; the others: `make clients`."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clients import builds, check
from clients.builds import CLIENTS, PROTOS
from clients.check import READINGS, SAID, Device
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.cli.client import Remote
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.upstream_server import openai_server


@pytest.fixture(scope="module")
def device(
    tmp_path_factory: pytest.TempPathFactory, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[Device]:
    folder = tmp_path_factory.mktemp("clients")
    with check.started(folder, small_bundle_folder, lexicon_tagger) as started:
        yield started


@pytest.fixture(autouse=True)
def _thin(monkeypatch: pytest.MonkeyPatch) -> None:
    """This interpreter, which is shown the stubs and the client alone."""
    paths = os.pathsep.join(map(str, (PROTOS, CLIENTS / "python")))
    program = f"import sys, runpy; sys.argv.pop(0); sys.path[:0] = {paths.split(os.pathsep)!r}; "
    program += "runpy.run_path(sys.argv[0], run_name='__main__')"
    monkeypatch.setattr(check, "python", lambda: [sys.executable, "-c", program])


def test_a_sensor_streams_and_is_told_labels(device: Device) -> None:
    told = check.asked([*check.python(), "sensor.py"], device, CLIENTS / "python")
    lines = [line.split("\t") for line in told.splitlines()]
    assert len(lines) == len(READINGS.splitlines())
    assert {label for _, label in lines} <= {"clinic", "outside"}
    with Remote(device.address) as remote:  # the same bytes as any other app gets
        asked = agent.PredictRequest(adapter=check.ADAPTER, text=READINGS.splitlines()[0])
        answer = remote.predict(asked)
    assert lines[0] == [answer.released_text, answer.label]
    assert "Anna" not in told


def test_a_sensor_is_an_app_by_its_token_over_tcp(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    settings = {"SOTTO_AGENT_LISTEN": "127.0.0.1:0", "SOTTO_AGENT_APPS": "true"}
    with check.started(tmp_path, small_bundle_folder, lexicon_tagger, **settings) as device:
        command = [*check.python(), "sensor.py"]
        told = check.asked(command, device, CLIENTS / "python")
        assert len(told.splitlines()) == len(READINGS.splitlines())
        with pytest.raises(builds.Failed, match="UNAUTHENTICATED"):
            check.asked(command, replace(device, token=""), CLIENTS / "python")


def test_a_chat_line_and_a_conversation_over_http_are_turned_back(device: Device) -> None:
    assert check.chatted(device) == SAID
    assert check.spoken(device) == SAID


def test_a_conversation_is_remembered_by_its_last_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["conversation_agent.py"])
    monkeypatch.setenv("KEY", "any")
    with openai_server() as server:
        server.headers = {"Content-Type": "application/json"}
        server.answer = lambda _: [b'{"choices": [{"message": {"content": "yes"}}]}']
        monkeypatch.setenv("DOORWAY", server.url)
        client = runpy.run_path(str(CLIENTS / "http" / "conversation_agent.py"))
        turns, conversations = client["TURNS"], client["CONVERSATIONS"]
        for number in range(turns):
            client["agent"].process("kitchen", str(number))
        last = server.asked[-1][2]["messages"]
        assert [each["role"] for each in last] == ["user", "assistant"] * (turns // 2) + ["user"]
        assert last[-1]["content"] == str(turns - 1)
        for number in range(conversations):
            client["agent"].process(f"room {number}", "hello")
        client["agent"].process("kitchen", "hello")  # forgotten meanwhile
        assert len(server.asked[-1][2]["messages"]) == 1
        client["agent"].process(f"room {conversations - 1}", "again")
        assert len(server.asked[-1][2]["messages"]) == 3


def test_a_client_that_fails_or_differs_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    def crash() -> str:
        return builds.run([sys.executable, "-c", "raise SystemExit('no agent')"], CLIENTS)

    assert check.holds("good", lambda: SAID, SAID)
    assert not check.holds("other", lambda: "what else", SAID)
    assert not check.holds("broken", crash, SAID)
    told = capsys.readouterr().out
    assert "other       FAILED: 'what else'" in told
    assert "no agent" in told


def test_what_was_installed_before_its_sources_changed_is_not_new(tmp_path: Path) -> None:
    done, source = tmp_path / "done", tmp_path / "sources" / "deep" / "client.py"
    source.parent.mkdir(parents=True)
    source.touch()
    assert not builds.newer(done, tmp_path / "sources")
    done.touch()
    assert builds.newer(done, tmp_path / "sources")
    os.utime(source, (done.stat().st_mtime + 1,) * 2)
    assert not builds.newer(done, tmp_path / "sources")
