"""Processes die; examples are held once, jobs finish, adapters work."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.live.testbed import Agent, Cloud, command
from bench.live.wiretap import Wiretap
from tests.support.paths import HELPDESK
from tests.support.waiting import until

from .conftest import Light


@pytest.fixture
def cloud(owner: Path, light: Light) -> Iterator[Cloud]:
    """A running cloud that trains in no time."""
    with light.running(owner) as running:
        yield running


def _table(folder: Path, rows: int) -> Path:
    lines = (HELPDESK / "train.tsv").read_text(encoding="utf-8").splitlines()[: rows + 1]
    table = folder / "train.tsv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table


def _customization(agent: Agent) -> dict[str, object]:
    status = json.loads(agent.run("status", "--json").splitlines()[-1])
    found: dict[str, object] = status["customizations"][0]
    return found


def _examples(cloud: Cloud) -> list[tuple[int, str]]:
    with sqlite3.connect(f"file:{cloud.state / 'sottovoce.db'}?mode=ro", uri=True) as db:
        return db.execute("SELECT sequence, example_id FROM examples ORDER BY sequence").fetchall()


def _jobs(cloud: Cloud) -> list[dict[str, Any]]:
    """As the provider sees them."""
    arguments = [command("sotto-cloud"), "jobs", "list", "--state", str(cloud.state), "--json"]
    found: list[dict[str, Any]] = json.loads(subprocess.check_output(arguments))["jobs"]
    return found


def _of_the_job(cloud: Cloud, column: str) -> Any:
    """Noted by the cloud of its only job; 0 before. To ask the agent takes a process each time."""
    with sqlite3.connect(f"file:{cloud.state / 'sottovoce.db'}?mode=ro", uri=True) as db:
        row = db.execute(f"SELECT {column} FROM jobs").fetchone()
    return (row and row[0]) or 0


def test_cloud_killed_during_a_job_finishes_it_after_a_restart(
    agent: Agent, cloud: Cloud, tmp_path: Path
) -> None:
    table = _table(tmp_path, 96)
    options = ["--epochs", "36", "--reconstruction", "--plain-tokens", "4", "--no-watch", "--json"]
    agent.run("customize", "desk", "--input", str(table), *options)
    until(lambda: _of_the_job(cloud, "json_extract(progress, '$.epoch')") >= 1)
    until(lambda: float(str(_customization(agent)["epoch"])) >= 1)
    told = _customization(agent)
    figures = ("loss", "reconstruction_loss", "examples_per_second", "seconds_left")
    assert all(float(str(told[figure])) > 0 for figure in figures), told
    cloud.kill()
    assert _of_the_job(cloud, "state") == "RUNNING", "the kill must fall into the job"
    time.sleep(1)
    cloud.start()
    until(lambda: _of_the_job(cloud, "state") == "SUCCEEDED", 240)
    until(lambda: _customization(agent)["state"] == "ready")
    done, (job,) = _customization(agent), _jobs(cloud)
    assert (done["epoch"], done["epochs"]) == (job["epoch"], job["epochs"]) == (36, 36)
    assert job["step"] == job["steps"]
    assert float(str(done["held_out_accuracy"])) == pytest.approx(
        job["held_out_accuracy"], abs=1e-3
    )
    assert float(str(done["reconstruction_loss"])) > 0
    assert (job["method"], job["examples"], job["state"]) == ("lora", 96, "succeeded")
    answer = agent.run("predict", "desk", "The kitchen sink is blocked again", "--json")
    assert json.loads(answer)["label"] in {
        "plumbing",
        "electrical",
        "appliance",
        "pest_control",
        "cleaning",
        "billing",
    }


@contextmanager
def _stalled_upload(owner: Path, cloud: Cloud, table: Path) -> Iterator[tuple[Agent, Wiretap]]:
    """Run an agent, and stop its network in the middle of an upload."""
    token = cloud.enroll("t")
    with Wiretap(cloud.address) as tap:
        agent = Agent.at(owner, cloud=tap.address, tenant="t", token=token)
        agent.hold(cloud.bundle)
        agent.start()
        try:
            stop_after = tap.stop_after = tap.bytes_sent + 30_000
            agent.run("customize", "desk", "--input", str(table), "--epochs", "1", "--no-watch")
            until(lambda: tap.bytes_sent >= stop_after)
            until(lambda: len(_examples(cloud)) > 0)
            assert len(_examples(cloud)) < 480, "the kill must fall into the upload"
            yield agent, tap
        finally:
            agent.kill()


def _holds_each_once(cloud: Cloud) -> None:
    held: list[tuple[int, str]] = []

    def all_there() -> bool:
        """Seen at once: with the end of the job they are gone."""
        held[:] = _examples(cloud)
        return len(held) >= 480

    until(all_there)
    until(lambda: _of_the_job(cloud, "state") in ("QUEUED", "RUNNING", "SUCCEEDED"))
    assert [sequence for sequence, _ in held] == list(range(480))
    assert len({identity for _, identity in held}) == 480


def test_cloud_killed_during_an_upload_holds_each_example_once(
    owner: Path, cloud: Cloud, tmp_path: Path
) -> None:
    with _stalled_upload(owner, cloud, _table(tmp_path, 480)) as (_, tap):
        cloud.kill()
        tap.stop_after = None
        cloud.start()
        _holds_each_once(cloud)
        (job,) = _jobs(cloud)
        assert job["examples"] == 480


def test_agent_killed_during_an_upload_sends_each_example_once(
    owner: Path, cloud: Cloud, tmp_path: Path
) -> None:
    with _stalled_upload(owner, cloud, _table(tmp_path, 480)) as (agent, tap):
        agent.kill()
        tap.stop_after = None
        agent.start()
        _holds_each_once(cloud)


def test_device_without_a_cloud_still_privatises(agent: Agent, cloud: Cloud) -> None:
    cloud.kill()
    agent.kill()  # nor is there a daemon
    text = b"Call Dr Elena Marsh on 117-4471, order AX-99231, mail e.marsh@marsh-clinic.net\n"
    out = json.loads(agent.run("privatize", "--level", "strong", "--json", stdin=text))
    for secret in ("117-4471", "AX-99231", "e.marsh", "marsh-clinic"):
        assert secret not in out["text"]


def test_same_document_gives_the_same_release(alone: Agent) -> None:
    agent = alone
    text = b"My daughter is allergic to the new cleaning spray\n"
    first = agent.run("privatize", "--json", stdin=text)
    agent.stop()
    assert agent.run("privatize", "--json", stdin=text) == first
    agent.start()
    assert agent.run("privatize", "--json", stdin=text) == first


def test_a_cloud_that_is_down_loses_nothing(agent: Agent, cloud: Cloud, tmp_path: Path) -> None:
    table = _table(tmp_path, 60)
    cloud.kill()
    answer = subprocess.run(
        [command("sotto"), "predict", f"id:{26 * 'a'}", "Hello there", "--json"],
        env={**os.environ, **agent.env},
        capture_output=True,
        check=False,
    )
    assert answer.returncode == 6  # Unavailable
    assert b"fix" in answer.stdout + answer.stderr
    agent.run(
        "customize",
        "desk",
        "--input",
        str(table),
        "--method",
        "head",
        "--epochs",
        "1",
        "--no-watch",
    )
    assert _customization(agent)["state"] == "uploading"
    cloud.start()
    until(lambda: _of_the_job(cloud, "state") == "SUCCEEDED", 240)
    until(lambda: _customization(agent)["state"] == "ready")
