"""Whatever a running daemon is asked, it keeps its locks on its database and its log.

Without them the next command deletes the daemon's write-ahead log, see
`sottovoce.core.platform.files`.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from soak.campaign.daemons import PROGRAM, Daemon, device
from soak.campaign.everything import (
    ENDPOINT,
    PAGE,
    SOUND,
    TEXT,
    declared,
    every_rpc,
    requests,
    services,
)
from sottovoce.core.errors import DataLoss
from sottovoce.edge.cli.client import connect
from sottovoce.edge.http.endpoints import read_key
from sottovoce.edge.state.database import DATABASE
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_owner_pb2
from tests.support.agent import TOKEN
from tests.support.locks import locked
from tests.support.openai_endpoint import Door, entered
from tests.support.processes import environment
from tests.support.stub_cloud import stub_cloud
from tests.support.upstream_server import openai_server

HELD = {"", "-shm"}


@pytest.fixture
def daemon(tmp_path: Path, bundle_folder: Path) -> Iterator[Daemon]:
    """Run a daemon in its own process, with a cloud, an upstream and an OpenAI endpoint."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(f"{TOKEN}\n")
    with (
        stub_cloud(bundle_folder) as cloud,
        openai_server() as upstream,
        device(
            tmp_path,
            bundle_folder,
            SOTTO_CLOUD_ADDRESS=cloud.address,
            SOTTO_CLOUD_TENANT="t",
            SOTTO_CLOUD_TOKEN_FILE=str(token),
            SOTTO_CHAT_UPSTREAM=upstream.url,
            SOTTO_CHAT_MODEL="a-model",
            SOTTO_OPENAI_ADDRESS="127.0.0.1:0",
            SOTTO_UI_RECORD="true",
        ) as running,
    ):
        yield running


def _sotto(daemon: Daemon, *arguments: str) -> str:
    """Return the output of a command beside the daemon."""
    program = [sys.executable, "-c", PROGRAM.format("edge"), *arguments]
    told = subprocess.run(
        program, env=environment() | daemon.environ, capture_output=True, text=True, check=True
    )
    return told.stdout


def test_no_endpoint_and_no_rpc_takes_its_locks(daemon: Daemon) -> None:
    database = daemon.folder / "state" / DATABASE
    assert locked(daemon.pid, database) == HELD
    well: dict[str, bool] = {}

    def held(name: str, *, ok: bool) -> None:
        assert locked(daemon.pid, database) == HELD, f"{name} took them"
        well[name] = ok or well.get(name, False)

    with connect(daemon.address) as owner:
        page, endpoint = (
            entered(owner.owner.OpenPage(edge_owner_pb2.OpenPageRequest()).url),
            owner.agent.GetStatus(agent.GetStatusRequest()).openai_address,
        )
    for path, status in requests(page, PAGE):
        held(f"page {path}", ok=status == 200)
    for path, status in requests(Door(endpoint, read_key(database.parent)), ENDPOINT):
        held(f"OpenAI endpoint {path}", ok=status == 200)
    with grpc.insecure_channel(daemon.address) as channel:
        listed = set(services(channel))
        for name, ended in every_rpc(channel, random.Random("locks"), SOUND):
            held(name, ok=ended == "OK")
    assert listed >= {name for name in declared() if name.startswith("sottovoce.v1.Edge")}
    # The link was used before, no message waits, health lists nothing, and a single training that
    # has ended can be neither cancelled nor rolled back. All else was answered, not refused.
    assert {name.rpartition(".")[2] for name, ok in well.items() if not ok} <= {
        "page /api/session",
        "page /api/waiting/allow",
        "List",
        "CancelCustomization",
        "RollBackAdapter",
    }


def test_commands_after_the_page_leave_the_log(daemon: Daemon) -> None:
    log = daemon.folder / "state" / f"{DATABASE}-wal"
    token = json.loads(_sotto(daemon, "apps", "new", "mail", "--json"))["token"]
    with connect(daemon.address) as owner:
        endpoint, page = (
            owner.agent.GetStatus(agent.GetStatusRequest()).openai_address,
            entered(owner.owner.OpenPage(edge_owner_pb2.OpenPageRequest()).url),
        )
        before = owner.agent.Privatize(agent.PrivatizeRequest(text=TEXT)).text
        assert dict(requests(page, PAGE))["/api/doctor"] == 200
        _sotto(daemon, "apps", "rm", "mail")
        assert log.exists()
        assert Door(endpoint, token).chat(TEXT).status == 401
        assert json.loads(_sotto(daemon, "rotate-key", "--json"))["epoch"] == 2
        assert owner.agent.Privatize(agent.PrivatizeRequest(text=TEXT)).text != before
        ledger = owner.agent.GetStatus(agent.GetStatusRequest()).ledger
    daemon.kill()
    daemon.start()
    with connect(daemon.address) as owner:
        assert owner.agent.GetStatus(agent.GetStatusRequest()).ledger == ledger


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_daemon_whose_files_were_replaced_says_so_and_ends(daemon: Daemon, suffix: str) -> None:
    file = daemon.folder / "state" / f"{DATABASE}{suffix}"
    with connect(daemon.address) as owner:
        owner.agent.Privatize(agent.PrivatizeRequest(text=TEXT))
        file.unlink()
        others = {each: each.read_bytes() for each in file.parent.glob(f"{DATABASE}*")}
        with pytest.raises(DataLoss, match=f"{file.name} was removed or replaced"):
            owner.agent.Privatize(agent.PrivatizeRequest(text=TEXT))
    assert daemon.process is not None
    assert daemon.process.wait(60) == DataLoss.exit_code
    told = daemon.log.read_text()
    assert f"{file.name} was removed or replaced" in told
    assert "start the process again" in told
    assert "Traceback" not in told
    assert {each: each.read_bytes() for each in others} == others  # its end wrote nothing
