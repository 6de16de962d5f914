"""A real cloud learns each correction once, even if any process dies meanwhile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.live.testbed import Agent, Cloud
from tests.e2e.conftest import Light
from tests.support.paths import HELPDESK
from tests.support.waiting import until

ROWS = 96
CORRECTED = 32


@pytest.fixture
def cloud(owner: Path, light: Light) -> Iterator[Cloud]:
    with light.running(owner) as running:
        yield running


@pytest.fixture
def agent(owner: Path, light: Light, cloud: Cloud) -> Iterator[Agent]:
    """Run an agent with an adapter "desk" that the cloud has trained."""
    running = Agent.at(owner, cloud=cloud.address, tenant="t", token=cloud.enroll("t"))
    running.hold(light.bundle)
    running.start()
    table = str(_table(owner, 0, ROWS))
    running.run("customize", "desk", "--input", table, "--epochs", "1", "--method", "head")
    yield running
    running.kill()


def _table(folder: Path, first: int, last: int) -> Path:
    header, *rows = (HELPDESK / "train.tsv").read_text(encoding="utf-8").splitlines()
    table = folder / f"from{first}.tsv"
    table.write_text("\n".join([header, *rows[first:last]]) + "\n", encoding="utf-8")
    return table


def _told(agent: Agent, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(agent.run(*arguments, "--json").splitlines()[-1])
    return found


def _states(cloud: Cloud) -> list[tuple[str, int]]:
    """Of each job its state and how many examples it was sent."""
    with sqlite3.connect(f"file:{cloud.state / 'sottovoce.db'}?mode=ro", uri=True) as db:
        return db.execute("SELECT state, next_sequence FROM jobs ORDER BY number").fetchall()


def test_an_agent_killed_between_the_upload_and_the_end_teaches_each_once(
    agent: Agent, cloud: Cloud, tmp_path: Path
) -> None:
    spent = _told(agent, "status")["ledger"]
    agent.run("correct", "desk", "--input", str(_table(tmp_path, ROWS, ROWS + CORRECTED)))
    waiting = {"adapter": "desk", "waiting": CORRECTED, "taken": 0}
    assert _told(agent, "corrections", "desk") == waiting
    assert _told(agent, "status")["ledger"] == spent
    assert len(_states(cloud)) == 1

    begun = _told(
        agent, "customize", "desk", "--add", "--corrections", "--epochs", "40", "--no-watch"
    )
    taken = {"adapter": "desk", "waiting": 0, "taken": CORRECTED}
    assert _told(agent, "corrections", "desk") == taken
    until(lambda: [*_states(cloud), ("", 0)][1][0] in ("QUEUED", "RUNNING"))
    agent.kill()
    assert _states(cloud)[1][0] != "SUCCEEDED", "the kill must fall between upload and end"
    assert _told(agent, "corrections", "desk") == taken  # told by a command alone
    until(lambda: _states(cloud)[1][0] == "SUCCEEDED", 240)
    assert _told(agent, "corrections", "desk") == taken  # the device does not know it yet
    agent.start()
    until(lambda: _told(agent, "corrections", "desk") == taken | {"taken": 0})
    done = _told(agent, "show", "desk")
    assert (done["present"], done["versions"][0]["examples"]) == (begun["id"], CORRECTED)
    assert _states(cloud)[1:] == [("SUCCEEDED", CORRECTED)]
    after = _told(agent, "status")["ledger"]
    assert after["labels_as_they_are"] == spent["labels_as_they_are"] + CORRECTED
    assert spent["releases"] < after["releases"] <= spent["releases"] + CORRECTED
