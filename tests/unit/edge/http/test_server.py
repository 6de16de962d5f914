"""Where the OpenAI endpoint is, only where its owner wants it, and its key."""

from __future__ import annotations

import http.client
import socket
import stat
from pathlib import Path

import grpc
import pytest

from bench.live.testbed import free_address
from sottovoce.core.errors import ConfigError
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.http import endpoints
from sottovoce.edge.http.endpoints import KEY_FILE, openai_server, read_key
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc
from tests.support.agent import configured, opened, running
from tests.support.openai_endpoint import Door


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:0"])
def test_it_is_on_loopback_alone(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, address: str
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as device:
        with (
            pytest.raises(ConfigError, match="reachable by others"),
            openai_server(device, address),
        ):
            pass
        assert not (config.agent.state / KEY_FILE).exists()


def test_a_place_that_is_taken_is_refused(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with (
        opened(config, lexicon_tagger) as device,
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ConfigError, match="cannot listen"),
        openai_server(device, f"127.0.0.1:{taken.getsockname()[1]}"),
    ):
        pass


def test_without_a_key_that_can_be_used_the_address_is_free_again(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    address = free_address()
    with opened(config, lexicon_tagger) as device:
        read_key(config.agent.state, make=True)
        (config.agent.state / KEY_FILE).chmod(0o644)
        with (
            pytest.raises(ConfigError, match="other users can read"),
            openai_server(device, address),
        ):
            pass
    host, _, port = address.rpartition(":")
    socket.create_server((host, int(port))).close()


def test_clients_connect_only_once_there_is_a_key(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    address = free_address()
    host, _, port = address.rpartition(":")

    def read(state: Path, *, make: bool) -> str:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port))).close()
        return read_key(state, make=make)

    monkeypatch.setattr(endpoints, "read_key", read)
    with opened(config, lexicon_tagger) as device, openai_server(device, address) as server:
        door = Door(server.address, read_key(config.agent.state))
        assert door.ask("/v1/models").status == 200


def test_a_daemon_opens_it_where_asked_and_tells_apps(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_OPENAI_ADDRESS="localhost:0")
    with running(config, lexicon_tagger) as address, grpc.insecure_channel(address) as channel:
        stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)
        place = stub.GetStatus(agent.GetStatusRequest()).openai_address
        assert place.startswith("127.0.0.1:")  # [::1] under the same port may be another's
        door = Door(place, read_key(config.agent.state))
        models = door.ask("/v1/models")
        assert [each["id"] for each in models.json["data"]] == ["default", "local"]
        host, port = door.place
        idle = http.client.HTTPConnection(host, port, timeout=60)
        idle.connect()  # which keeps nobody from ending
    idle.close()
    with pytest.raises(ConnectionRefusedError):
        door.ask("/v1/models")


def test_a_daemon_opens_none_of_itself(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with running(config, lexicon_tagger) as address, grpc.insecure_channel(address) as channel:
        stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)
        assert stub.GetStatus(agent.GetStatusRequest()).openai_address == ""
        assert not (config.agent.state / KEY_FILE).exists()


def test_a_key_is_made_once_and_for_the_owner_alone(tmp_path: Path) -> None:
    key = read_key(tmp_path, make=True)
    assert read_key(tmp_path, make=True) == key == read_key(tmp_path)
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert len(key) > 40
    other = tmp_path / "other"
    other.mkdir()
    assert read_key(other, make=True) != key


@pytest.mark.parametrize("held", ["", "short", "ünicode and long enough", "two\nlines and long"])
def test_what_is_no_key_is_refused(tmp_path: Path, held: str) -> None:
    path = tmp_path / KEY_FILE
    path.touch(mode=0o600)
    path.write_text(held, encoding="utf-8")
    with pytest.raises(ConfigError, match="holds no key"):
        read_key(tmp_path, make=True)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    read_key(tmp_path, make=True)
    (tmp_path / KEY_FILE).chmod(0o640)
    with pytest.raises(ConfigError, match="other users"):
        read_key(tmp_path, make=True)


def test_nobody_elses_file_is_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("a key that is long enough")
    (tmp_path / KEY_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        read_key(tmp_path)


def test_without_one_it_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sotto serve"):
        read_key(tmp_path)
