"""The worker trains jobs of generation on the decoder, and says so where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.cloud.job import Job, State, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.models import adapters, backbone, decoder
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.cloud.serving.predictor import Predictor
from sottovoce.cloud.store.adapters import locate
from sottovoce.cloud.training.worker import Worker
from sottovoce.core.errors import NotReady
from tests.support import decoders
from tests.support.examples import RELEASE
from tests.support.written import WORDS, written


@pytest.fixture
def writing(tmp_path: Path, bert: str, jobs: Jobs) -> Iterator[Worker]:
    """A worker with a decoder."""
    worker = Worker(tmp_path, bert, decoder=str(decoders.save(tmp_path / "tiny")))
    yield worker
    worker.database.close()


def queue(jobs: Jobs) -> Job:
    options = TrainingOptions(
        task="generation", epochs=2, batch_size=8, reconstruction=True, plain_tokens=2
    )
    job = jobs.create("acme", "r", "trains", options, RELEASE)
    uploads = [Upload(f"e{i}", row) for i, row in enumerate(written(16, plain=2))]
    append(jobs, job.id, "acme", 0, uploads, len(WORDS))
    return jobs.start(job.id, "acme", 16)


def test_a_queued_job_becomes_an_adapter_of_the_decoder(
    writing: Worker, jobs: Jobs, tmp_path: Path, bert: str
) -> None:
    job = queue(jobs)
    assert writing.run_next()
    found = jobs.get(job.id)
    assert (found.state, found.labels) == (State.SUCCEEDED, ())
    assert found.progress.step == found.progress.steps > 0
    assert found.progress.loss > 0

    files = locate(jobs.database, "acme", "trains")
    adapter = adapters.load(files.folder)
    identity = decoder.load(str(tmp_path / "tiny")).backbone.sha256
    assert (adapter.task, adapter.backbone_sha256) == ("generation", identity)
    assert adapter.origin["release"]["eta"] == RELEASE.eta

    with (
        closing(ModelThread(backbone.load(bert))) as thread,
        pytest.raises(NotReady, match="trained to write"),
    ):
        Predictor(thread).submit(files, "some text")


def test_without_a_decoder_the_job_fails_and_says_why(worker: Worker, jobs: Jobs) -> None:
    job = queue(jobs)
    assert worker.run_next()
    found = jobs.get(job.id)
    assert found.state == State.FAILED
    assert "no model that writes" in found.message
