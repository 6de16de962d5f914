"""The clients that need nothing but Python, against a real daemon; the others: `make clients`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import check
from clients.check import CLIENTS, PROTOS, READINGS, SAID, Device
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.cli.client import Remote
from sottovoce.v1 import edge_agent_pb2 as agent


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


def test_a_chat_line_and_a_conversation_over_http_are_turned_back(device: Device) -> None:
    assert check.chatted(device) == SAID
    assert check.spoken(device) == SAID
