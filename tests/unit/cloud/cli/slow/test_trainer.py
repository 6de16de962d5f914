"""A separate trainer does the jobs of a state, and ends in order."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from bench.live.testbed import free_address
from sottovoce.cloud.cli import main
from sottovoce.cloud.config import STORE_VARIABLE
from sottovoce.cloud.job import State
from sottovoce.cloud.store.adapters import digest, locate
from sottovoce.core.errors import NotFound
from tests.support.jobs import opened, queued
from tests.support.processes import environment
from tests.support.stores import Store
from tests.support.waiting import until

COMMAND = [sys.executable, "-c", "from sottovoce.cloud.cli import main; main()", "trainer"]
COMMAND += ["--threads", "1", "--json"]


def told(address: str) -> str:
    """What Prometheus reads there."""
    return str(urlopen(f"http://{address}/metrics").read().decode())


def test_a_trainer_does_the_jobs_of_a_store_and_ends_when_told(
    tmp_path: Path, bert: str, store: Store
) -> None:
    with opened(tmp_path, store) as jobs:
        first = queued(jobs)
        metrics = free_address()
        said = tmp_path / "log"
        with said.open("wb") as log:
            trainer = subprocess.Popen(
                [*COMMAND, "--state", tmp_path, "--backbone", bert, "--metrics", metrics],
                env={
                    **environment(),
                    STORE_VARIABLE: store.url(tmp_path),
                    "SOTTO_CLOUD_LOG_FORMAT": "json",
                },
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            assert trainer.stdout is not None
            assert json.loads(trainer.stdout.readline()) == {"ready": True, "pid": trainer.pid}
            until(lambda: jobs.get(first.id).state == State.SUCCEEDED)
            second = queued(jobs, "another", "other")  # one that comes while it is idle
            until(lambda: jobs.get(second.id).state == State.SUCCEEDED)
            until(lambda: 'jobs_total{outcome="succeeded"} 2.0' in told(metrics))
            assert 'sottovoce_jobs{state="succeeded"} 2.0' in told(metrics)
            trainer.send_signal(signal.SIGTERM)
            assert trainer.wait(60) == 0
        finally:
            trainer.kill()
            trainer.wait()
            if trainer.stdout is not None:
                trainer.stdout.close()
        lines = [json.loads(line) for line in said.read_text().splitlines()]
        ours = [line for line in lines if line["role"] == "trainer" and "event" in line]
        assert {"job %s: %d examples"} <= {line["event"] for line in ours}
        located = locate(jobs.database, "acme", "topics")
        assert located.sha256 == digest(located.folder)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ray-trainers", "2"], "--ray-trainers is for --ray"),
        (["--ray", "--metrics", "127.0.0.1:1"], "--metrics is not for --ray"),
        (["--ray"], "--ray needs Ray, which is not installed"),
        (["--ray", "10.0.0.1:6379", "--ray-trainers", "2"], "--ray needs Ray"),
    ],
)
def test_what_ray_cannot_do_is_told_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = CliRunner().invoke(main, ["trainer", *options, "--state", str(tmp_path), "--json"])
    assert done.exit_code == 78
    told = json.loads(done.stderr.splitlines()[-1])["error"]
    assert told["problem"].startswith(said)
    assert told["fix"]
    assert not [*tmp_path.iterdir()], "nothing was begun"


@pytest.mark.parametrize("option", ["--backbone", "--decoder"])
def test_a_wrong_model_ends_a_trainer_before_it_takes_a_job(tmp_path: Path, option: str) -> None:
    missing = str(tmp_path / "missing")
    called = CliRunner().invoke(
        main, ["trainer", "--state", str(tmp_path / "state"), option, missing]
    )
    assert called.exit_code == NotFound.exit_code
    assert missing in called.output
    assert not (tmp_path / "state").exists()
