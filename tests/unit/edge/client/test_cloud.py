"""The device's side of the wire: plaintext, credentials and errors."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import grpc
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import ConfigError, NotFound, NotReady, Unauthenticated, Unavailable
from sottovoce.edge.client import connection
from sottovoce.edge.client.cloud import SECONDS, UPLOAD_SECONDS, Cloud
from sottovoce.edge.config import CloudConfig
from sottovoce.v1 import generation_pb2 as generation
from sottovoce.v1 import inference_pb2 as inference
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import configured
from tests.support.certificates import Certificate
from tests.support.echo import echoing_cloud
from tests.support.garbage import babbling
from tests.support.stub_cloud import StubCloud, stub_cloud


def _job(bundle: Bundle, request_id: str = "r") -> training.CreateJobRequest:
    release = training.ReleaseSettings(bundle_id=bundle.id, mechanism="t2t.v1", eta=4.0)
    return training.CreateJobRequest(request_id=request_id, adapter="a", release=release)


def _config(folder: Path, cloud: StubCloud, **environ: str) -> CloudConfig:
    return configured(folder, SOTTO_CLOUD_ADDRESS=cloud.address, **environ).cloud


@pytest.mark.parametrize("doubled", [1, 2])
def test_a_piece_of_a_text_that_comes_twice_is_noticed(tmp_path: Path, doubled: int) -> None:
    request = generation.GenerateRequest(released_text="a long and cold winter")
    with echoing_cloud() as server:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=server.address).cloud
        with closing(Cloud(config)) as cloud:
            whole = [piece.delta_text for piece in cloud.generate(request, lambda stop: None)]
            server.doubled = doubled
            pieces = cloud.generate(request, lambda stop: None)
            assert [next(pieces).delta_text for _ in range(doubled)] == whole[:doubled]
            with pytest.raises(Unavailable, match="lost or doubled"):
                next(pieces)


def test_a_bundle_is_had_without_being_enrolled(small_bundle_folder: Path) -> None:
    with (
        stub_cloud(small_bundle_folder) as server,
        closing(Cloud(CloudConfig(server.address))) as cloud,
    ):
        answer = cloud.get_manifest("")
        assert cloud.get_manifest(answer.bundle_id) == answer
        with pytest.raises(NotFound):
            cloud.get_manifest("0")
        whole = (small_bundle_folder / "words.txt").read_bytes()
        rest = cloud.fetch_file(answer.bundle_id, "words.txt", 100)
        assert b"".join(rest) == whole[100:]
        with pytest.raises(NotFound):
            list(cloud.fetch_file("0", "words.txt", 0))


def test_no_answer_is_waited_for_without_end(tmp_path: Path) -> None:
    with stub_cloud() as server, closing(Cloud(_config(tmp_path, server))) as cloud:
        cloud.check_tenant()
        cloud.upload([])
        asked, uploaded = (server.seconds_left[name] for name in ("ListJobs", "UploadExamples"))
    # A deadline travels rounded up.
    assert 0 < asked <= SECONDS + 1 < uploaded <= UPLOAD_SECONDS + 1


def test_a_renewed_token_needs_no_restart(tmp_path: Path) -> None:
    with stub_cloud() as server, closing(Cloud(_config(tmp_path, server))) as cloud:
        token = tmp_path / "token"
        right = token.read_text()
        token.write_text("wrong")
        with pytest.raises(Unauthenticated):
            cloud.check_tenant()
        token.write_text(right)
        cloud.check_tenant()


def test_a_cloud_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with stub_cloud() as server:
        config = _config(tmp_path, server)
    with closing(Cloud(config)) as cloud, pytest.raises(Unavailable, match="does not answer"):
        cloud.check_tenant()


def test_a_cloud_that_talks_nonsense_is_unavailable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with babbling() as address:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=address).cloud
        with closing(Cloud(config)) as cloud:
            for call in (
                cloud.check_tenant,
                lambda: cloud.get_manifest(""),
                lambda: [*cloud.fetch_file("bundle", "rows.npy", 0)],
                lambda: cloud.upload([training.UploadExamplesRequest()]),
                lambda: [*cloud.encode_stream(iter([inference.EncodeRequest()]))],
            ):
                with pytest.raises(Unavailable, match="cannot be read") as caught:
                    call()
                assert address in caught.value.problem
                assert caught.value.fix
    assert caplog.records == []


def test_a_short_outage_is_retried_without_the_caller_noticing(tmp_path: Path) -> None:
    with stub_cloud() as server, closing(Cloud(_config(tmp_path, server))) as cloud:
        cloud.check_tenant()
        server.stop()
        server.start()
        cloud.check_tenant()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "cloud.tenant is not set"),
        ({"tenant": "t"}, "cloud.token_file is not set"),
        ({"tenant": "t", "token_file": "none"}, "cannot read"),
        ({"tenant": "t", "token_file": "empty"}, "holds no token"),
        ({"tenant": "t", "token_file": "accented"}, "holds no token"),
        ({"tenant": "t", "token_file": "binary"}, "holds no token"),
    ],
)
def test_missing_credentials_are_named(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "accented").write_text("épée")
    (tmp_path / "binary").write_bytes(b"a\0b")
    token = tmp_path / settings["token_file"] if "token_file" in settings else None
    config = CloudConfig("127.0.0.1:1", settings.get("tenant", ""), token)
    with closing(Cloud(config)) as cloud, pytest.raises(ConfigError, match=said) as caught:
        cloud.check_tenant()
    assert caught.value.subject == ("cloud.token_file" if "tenant" in settings else "cloud.tenant")


def test_no_address_is_not_ready() -> None:
    with pytest.raises(NotReady, match=r"cloud\.address") as caught:
        Cloud(CloudConfig()).check()
    assert caught.value.subject == "cloud.address"


def test_an_authority_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    config = CloudConfig("127.0.0.1:1", ca_file=tmp_path / "none.pem")
    with pytest.raises(ConfigError) as caught:
        Cloud(config).get_manifest("")
    assert caught.value.subject == "cloud.ca_file"


def test_a_token_open_to_others_is_warned_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with stub_cloud() as server, closing(Cloud(_config(tmp_path, server))) as cloud:
        (tmp_path / "token").chmod(0o644)
        with caplog.at_level(logging.WARNING):
            cloud.check_tenant()
            cloud.check_tenant()
    assert [record.getMessage() for record in caplog.records if "chmod 600" in record.getMessage()]
    assert caplog.text.count("chmod 600") == 1
    assert str(tmp_path / "token") in caplog.text
    assert "correct horse" not in caplog.text


def test_plaintext_goes_to_no_address_but_loopback(tmp_path: Path, small_bundle: Bundle) -> None:
    """0.0.0.0 is no loopback address, though Linux leads it here: it stands for a remote one."""
    with stub_cloud(small_bundle.folder) as server:
        port = server.address.rpartition(":")[2]
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=f"0.0.0.0:{port}").cloud
        request = _job(small_bundle)
        with closing(Cloud(config)) as cloud, pytest.raises(ConfigError, match="TLS"):
            cloud.create_job(request)
        assert server.jobs == []
        with closing(Cloud(_config(tmp_path, server))) as cloud:
            cloud.create_job(request)
        with grpc.insecure_channel(config.address) as channel:  # it does lead there
            grpc.channel_ready_future(channel).result(timeout=60)


def test_with_an_authority_the_wire_is_tls(tmp_path: Path) -> None:
    ours, other = Certificate.make(), Certificate.make()
    (tmp_path / "ca.pem").write_bytes(ours.certificate)
    for served, accepted in ((ours, True), (other, False), (None, False)):
        credentials = served and grpc.ssl_server_credentials([(served.key, served.certificate)])
        with stub_cloud(None, credentials) as server:
            config = _config(tmp_path, server, SOTTO_CLOUD_CA_FILE=str(tmp_path / "ca.pem"))
            with closing(Cloud(config)) as cloud:
                if accepted:
                    cloud.check_tenant()
                else:  # another's certificate, or none: no request arrives
                    with pytest.raises(ConfigError):
                        cloud.check_tenant()
            assert bool(server.received) == accepted


def test_a_closed_cloud_answers_nobody(tmp_path: Path) -> None:
    with stub_cloud() as server:
        cloud = Cloud(_config(tmp_path, server))
        cloud.check_tenant()
        cloud.close()
        with pytest.raises(Unavailable, match="stopping"):
            cloud.check_tenant()


def test_a_cloud_that_was_never_called_is_closed_too() -> None:
    cloud = Cloud(CloudConfig("127.0.0.1:1"))
    cloud.close()
    with pytest.raises(Unavailable, match="stopping"):
        cloud.get_manifest("")


def test_a_call_that_the_end_overtakes_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stub_cloud() as server:
        cloud = Cloud(_config(tmp_path, server))
        # The token is read when the channel is at hand already.
        monkeypatch.setattr(connection, "open_to_others", lambda _: cloud.close())
        with pytest.raises(Unavailable, match="stopping"):
            cloud.check_tenant()


@pytest.mark.parametrize("secure", [False, True])
def test_no_proxy_stands_before_a_cloud_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secure: bool
) -> None:
    ours = Certificate.make()
    (tmp_path / "ca.pem").write_bytes(ours.certificate)
    pair = grpc.ssl_server_credentials([(ours.key, ours.certificate)]) if secure else None
    authority = {"SOTTO_CLOUD_CA_FILE": str(tmp_path / "ca.pem")} if secure else {}
    with (
        stub_cloud(None, pair) as server,
        _proxy(monkeypatch) as asked,
        closing(Cloud(_config(tmp_path, server, **authority))) as cloud,
    ):
        cloud.check_tenant()
    assert asked == []


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("cloud.example.org:443", "cloud.example.org:443"),
        ("[2001:db8::1]:443", "[2001:db8::1]:443"),
    ],
)
def test_a_cloud_elsewhere_is_reached_through_the_owners_proxy(
    monkeypatch: pytest.MonkeyPatch, address: str, target: str
) -> None:
    with (
        _proxy(monkeypatch) as asked,
        closing(Cloud(CloudConfig(address))) as cloud,
        pytest.raises(Unavailable),
    ):
        list(cloud.fetch_file("bundle", "words.txt", 0))
    assert asked[0].startswith(f"CONNECT {target} ".encode())


@contextmanager
def _proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Run a proxy that refuses; yield the first line of each request."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):  # at the end
                while True:
                    caller, _ = listening.accept()
                    with caller:
                        asked.append(caller.recv(4096).partition(b"\r\n")[0])
                        caller.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        for name in ("no_proxy", "no_grpc_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("grpc_proxy", f"http://127.0.0.1:{listening.getsockname()[1]}")
        yield asked
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
