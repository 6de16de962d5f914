"""Whatever the cloud's processes are asked, they keep their locks on their SQLite file and its log.

Without them the next command deletes the log that the server writes to, see
`sottovoce.core.platform.files`.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from bench.live.testbed import free_address
from soak.campaign.daemons import PROGRAM, cloud
from soak.campaign.everything import declared, every_rpc, requests, services
from sottovoce.cloud.page import endpoints
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from sottovoce.core.errors import DataLoss
from sottovoce.core.http.page import files
from sottovoce.v1 import bundles_pb2
from sottovoce.v1 import training_pb2 as wire
from tests.support.backbones import tiny_bert
from tests.support.caller import Caller, credentials
from tests.support.examples import examples
from tests.support.locks import locked
from tests.support.openai_endpoint import Door, entered
from tests.support.processes import environment
from tests.support.tiny_bundle import tiny_bundle
from tests.support.waiting import until

HELD = {"", "-shm"}
_SOTTO_CLOUD = [sys.executable, "-c", PROGRAM.format("cloud")]


@contextmanager
def _page(state: Path) -> Iterator[tuple[int, Door]]:
    """``sotto-cloud ui``: its process, and its page, entered."""
    with subprocess.Popen(
        [*_SOTTO_CLOUD, "ui", "--state", state, "--json"], env=environment(), stdout=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        try:
            yield started.pid, entered(json.loads(started.stdout.readline())["url"])
        finally:
            started.terminate()


def _children(parent: int) -> list[int]:
    told = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(child) for each in told for child in each.read_text().split()]


def test_no_endpoint_and_no_rpc_takes_their_locks(tmp_path: Path) -> None:
    bert = tiny_bert(tmp_path / "bert")
    bundle = tiny_bundle(tmp_path / "bundle", bert)
    state = tmp_path / "state"
    database = state / "sottovoce.db"
    with closing(SqliteDatabase(state)) as opened:
        acme = credentials("acme", Tenants(opened).enroll("acme"))
    figures = free_address()
    with (
        cloud(tmp_path, str(bert), bundle, metrics=figures) as server,
        _page(state) as (page_process, page),
        grpc.insecure_channel(server.address) as channel,
    ):
        until(lambda: len(_children(server.pid)) == 1)
        (worker,) = _children(server.pid)
        processes = {"server": server.pid, "worker": worker, "ui": page_process}
        until(lambda: locked(worker, database) == HELD)

        def held(name: str) -> None:
            for process, number in processes.items():
                assert locked(number, database) == HELD, f"{name} took those of {process}"

        device = Caller(channel, acme)
        identity = device.bundles.GetManifest(bundles_pb2.GetManifestRequest()).bundle_id
        job = device.submit(identity, examples(30))
        assert device.watch(job)[-1].state == wire.JOB_STATE_SUCCEEDED
        held("a training")
        asked: set[str] = set()
        for name, _ in every_rpc(channel, random.Random("locks"), {}, acme):
            held(name)
            asked.add(name.rpartition(".")[0])
        ours = {name for name in declared() if not name.startswith("sottovoce.v1.Edge")}
        assert asked == set(services(channel)) >= ours
        told: Any = endpoints  # which touches the database only when it is asked
        listed = (*files("sottovoce.cloud.page"), *told(None, (), (), None))
        paths = dict.fromkeys(listed, "GET")
        for path, status in requests(page, paths):
            held(f"page {path}")
            assert status in (200, 400), path
        with urllib.request.urlopen(f"http://{figures}/metrics", timeout=60) as answer:
            assert b"sottovoce" in answer.read()
        held("metrics")
        for command in ("jobs", "tenants"):
            subprocess.run(
                [*_SOTTO_CLOUD, command, "list", "--state", state],
                env=environment(),
                check=True,
                stdout=subprocess.DEVNULL,
            )
            held(f"sotto-cloud {command} list")
        assert database.with_name("sottovoce.db-wal").exists()
        assert server.stop() == 0


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_server_whose_files_were_replaced_says_so_and_ends(tmp_path: Path, suffix: str) -> None:
    bert = tiny_bert(tmp_path / "bert")
    bundle = tiny_bundle(tmp_path / "bundle", bert)
    state = tmp_path / "state"
    with closing(SqliteDatabase(state)) as opened:
        acme = credentials("acme", Tenants(opened).enroll("acme"))
    with (
        cloud(tmp_path, str(bert), bundle) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        device = Caller(channel, acme)
        device.training.ListJobs(wire.ListJobsRequest(), metadata=acme, timeout=60)
        (state / f"sottovoce.db{suffix}").unlink()
        with pytest.raises(grpc.RpcError) as caught:
            device.training.ListJobs(wire.ListJobsRequest(), metadata=acme, timeout=60)
        assert caught.value.code() is grpc.StatusCode.DATA_LOSS
        assert server.process is not None
        assert server.process.wait(60) == DataLoss.exit_code
        assert "was removed or replaced" in server.log.read_text()
