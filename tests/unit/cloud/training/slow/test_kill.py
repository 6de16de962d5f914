"""kill -9 at any moment of a job loses nothing: a later process ends with the very same adapter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import grpc
import pytest

from sottovoce.cloud.config import Settings
from sottovoce.cloud.job import Job, State, TrainingOptions
from sottovoce.cloud.models.methods import METHODS
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from sottovoce.core.bundle.manifest import bundle_id
from sottovoce.core.errors import NotFound
from sottovoce.v1.training_pb2 import GetJobRequest
from tests.support.caller import Caller, credentials
from tests.support.killed_jobs import OPTIONS, ROWS, Tensors, found, queue, tensors
from tests.support.kills import MOMENTS, UPLOAD_MOMENTS, serving, work
from tests.support.processes import environment
from tests.support.tiny_bundle import tiny_bundle
from tests.support.waiting import until


@pytest.fixture(scope="module")
def undisturbed(bert: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tensors, int, Job]:
    """Return the result of an undisturbed worker: adapter, steps, job."""
    state = tmp_path_factory.mktemp("undisturbed") / "state"
    job = queue(state)
    code, steps = work(state, bert)
    assert code == 0
    return tensors(state), steps, found(state, job)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_survives_kill_9(
    moment: str, bert: str, undisturbed: tuple[Tensors, int, Job], tmp_path: Path
) -> None:
    wanted, steps, ended = undisturbed
    state = tmp_path / "state"
    job = queue(state)
    code, _ = work(state, bert, MOMENTS[moment])
    assert code == -signal.SIGKILL
    left = found(state, job)
    assert left.state == State.RUNNING
    with pytest.raises(NotFound):
        tensors(state)

    code, again = work(state, bert)
    assert code == 0
    assert tensors(state) == wanted
    done = found(state, job)
    assert (done.state, done.labels) == (State.SUCCEEDED, ended.labels)
    accuracy = ended.progress.held_out_accuracy
    assert (done.progress.step, done.progress.held_out_accuracy) == (steps, accuracy)
    # Nothing half-made stays behind.
    (folder,) = (state / "jobs" / job.id).iterdir()
    assert os.listdir(folder) == ["adapter"]
    assert os.listdir(state / "scratch") == []
    epoch = steps // OPTIONS.epochs
    expected = {
        "before the first step": steps,
        "in the middle of the first checkpoint": steps,
        "in the middle of the third checkpoint": steps - 2 * epoch,
        "before a written checkpoint is in place": steps - epoch,
        "before a checkpoint is among the objects": steps - epoch,
        "before a checkpoint counts": steps - epoch,
    }
    assert again == expected.get(moment, 0), "what was done is not done again"


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"lora", "qlora"}))
def test_every_method_resumes_to_the_same_adapter(method: str, bert: str, tmp_path: Path) -> None:
    options = replace(OPTIONS, method=method, epochs=2)
    adapter = []
    for name, moment in (("whole", None), ("killed", ("checkpoint put in place", 2))):
        state = tmp_path / name
        job = queue(state, options)
        if moment:
            assert work(state, bert, moment)[0] == -signal.SIGKILL
        assert work(state, bert)[0] == 0
        assert found(state, job).state == State.SUCCEEDED
        adapter.append(tensors(state))
    assert adapter[0] == adapter[1]


@pytest.mark.parametrize("moment", UPLOAD_MOMENTS)
def test_an_upload_survives_kill_9_of_the_server(
    moment: str, bert: str, undisturbed: tuple[Tensors, int, Job], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    bundle = tiny_bundle(tmp_path / "bundle", Path(bert))
    listen = f"unix:{tmp_path}/s.sock"
    settings = Settings(state, (bundle,), listen, bert, threads=1)
    database = SqliteDatabase(state)
    metadata = credentials("acme", Tenants(database).enroll("acme"))
    database.close()
    with grpc.insecure_channel(listen) as channel:
        caller = Caller(channel, metadata)
        with serving(settings, UPLOAD_MOMENTS[moment]) as server:
            grpc.channel_ready_future(channel).result(60)
            job = caller.create(_bundle_id(bundle), training=_wire(OPTIONS))
            with pytest.raises(grpc.RpcError):
                caller.upload(job.id, ROWS)
            server.join(60)
            assert server.exitcode == -signal.SIGKILL
        with serving(settings):
            held = _held(caller, job.id)
            # Messages of 8: what was committed is there, half a message is not.
            assert (
                held == {"in the middle of a message": 8, "between commit and answer": 16}[moment]
            )
            assert caller.upload(job.id, ROWS[held - 3 :], first=held - 3) == len(ROWS)
            caller.start(job.id, len(ROWS))
    assert work(state, bert)[0] == 0
    assert tensors(state) == undisturbed[0]


def _bundle_id(folder: Path) -> str:
    return bundle_id((folder / "manifest.json").read_bytes())


def _wire(options: TrainingOptions) -> dict[str, object]:
    return {
        name: value
        for name, value in asdict(options).items()
        if name not in ("method", "task") and value
    }


def _held(caller: Caller, job_id: str) -> int:
    """How many examples the server holds, once it is up again."""
    request = GetJobRequest(job_id=job_id)
    up = caller.training.GetJob(request, metadata=caller.metadata, wait_for_ready=True, timeout=60)
    return int(up.job.next_sequence)


def test_an_orphan_puts_its_job_down_and_ends(tmp_path: Path, bert: str) -> None:
    job = queue(tmp_path, replace(OPTIONS, epochs=200))
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, subprocess, sys, time\n"
            "p = subprocess.Popen([*sys.argv[1:], '--parent', str(os.getpid())])\n"
            "print(p.pid, flush=True)\n"
            "time.sleep(600)",
            *[sys.executable, "-m", "sottovoce.cloud", "trainer", "--state", str(tmp_path)],
            *["--backbone", bert, "--threads", "1"],
        ],
        env=environment(),
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    orphan = int(parent.stdout.readline())
    until(lambda: found(tmp_path, job).progress.step > 0)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()

    def gone() -> bool:
        try:
            os.kill(orphan, 0)
        except ProcessLookupError:
            return True
        return Path(f"/proc/{orphan}/stat").read_text().split()[2] == "Z"

    until(gone)
    assert found(tmp_path, job).state == State.RUNNING
    assert [*(tmp_path / "jobs" / job.id).glob("1/checkpoints/*/last.safetensors")]
