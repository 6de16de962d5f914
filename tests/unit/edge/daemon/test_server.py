"""The process: one at a time, private, ready when it says so, gone without a trace."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from sottovoce.core.errors import ConfigError, NotReady
from sottovoce.core.rpc.address import answers
from sottovoce.core.text.tagger import Tagger, Tags
from sottovoce.edge.config import Config
from sottovoce.edge.server import THREADS, serve
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc
from tests.support.agent import configured, running
from tests.support.certificates import Certificate
from tests.support.raw_http2 import RawConnection
from tests.support.waiting import among_a_flood, until

TEXT = "Anna was in the garden by the pond"


def _serving(address: str) -> bool:
    with grpc.insecure_channel(address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(), timeout=5
        )
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def _environment(config: Config, folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(folder / "home"),
        "SOTTO_AGENT_LISTEN": config.agent.listen,
        "SOTTO_AGENT_STATE": str(config.agent.state),
        "SOTTO_BUNDLE_PATH": str(config.bundle.path),
    }


def _start(config: Config, folder: Path, **environ: str) -> subprocess.Popen[bytes]:
    program = "from sottovoce.edge.cli import main; main(['serve'])"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=_environment(config, folder) | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    path = Path(config.agent.listen.removeprefix("unix:"))
    until(lambda: answers(path) or process.poll() is not None)
    return process


def test_the_socket_is_the_owners_alone_even_under_a_lax_umask(tmp_path: Path) -> None:
    config = configured(tmp_path, SOTTO_AGENT_LISTEN=f"unix:{tmp_path}/run/agent.sock")
    before = os.umask(0)
    try:
        with running(config) as address:
            path = Path(address.removeprefix("unix:"))
            assert stat.S_ISSOCK(path.stat().st_mode)
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.parent.stat().st_mode & 0o777 == 0o700
            assert os.umask(0) == 0  # and the process's own umask is as it was
    finally:
        os.umask(before)
    assert not path.exists()


def test_health_and_reflection_answer(tmp_path: Path) -> None:
    with running(configured(tmp_path)) as address:
        assert _serving(address)
        with grpc.insecure_channel(address) as channel:
            request = reflection_pb2.ServerReflectionRequest(list_services="")
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            (answer,) = stub.ServerReflectionInfo(iter([request]))
        names = {service.name for service in answer.list_services_response.service}
        assert names >= {"sottovoce.v1.EdgeAgentService", "grpc.health.v1.Health"}


def test_a_second_agent_over_the_same_state_is_refused(tmp_path: Path) -> None:
    config = configured(tmp_path)
    other = configured(tmp_path, SOTTO_AGENT_LISTEN=f"unix:{tmp_path}/other.sock")
    with running(config) as address:
        with pytest.raises(NotReady, match="already running"), running(other):
            pass
        assert _serving(address)
    with running(other) as address:
        assert _serving(address)


def test_a_socket_in_use_is_left_alone(tmp_path: Path) -> None:
    config = configured(tmp_path)
    other = configured(tmp_path, SOTTO_AGENT_STATE=str(tmp_path / "other"))
    with running(config) as address:
        with pytest.raises(NotReady, match="already listens"), running(other):
            pass
        assert _serving(address)


def test_a_killed_agent_leaves_a_socket_that_the_next_one_replaces(
    tmp_path: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path)
    process = _start(config, tmp_path)
    process.kill()
    process.communicate()
    path = Path(config.agent.listen.removeprefix("unix:"))
    assert path.exists()
    with running(config, lexicon_tagger) as address:
        assert _serving(address)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals, code: int) -> None:
    config = configured(tmp_path)
    process = _start(config, tmp_path)
    path = Path(config.agent.listen.removeprefix("unix:"))
    until(lambda: _serving(config.agent.listen))
    process.send_signal(number)
    _, log = process.communicate(timeout=20)
    assert process.returncode == code
    assert not path.exists()
    assert not Path(f"{config.agent.state}/agent.db-wal").exists()  # folded into the database
    assert b"Traceback" not in log
    assert b"serving on" in log


def test_systemd_is_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(20)
        process = _start(configured(tmp_path), tmp_path, NOTIFY_SOCKET=str(tmp_path / "notify"))
        assert notified.recv(100) == b"READY=1"
        process.terminate()
        assert notified.recv(100) == b"STOPPING=1"
        process.communicate(timeout=20)


def test_without_room_for_its_threads_nothing_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path)

    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    with pytest.raises(NotReady, match="only 0 more threads") as refused:
        serve(config, stop=threading.Event())
    assert refused.value.subject == "threads"
    assert not config.agent.state.exists()


def test_requests_in_progress_are_answered_before_the_end(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    began, ends = threading.Event(), threading.Event()

    class Slow:
        tagset = lexicon_tagger.tagset
        reach = lexicon_tagger.reach

        def tag(self, words: Sequence[str]) -> Tags:
            if "lamp" in words:  # not what the agent warms up with
                began.set()
                assert ends.wait(60)
            return lexicon_tagger.tag(words)

    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_PRIVACY_MECHANISM="pct2t.v1")
    with ExitStack() as after:
        with running(config, Slow()) as address:
            channel = after.enter_context(grpc.insecure_channel(address))
            stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)
            pending = stub.Privatize.future(agent.PrivatizeRequest(text="a lamp", words=True))
            assert began.wait(60)
            threading.Timer(0.3, ends.set).start()  # when the agent has been told to end
        assert len(pending.result(timeout=60).words) == 2


def test_an_answer_may_be_larger_than_its_text(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with (
        running(config, lexicon_tagger) as address,
        grpc.insecure_channel(
            address, options=[("grpc.max_receive_message_length", 64 << 20)]
        ) as channel,
    ):
        stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)
        answer = stub.Privatize(agent.PrivatizeRequest(text=", . " * 80_000, words=True))
        assert answer.ByteSize() > 4 << 20
        assert len(answer.words) == 160_000


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"SOTTO_AGENT_LISTEN": "10.0.0.1:8470"}, "takes clear text"),
        (
            {
                "SOTTO_AGENT_LISTEN": "10.0.0.1:8470",
                "SOTTO_AGENT_TLS_CERT": "c",
                "SOTTO_AGENT_TLS_KEY": "k",
            },
            "tls_client_ca",
        ),
        (
            {
                "SOTTO_AGENT_LISTEN": "127.0.0.1:0",
                "SOTTO_AGENT_TLS_CERT": "none.pem",
                "SOTTO_AGENT_TLS_KEY": "none.key",
            },
            "cannot read none.key",
        ),
    ],
)
def test_addresses_that_would_expose_clear_text_are_refused(
    tmp_path: Path, environ: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said), running(configured(tmp_path, **environ)):
        pass


def test_beyond_the_socket_only_apps_with_a_certificate_are_heard(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    server, app, stranger = (Certificate.make() for _ in range(3))
    for name, data in (
        ("server.pem", server.certificate),
        ("server.key", server.key),
        ("apps.pem", app.certificate),
    ):
        (tmp_path / name).write_bytes(data)
    config = configured(
        tmp_path,
        bundle=small_bundle_folder,
        SOTTO_AGENT_LISTEN="127.0.0.1:0",
        SOTTO_AGENT_TLS_CERT=str(tmp_path / "server.pem"),
        SOTTO_AGENT_TLS_KEY=str(tmp_path / "server.key"),
        SOTTO_AGENT_TLS_CLIENT_CA=str(tmp_path / "apps.pem"),
    )

    def privatize(*own: bytes) -> str:
        credentials = grpc.ssl_channel_credentials(server.certificate, *own)
        with grpc.secure_channel(address, credentials) as channel:
            stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)
            return stub.Privatize(agent.PrivatizeRequest(text=TEXT), timeout=10).text

    with running(config, lexicon_tagger) as address:
        assert privatize(app.key, app.certificate)
        for own in ((), (stranger.key, stranger.certificate)):
            with pytest.raises(grpc.RpcError) as caught:
                privatize(*own)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_folder_in_the_place_of_the_lock_is_named(tmp_path: Path) -> None:
    config = configured(tmp_path)
    (config.agent.state / "agent.lock").mkdir(parents=True)
    config.agent.state.chmod(0o700)
    with pytest.raises(ConfigError, match=r"cannot write .*agent\.lock"), running(config):
        pass


@pytest.mark.parametrize("what", ["a folder", "a file", "beside others", "under a file"])
def test_a_place_that_cannot_have_the_socket_is_named_by_its_setting(
    tmp_path: Path, what: str
) -> None:
    place = tmp_path / "place"
    if what == "a folder":
        (place / "kept").mkdir(parents=True)
    elif what == "beside others":
        place.mkdir()
        place.chmod(0o777)
    else:
        place.write_text("kept")
    within = "" if what in ("a folder", "a file") else "/agent.sock"
    config = configured(tmp_path, SOTTO_AGENT_LISTEN=f"unix:{place}{within}")
    with pytest.raises(ConfigError) as caught, running(config):
        pass
    assert str(place) in caught.value.problem
    assert caught.value.subject == "agent.listen"
    assert "agent.listen" in caught.value.fix
    assert "SOTTO_" not in caught.value.fix
    if what == "a file":
        assert place.read_text() == "kept"


def test_loopback_works_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(configured(tmp_path, SOTTO_AGENT_LISTEN="127.0.0.1:0")) as address:
        assert address.startswith("127.0.0.1:")
        assert not address.endswith(":0")
        assert _serving(address)
    assert "every user of this machine" in caplog.text


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(ConfigError, match="cannot listen"),
            running(configured(tmp_path, SOTTO_AGENT_LISTEN=address)),
        ):
            pass


def test_the_end_waits_for_what_is_still_being_opened(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    # An interpreter that ends under a thread inside a C++ library aborts.
    began, ended = threading.Event(), threading.Event()

    class Slow:
        tagset = lexicon_tagger.tagset
        reach = lexicon_tagger.reach

        def tag(self, words: Sequence[str]) -> Tags:
            began.set()
            time.sleep(0.3)
            ended.set()
            return lexicon_tagger.tag(words)

    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_PRIVACY_MECHANISM="pct2t.v1")
    with running(config, Slow()):
        assert began.wait(60)
    assert ended.is_set()


def test_calls_that_stand_still_close_the_agent_to_nobody(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_AGENT_LISTEN="127.0.0.1:0")
    with running(config, lexicon_tagger) as address, ExitStack() as flood:
        for method in ("Privatize", "PrivatizeStream", "Customize", "WatchCustomization"):
            raw = flood.enter_context(RawConnection(address))
            for _ in range(2 * THREADS):
                raw.open(f"/sottovoce.v1.EdgeAgentService/{method}")
        with grpc.insecure_channel(address) as channel:
            stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
            request = agent.PrivatizeRequest(text=TEXT)
            streamed = agent.PrivatizeStreamRequest(request_id="1", request=request)

            def streams() -> list[str]:
                answers = stub.PrivatizeStream(iter([streamed]), timeout=60)
                return [answer.request_id for answer in answers]

            for _ in range(3):
                assert among_a_flood(lambda: stub.Privatize(request, timeout=60)).text
                assert among_a_flood(streams) == ["1"]
