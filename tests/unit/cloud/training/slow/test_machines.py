"""A job that began on one machine goes on on another that shares nothing with it but the store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from safetensors.torch import load_file

from sottovoce.cloud.job import Progress, State, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import Lease
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store import open_database
from sottovoce.cloud.store.adapters import locate
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.training.worker import Worker
from tests.support.buckets import on_both_objects
from tests.support.examples import RELEASE, WORDS, examples
from tests.support.postgres_server import PostgresServer

OPTIONS = TrainingOptions(epochs=6, batch_size=8)


def queue(jobs: Jobs, name: str) -> str:
    job = jobs.create("acme", name, name, OPTIONS, RELEASE)
    uploads = [Upload(f"e{i}", row) for i, row in enumerate(examples(24))]
    append(jobs, job.id, "acme", 0, uploads, len(WORDS))
    return jobs.start(job.id, "acme", 24).id


def tensors(database: Database, name: str) -> dict[str, object]:
    """Every number of an adapter, by file and tensor."""
    with locate(database, "acme", name).opened() as folder:
        files = sorted(folder.glob("*.safetensors"))
        return {f.name: {n: t.tolist() for n, t in load_file(f).items()} for f in files}


@on_both_objects
def test_a_checkpoint_of_one_machine_is_gone_on_from_on_another_to_the_same_bits(
    objects_url: str,
    postgres: PostgresServer,
    bert: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, key = postgres.new(), tmp_path / "master.key"
    objects = objects_url or (tmp_path / "shared").as_uri()

    def machine(name: str) -> Worker:
        return Worker(tmp_path / name, bert, store=store, objects=objects, key_file=key)

    front = open_database(tmp_path / "front", store, objects, key)
    one, two = machine("one"), machine("two")
    with closing(front), closing(one.database), closing(two.database):
        Tenants(front).enroll("acme")
        jobs = Jobs(front)
        queue(jobs, "whole")
        one.run_next()
        job = queue(jobs, "moved")
        keep = one.queue.keep

        def last(lease: Lease, name: str) -> str:
            one.stop()  # after its first checkpoint
            return keep(lease, name)

        monkeypatch.setattr(one.queue, "keep", last)
        one.run_next()
        left = jobs.get(job)
        assert (left.state, left.attempts) == (State.RUNNING, 0)

        steps, real = [], two.queue.report

        def report(lease: Lease, progress: Progress, taken: float) -> None:
            steps.append(progress.step)
            real(lease, progress, taken)

        monkeypatch.setattr(two.queue, "report", report)
        two.run_next()
        assert jobs.get(job).state == State.SUCCEEDED
        assert 0 < left.progress.step < left.progress.steps
        assert steps[0] > left.progress.step, "it begins where the other ended"
        assert tensors(front, "moved") == tensors(front, "whole")
        assert front.objects.within(f"jobs/{job}") == ["2"]
        assert front.objects.within(f"jobs/{job}/2") == ["adapter"]
        for name in ("one", "two"):
            assert not list((tmp_path / name).rglob("*.safetensors"))
