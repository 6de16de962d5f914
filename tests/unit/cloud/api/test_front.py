"""A front and a replica share the work of a server: each answers its part, and no more."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bench.live.testbed import free_address
from sottovoce.cloud.config import Settings
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from sottovoce.core.errors import NotReady
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.v1 import training_pb2 as wire
from tests.support.backbones import tiny_bert
from tests.support.caller import Caller, credentials
from tests.support.cloud import OWN_CONNECTION, Cloud, cloud
from tests.support.examples import examples
from tests.support.processes import environment
from tests.support.tiny_bundle import tiny_bundle

COMMAND = [sys.executable, "-c", "from sottovoce.cloud.cli import main; main()", "front"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A state, a backbone and its bundle."""
    root = tmp_path_factory.mktemp("roles")
    bert = tiny_bert(root / "bert")
    return root / "state", bert, tiny_bundle(root / "bundle", bert)


LEFT = "c0ffee.1"
"""Where a holder worked that died."""


@pytest.fixture(scope="module")
def metrics() -> str:
    """Where the front tells its metrics."""
    return free_address()


@pytest.fixture(scope="module")
def replica(folders: tuple[Path, Path, Path]) -> Iterator[Cloud]:
    """A running replica."""
    state, bert, bundle = folders
    settings = Settings(
        state, (bundle,), "127.0.0.1:0", str(bert), threads=1, trainer=False, jobs=False
    )
    with cloud(settings) as running:
        yield running


@pytest.fixture(scope="module")
def front(
    replica: Cloud, folders: tuple[Path, Path, Path], metrics: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running front on the same state, and its address."""
    state, _, bundle = folders
    (state / "scratch" / LEFT).mkdir(parents=True)
    options = ["--listen", "127.0.0.1:0", "--state", state, "--bundle", bundle]
    started = subprocess.Popen(
        [*COMMAND, *options, "--metrics", metrics, "--json"],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    try:
        ready = json.loads(started.stdout.readline())
        yield started, ready["address"]
    finally:
        started.kill()
        started.wait()
        started.stdout.close()


@contextlib.contextmanager
def calling(address: str, metadata: tuple[tuple[str, str], ...]) -> Iterator[Caller]:
    """Open a tenant's stubs over a new connection."""
    with grpc.insecure_channel(address, OWN_CONNECTION) as channel:
        yield Caller(channel, metadata)


@pytest.fixture(scope="module")
def acme(folders: tuple[Path, Path, Path]) -> tuple[tuple[str, str], ...]:
    """The metadata of a tenant, enrolled from a process that is neither of the two."""
    database = SqliteDatabase(folders[0])
    tenants = Tenants(database)
    token = tenants.enroll("acme")
    database.close()
    return credentials("acme", token)


def test_a_front_takes_and_watches_what_a_replica_has_let_in(
    replica: Cloud,
    front: tuple[subprocess.Popen[str], str],
    acme: tuple[tuple[str, str], ...],
) -> None:
    rows = examples(24)
    with calling(replica.server.address, acme) as models, calling(front[1], acme) as jobs:
        job = models.create(replica.bundle_id, training={"epochs": 1})
        assert jobs.upload(job.id, rows) == len(rows)
        jobs.start(job.id, len(rows))
        assert jobs.get(job.id).state == wire.JOB_STATE_QUEUED
        replica.work()
        assert jobs.watch(job.id)[-1].state == wire.JOB_STATE_SUCCEEDED


def test_what_came_to_the_wrong_one_is_told_where_it_belongs(
    replica: Cloud,
    front: tuple[subprocess.Popen[str], str],
    acme: tuple[tuple[str, str], ...],
) -> None:
    with calling(replica.server.address, acme) as models, calling(front[1], acme) as jobs:
        with pytest.raises(grpc.RpcError) as caught:
            jobs.create(replica.bundle_id)
        assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert "balancer" in caught.value.details()
        request = wire.GetAdapterRequest(adapter="topics")
        with pytest.raises(grpc.RpcError) as caught:
            next(jobs.training.GetAdapter(request, metadata=acme))
        assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        for call in (
            lambda: models.upload("job", examples(1)),
            lambda: models.get("job"),
            lambda: models.watch("job"),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call()
            error = from_rpc_error(caught.value, peer="the cloud")
            assert isinstance(error, NotReady)
            assert "balancer" in error.fix
    for address in (front[1], replica.server.address):
        with calling(address, credentials("acme", "wrong")) as stranger:
            for call in (lambda: stranger.create(replica.bundle_id), lambda: stranger.get("job")):
                with pytest.raises(grpc.RpcError) as caught:
                    call()
                assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_a_front_loads_no_model_and_says_what_it_answers_and_counts(
    front: tuple[subprocess.Popen[str], str],
    metrics: str,
    acme: tuple[tuple[str, str], ...],
    folders: tuple[Path, Path, Path],
) -> None:
    process, address = front
    assert not (folders[0] / "scratch" / LEFT).exists()
    with calling(address, acme) as jobs:
        jobs.training.ListJobs(wire.ListJobsRequest(), metadata=acme)
        health = health_pb2_grpc.HealthStub(jobs.channel)
        for name in ("", "sottovoce.v1.TrainingService"):
            answer = health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as caught:
            health.Check(health_pb2.HealthCheckRequest(service="sottovoce.v1.InferenceService"))
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    loaded = Path(f"/proc/{process.pid}/maps").read_text()
    assert "grpc" in loaded
    assert "torch" not in loaded
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=60) as answer:
        told = answer.read().decode()
    assert 'sottovoce_calls_total{code="OK",method="ListJobs"}' in told
    assert "sottovoce_jobs{" in told
    assert "acme" not in told


def test_what_a_dead_trainer_left_on_the_machine_goes_when_another_part_starts_there(
    folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    _, bert, bundle = folders
    (tmp_path / "scratch" / LEFT).mkdir(parents=True)
    settings = Settings(
        tmp_path, (bundle,), "127.0.0.1:0", str(bert), threads=1, trainer=False, jobs=False
    )
    with cloud(settings):
        assert not (tmp_path / "scratch" / LEFT).exists()


def test_a_front_ends_in_order(front: tuple[subprocess.Popen[str], str]) -> None:
    # The last of those that share it.
    front[0].terminate()
    assert front[0].wait(60) == 0
