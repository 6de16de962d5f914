"""A socket for a group: opened to it alone, where the group can come to it."""

from __future__ import annotations

import grp
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from sottovoce.core.errors import ConfigError
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.config import Config, load
from sottovoce.edge.daemon.admission import folder_for
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc
from tests.support.agent import configured, running

OWN = grp.getgrgid(os.getgid()).gr_name


@pytest.fixture
def passable() -> Iterator[Path]:
    """A folder that everyone can pass, unlike those that pytest makes."""
    folder = Path(tempfile.mkdtemp(prefix="sotto-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def _config(folder: Path, socket: Path, **environ: str) -> Config:
    places = {
        "SOTTO_AGENT_LISTEN": f"unix:{socket}",
        "SOTTO_AGENT_APPS": "true",
        "SOTTO_AGENT_GROUP": OWN,
    }
    return configured(folder, **(places | environ))


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_socket_is_open_to_the_group_and_asks_for_a_token(
    tmp_path: Path, passable: Path, lexicon_tagger: Tagger
) -> None:
    socket = passable / "run" / "agent.sock"
    with running(_config(tmp_path, socket), lexicon_tagger) as address:
        assert (_mode(socket), _mode(socket.parent)) == (0o660, 0o710)
        assert socket.stat().st_gid == socket.parent.stat().st_gid == os.getgid()
        with grpc.insecure_channel(address) as channel:
            stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
            with pytest.raises(grpc.RpcError) as caught:
                stub.GetStatus(agent.GetStatusRequest(), timeout=60)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    with running(_config(tmp_path, socket), lexicon_tagger):  # in the folder that is there now
        assert _mode(socket) == 0o660


@pytest.mark.parametrize(
    "environ",
    [{"SOTTO_AGENT_APPS": "false"}, {"SOTTO_AGENT_LISTEN": "127.0.0.1:8470"}],
)
def test_a_group_goes_with_tokens_and_a_unix_socket(environ: dict[str, str]) -> None:
    given = {"HOME": "/nowhere", "SOTTO_AGENT_APPS": "true", "SOTTO_AGENT_GROUP": OWN}
    load(environ=given)
    with pytest.raises(ConfigError) as caught:
        load(environ=given | environ)
    assert caught.value.subject == "agent.group"


def test_a_group_that_is_not_there_is_named(tmp_path: Path, passable: Path) -> None:
    config = _config(tmp_path, passable / "agent.sock", SOTTO_AGENT_GROUP="no-such-group")
    with pytest.raises(ConfigError, match="no group no-such-group"), running(config):
        pass


def test_a_folder_that_keeps_the_group_out_is_named_and_stays(
    tmp_path: Path, passable: Path
) -> None:
    (passable / "mine").mkdir(mode=0o700)
    config = _config(tmp_path, passable / "mine" / "run" / "agent.sock")
    with pytest.raises(ConfigError, match=r"cannot pass .*mine") as caught, running(config):
        pass
    assert "RuntimeDirectory=" in caught.value.fix
    assert "chmod" not in caught.value.fix  # it may be anything, the home folder for one
    assert _mode(passable / "mine") == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o773, 0o775])
def test_a_folder_in_which_others_can_put_a_socket_is_refused(
    tmp_path: Path, passable: Path, mode: int
) -> None:
    folder = passable / "shared"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(ConfigError, match=f"{folder} can be written"):
        folder_for(folder / "agent.sock", os.getgid(), tmp_path)
    assert list(folder.iterdir()) == []
    assert _mode(folder) == mode
    config = _config(tmp_path, folder / "agent.sock")
    with pytest.raises(ConfigError), running(config):
        pass
    assert list(folder.iterdir()) == []


def test_nor_may_others_replace_a_folder_on_the_way(tmp_path: Path, passable: Path) -> None:
    between = passable / "between"
    (between / "run").mkdir(parents=True)
    socket = between / "run" / "agent.sock"
    between.chmod(0o777)
    with pytest.raises(ConfigError, match=f"{between} can be written"):
        folder_for(socket, os.getgid(), tmp_path)
    between.chmod(0o1777)  # as /tmp: what is there stays
    folder_for(socket, os.getgid(), tmp_path)


def test_nor_is_it_in_the_hands_of_another_user(
    tmp_path: Path, passable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        os.chown(passable, 54321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
    (passable / "run").mkdir()
    for folder in (passable, passable / "run"):
        with pytest.raises(ConfigError, match="is another user's"):
            folder_for(folder / "agent.sock", os.getgid(), tmp_path)


def test_a_link_on_the_way_is_named_with_where_it_leads(tmp_path: Path, passable: Path) -> None:
    (passable / "real").mkdir()
    (passable / "link").symlink_to("real")
    with pytest.raises(ConfigError, match="over a link") as caught:
        folder_for(passable / "link" / "agent.sock", os.getgid(), tmp_path)
    assert caught.value.fix.endswith(f"unix:{passable.resolve()}/real/agent.sock")


def test_the_state_folder_is_not_opened(tmp_path: Path, passable: Path) -> None:
    state = passable / "state"
    config = _config(tmp_path, state / "agent.sock", SOTTO_AGENT_STATE=str(state))
    with pytest.raises(ConfigError, match="state folder"), running(config):
        pass
    assert _mode(state) == 0o700
