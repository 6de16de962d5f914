"""Server and worker die, and the job goes on."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import grpc

from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from sottovoce.v1 import bundles_pb2, inference_pb2
from sottovoce.v1 import training_pb2 as wire
from tests.support.caller import Caller, credentials
from tests.support.examples import examples
from tests.support.waiting import until
from tests.unit.cloud.api.test_server import process


def workers(parent: int) -> list[int]:
    """Process ids of a process's children."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent and fields[0] != "Z":
                    found.append(int(entry.name))
    return found


def test_a_job_survives_the_death_of_server_and_worker(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    database = SqliteDatabase(tmp_path)
    metadata = credentials("acme", Tenants(database).enroll("acme"))
    database.close()
    rows = examples(90)

    with process(folders, tmp_path) as (server, address):
        with grpc.insecure_channel(address) as channel:
            acme = Caller(channel, metadata)
            bundle = acme.bundles.GetManifest(bundles_pb2.GetManifestRequest()).bundle_id
            job_id = acme.submit(bundle, rows, training={"epochs": 40})
            until(lambda: acme.get(job_id).progress.step > 0)
            (worker,) = workers(server.pid)
            os.kill(worker, signal.SIGKILL)
            # The server starts another, which takes the job up again.
            until(lambda: worker not in workers(server.pid) and len(workers(server.pid)) == 1)
            until(lambda: acme.get(job_id).progress.step > 0)
            assert acme.get(job_id).state == wire.JOB_STATE_RUNNING
            (worker,) = workers(server.pid)
        os.kill(server.pid, signal.SIGKILL)
        os.kill(worker, signal.SIGKILL)
        server.wait()

    with process(folders, tmp_path) as (server, address):
        with grpc.insecure_channel(address) as channel:
            acme = Caller(channel, metadata)
            last = acme.watch(job_id, timeout=240)[-1]
            assert last.state == wire.JOB_STATE_SUCCEEDED
            assert last.progress.step == last.progress.steps
            asked = examples(30, seed=7)
            answers = acme.inference.PredictStream(
                (
                    inference_pb2.InferenceServicePredictStreamRequest(
                        request=inference_pb2.InferenceServicePredictRequest(
                            adapter="topics", bundle_id=bundle, released_text=row.text
                        )
                    )
                    for row in asked
                ),
                metadata=metadata,
            )
            hits = [
                answer.response.scores[0].label == row.label
                for answer, row in zip(answers, asked, strict=True)
            ]
            assert sum(hits) > 25  # chance is 10; the 99.999 % quantile 21
        server.terminate()
        assert server.wait(60) == 0
    assert not (tmp_path / "jobs" / job_id / "checkpoints").exists()
