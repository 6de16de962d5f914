"""All roles are seen at a glance, and what does not answer does not hide the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from prometheus_client import start_http_server

from bench.live.testbed import free_address
from sottovoce.cloud.cli import main
from sottovoce.cloud.job import Progress
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.metrics import CallMetrics, TrainerMetrics, expose
from tests.support.jobs import claim, create, opened, queued
from tests.support.stores import FileStore


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """One in training, one that waits, one in upload."""
    with opened(tmp_path, FileStore()) as jobs:
        queued(jobs, "1"), queued(jobs, "2", "other"), create(jobs, "3")
        _, lease = claim(jobs, "trainer-of-the-test")
        Queue(jobs.database).report(lease, Progress(step=3, steps=9, examples_per_second=2.04))
        yield jobs


def status(state: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["status", "--state", str(state), *arguments])
    return done.exit_code, done.stdout


def told(state: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out = status(state, *arguments, "--json")
    return code, json.loads(out)


def test_the_database_tells_jobs_queue_and_trainers(tmp_path: Path, jobs: Jobs) -> None:
    code, found = told(tmp_path)
    assert (code, found["well"], found["health"], found["metrics"]) == (0, True, [], [])
    database = found["database"]
    assert database["jobs"] == {
        "uploading": 1,
        "queued": 1,
        "running": 1,
        "succeeded": 0,
        "failed": 0,
        "cancelled": 0,
    }
    assert (database["trainers"], database["expired_leases"]) == (1, 0)
    (running,) = database["running"]
    assert running["trainer"] == "trainer-of-the-test"
    assert (running["step"], running["steps"], running["examples_per_second"]) == (3, 9, 2.0)
    assert 0 < running["lease_seconds"] <= 10
    _, said = status(tmp_path)
    assert "1 uploading, 1 queued, 1 running" in said
    assert "the oldest waits for" in said
    assert "trainer-  " in said, "a random name is cut"
    with jobs.database.write() as transaction:
        transaction.change("UPDATE jobs SET lease_ends = 1")
    code, found = told(tmp_path)
    assert (code, found["database"]["trainers"], found["database"]["expired_leases"]) == (0, 0, 1)
    assert "0 with a job; 1 whose lease has ended" in status(tmp_path)[1]


def test_processes_tell_whether_they_answer_and_what_they_did(
    tmp_path: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", f"http://{free_address()}")  # for what is outside
    servicer = health.HealthServicer()
    threads = ThreadPoolExecutor(2)
    server = grpc.server(threads)  # a health service alone, as every role with calls has
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    calls, trainer = CallMetrics(), TrainerMetrics()
    calls.calls.labels("StartJob", "OK").inc(5)
    calls.calls.labels("StartJob", "NOT_FOUND").inc(2)
    trainer.jobs.labels("succeeded").inc(4)
    trainer.jobs.labels("failed").inc()
    trainer.steps.inc(70)
    trainer.busy.set(float("nan"))  # a figure of nothing
    at, of_front, of_trainer = free_address(), free_address(), free_address()
    stops = [expose(calls, of_front), expose(trainer, of_trainer)]
    server.add_insecure_port(at)
    server.start()
    asked = ["--health", at, "--metrics", of_front, "--metrics", of_trainer]
    try:
        servicer.set("", health_pb2.HealthCheckResponse.SERVING)
        code, found = told(tmp_path, *asked)
        said = status(tmp_path, *asked)[1]
        servicer.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
        ending = told(tmp_path, *asked)
    finally:
        server.stop(None).wait()
        threads.shutdown()
        for stop in stops:
            stop()
    assert (code, found["well"]) == (0, True)
    assert found["health"] == [{"address": at, "state": "serving", "serving": True}]
    front, train = found["metrics"]
    assert (front["role"], front["calls"], front["calls_ok"]) == ("front", 7, 5)
    assert (train["role"], train["jobs_done"], train["jobs_failed"]) == ("trainer", 4, 1)
    assert (train["steps"], train["busy"]) == (70, 0)
    assert "waiting" not in {*front, *train}, "neither has a model"
    assert train["memory_bytes"] > 1e6
    assert f"{at}  serving" in said
    assert " MB" in said
    assert (ending[0], ending[1]["well"]) == (6, False)
    assert ending[1]["health"] == [{"address": at, "state": "starting or ending", "serving": False}]


def test_who_does_not_answer_does_not_hide_the_rest(tmp_path: Path, jobs: Jobs) -> None:
    nobody = free_address()
    code, found = told(tmp_path, "--health", nobody, "--metrics", nobody)
    assert (code, found["well"]) == (6, False)
    assert found["database"]["jobs"]["running"] == 1
    assert nobody in found["health"][0]["error"]
    assert "--metrics" in found["metrics"][0]["fix"]
    assert status(tmp_path, "--metrics", nobody)[1].count("no answer") == 1
    empty = tmp_path / "empty"
    code, found = told(empty)
    assert code == 6
    assert found["database"]["error"]
    assert not empty.exists(), "a look makes no state"


def test_a_page_that_is_not_ours_has_no_role(tmp_path: Path, jobs: Jobs) -> None:
    address = free_address()
    server, thread = start_http_server(int(address.rpartition(":")[2]), "127.0.0.1")
    try:
        _, found = told(tmp_path, "--metrics", address)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert found["metrics"][0]["role"] == ""
    assert "calls" not in found["metrics"][0]


def test_addresses_may_stand_in_the_file(tmp_path: Path, jobs: Jobs) -> None:
    nobody = free_address()
    file = tmp_path / "cloud.toml"
    file.write_text(f'state = "{tmp_path}"\n[status]\nmetrics = ["{nobody}"]\n')
    done = CliRunner().invoke(main, ["--config", str(file), "status", "--json"])
    assert [each["address"] for each in json.loads(done.stdout)["metrics"]] == [nobody]
