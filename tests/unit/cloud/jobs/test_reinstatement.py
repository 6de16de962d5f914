"""An adapter's name given back: to files that are there, of a job that is its tenant's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sottovoce.cloud.job import State
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.ending import reinstate
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.store.adapters import AdapterFiles, locate
from sottovoce.core.errors import NotFound, NotReady
from tests.support.jobs import claim, finish, opened, queued
from tests.support.stores import Store


def _trained(jobs: Jobs, request_id: str) -> str:
    """A job that trained "topics", written where a worker writes it."""
    queued(jobs, request_id)
    job, lease = claim(jobs)
    folder = jobs.database.state / "jobs" / job.id / str(lease.token) / "adapter"
    folder.mkdir(parents=True)
    (folder / "adapter.json").write_text(request_id)
    Queue(jobs.database).finish(lease, State.SUCCEEDED, adapter=AdapterFiles.of(folder))
    return job.id


def _named(jobs: Jobs) -> str:
    """Which job's adapter has the name."""
    files = locate(jobs.database, "acme", "topics")
    assert files == AdapterFiles.of(files.folder)
    return (files.folder / "adapter.json").read_text()


def test_the_name_goes_to_and_fro(tmp_path: Path, store: Store) -> None:
    with opened(tmp_path, store) as jobs:
        first, second = _trained(jobs, "first"), _trained(jobs, "second")
        assert _named(jobs) == "second"
        assert reinstate(jobs, first, "acme").id == first
        assert _named(jobs) == "first"
        reinstate(jobs, second)  # the provider's word counts for all
        assert _named(jobs) == "second"


def test_only_what_a_tenant_trained_and_is_there_gets_the_name(
    tmp_path: Path, store: Store
) -> None:
    with opened(tmp_path, store) as jobs:
        first, second = _trained(jobs, "first"), _trained(jobs, "second")
        with pytest.raises(NotFound, match="no such job"):
            reinstate(jobs, first, "other")
        queued(jobs, "third")
        failed = finish(jobs, State.FAILED)
        with pytest.raises(NotReady, match="trained no adapter"):
            reinstate(jobs, failed.id, "acme")
        shutil.rmtree(tmp_path / "jobs" / first)
        with pytest.raises(NotFound, match="no longer kept"):
            reinstate(jobs, first, "acme")
        assert _named(jobs) == "second"
        jobs.delete(second)
        with pytest.raises(NotFound, match="no such job"):
            reinstate(jobs, second, "acme")
