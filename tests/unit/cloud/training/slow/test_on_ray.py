"""Trainers on a Ray cluster of two machines do the jobs, come back when killed, and end in order.

Not a part of `make test`, which installs no Ray:

    .venv/bin/pip install --no-deps --require-hashes -r deploy/locks/ray.txt
    .venv/bin/pytest tests/unit/cloud/training/slow/test_on_ray.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="trainers on Ray need the extra `ray`")

from ray.cluster_utils import Cluster

from sottovoce.cloud.job import State, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import overview
from sottovoce.cloud.store.adapters import digest, locate
from tests.support.examples import RELEASE
from tests.support.jobs import fill, opened
from tests.support.processes import environment
from tests.support.stores import FileStore
from tests.support.waiting import until

COMMAND = [sys.executable, "-c", "from sottovoce.cloud.cli import main; main()", "trainer"]
SECONDS = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two machines with a GPU each, as far as Ray knows; both are this one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        for name, value in environment().items():
            patched.setenv(name, value)
        room = {"num_cpus": 2, "num_gpus": 1, "object_store_memory": 80 << 20}
        made = Cluster(initialize_head=True, head_node_args=room)
        made.add_node(**room)
        yield made
        made.shutdown()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    with opened(tmp_path / "state", FileStore()) as jobs:
        yield jobs


def queued(jobs: Jobs, request: str, tenant: str = "acme", epochs: int = 1) -> str:
    training = TrainingOptions(epochs=epochs, batch_size=4)
    job = jobs.create(tenant, request, f"a{request}", training, RELEASE)
    return jobs.start(job.id, tenant, fill(jobs, job)).id


@contextmanager
def training(cluster: Any, jobs: Jobs, bert: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command, once it asked for its trainers."""
    options = ["--state", str(jobs.database.state), "--backbone", bert, "--threads", "1", "--json"]
    command = [*COMMAND, "--ray", cluster.address, *options, *more]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert json.loads(line) == {"ready": True, "pid": process.pid, "trainers": 2}
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def trainers(jobs: Jobs) -> set[str]:
    """The names of those that have a job."""
    return {each.trainer for each in overview(jobs.database).running if each.held}


def pids() -> set[int]:
    """Of the processes of trainers, by the name that Ray gives them."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            own = os.stat(folder).st_uid == os.getuid()
        except OSError:
            continue
        if own and command.startswith(b"ray::Trainer"):
            found.add(int(folder.name))
    return found


def test_jobs_are_done_beside_each_other_and_a_killed_trainer_comes_back(
    cluster: Any, jobs: Jobs, bert: str
) -> None:
    long = [queued(jobs, "1", "acme", 400), queued(jobs, "2", "other", 400)]
    with training(cluster, jobs, bert) as process:
        until(lambda: overview(jobs.database).trainers == 2, SECONDS)
        until(lambda: all(jobs.get(job).progress.step > 0 for job in long), SECONDS)
        before, names = pids(), trainers(jobs)
        assert len(before) == len(names) == 2
        os.kill(min(before), signal.SIGKILL)
        until(lambda: len(pids() - before) == 1, SECONDS)
        until(lambda: len(trainers(jobs) | names) == 3, SECONDS)
        assert {jobs.get(job).state for job in long} == {State.RUNNING}
        for job in long:
            jobs.cancel(job)
        until(lambda: {jobs.get(job).state for job in long} == {State.CANCELLED}, SECONDS)
        short = queued(jobs, "3")
        until(lambda: jobs.get(short).state == State.SUCCEEDED, SECONDS)
        located = locate(jobs.database, "acme", "a3")
        assert located.sha256 == digest(located.folder)
        last = queued(jobs, "4", epochs=400)
        until(lambda: jobs.get(last).progress.step > 0, SECONDS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
    # Put down in order: nobody has to wait for a lease to end.
    (left,) = overview(jobs.database).running
    assert (left.job, left.attempts, left.held) == (last, 0, False)
    until(lambda: pids() == set(), SECONDS)


def test_what_a_trainer_cannot_start_with_is_told_here(
    cluster: Any, tmp_path: Path, bert: str
) -> None:
    wrong = ["--state", str(tmp_path), "--store", "nonsense://", "--backbone", bert]
    done = subprocess.run(
        [*COMMAND, "--ray", cluster.address, *wrong, "--json"],
        env=environment(),
        check=False,
        capture_output=True,
        timeout=SECONDS,
    )
    told = json.loads(done.stderr.splitlines()[-1])["error"]
    assert done.returncode == 3
    assert "--store is no URL of a database" in told["problem"]
    assert told["fix"]


def test_a_cluster_that_is_not_there_is_told() -> None:
    done = subprocess.run(
        [*COMMAND, "--ray", "127.0.0.1:1"],
        env=environment(),
        check=False,
        capture_output=True,
        timeout=SECONDS,
    )
    assert done.returncode == 78
    assert b"no Ray cluster answers at 127.0.0.1:1" in done.stderr
