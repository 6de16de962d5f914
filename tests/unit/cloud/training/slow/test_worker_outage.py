"""The database may be away for as long as it likes: no job in training fails by that."""

from __future__ import annotations

import contextlib
import threading
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.cloud.job import State, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import Lease
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store import open_database
from sottovoce.cloud.store import postgres as postgres_module
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.training import worker as worker_module
from sottovoce.cloud.training.worker import Worker
from sottovoce.core.errors import Unavailable
from tests.support.examples import RELEASE, WORDS, examples
from tests.support.postgres_server import PostgresServer
from tests.support.waiting import until


def test_an_outage_longer_than_two_waits_costs_a_job_nothing(
    postgres: PostgresServer, tmp_path: Path, bert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "_CONNECTION_SECONDS", 0.5)
    url = postgres.new()
    worker = Worker(tmp_path, bert, store=url, lease_seconds=600.0)
    real, refused = worker.queue.stop_requested, 0

    def stop_requested(lease: Lease) -> bool:
        nonlocal refused
        try:
            return real(lease)
        except Unavailable:
            refused += 1
            raise

    monkeypatch.setattr(worker.queue, "stop_requested", stop_requested)
    monkeypatch.setattr(worker_module, "IDLE_SECONDS", 2.0)
    with closing(worker.database), closing(open_database(tmp_path, url)) as database:
        Tenants(database).enroll("acme")
        jobs = Jobs(database)
        options = TrainingOptions(epochs=25, batch_size=8)
        job = jobs.create("acme", "r", "topics", options, RELEASE)
        uploads = [Upload(f"e{i}", row) for i, row in enumerate(examples(32))]
        append(jobs, job.id, "acme", 0, uploads, len(WORDS))
        jobs.start(job.id, "acme", 32)

        def ended() -> bool:
            with contextlib.suppress(Unavailable):
                return jobs.get(job.id).state != State.RUNNING
            return False

        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            until(lambda: jobs.get(job.id).progress.epoch > 1)
            postgres.stop()
            try:
                # In training, and again and again while it waits to go on.
                until(lambda: refused > 3)
            finally:
                postgres.start()
            until(ended)
        finally:
            worker.stop()
            thread.join(60)
        assert not thread.is_alive()
        found = jobs.get(job.id)
        assert (found.state, found.message, found.attempts) == (State.SUCCEEDED, "", 0)
