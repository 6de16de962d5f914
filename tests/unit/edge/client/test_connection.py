"""The connection: attempts, known keys, secrets in files, and the device's certificate."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import grpc
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.signature import show_key
from sottovoce.core.errors import BundleMismatch, ConfigError, DataLoss, Unavailable
from sottovoce.edge.client import connection
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.connection import ClientCertificate, KnownClouds, SecretFile
from sottovoce.edge.config import BundleConfig, CloudConfig, load
from sottovoce.v1 import training_pb2
from tests.support.agent import configured
from tests.support.certificates import Certificate
from tests.support.stub_cloud import StubCloud
from tests.support.stub_mutual_tls import CLIENTS, mutual_tls, settings_for

_ENOUGH = 12
"""Attempts: at gRPC's own pace, each wait 1.6 times the last, the twelfth comes after minutes."""


class HangsUp:
    """A port that accepts connections and closes them, as before a starting cloud."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.came = 0
        self.enough = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):  # closed
            while True:
                self._listening.accept()[0].close()
                self.came += 1
                if self.came == _ENOUGH:
                    self.enough.set()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # which ends a wait for the next to come
        self._listening.close()


@pytest.fixture
def cloud() -> Iterator[HangsUp]:
    hangs_up = HangsUp()
    yield hangs_up
    hangs_up.close()


def test_waits_between_attempts_do_not_grow_beyond_their_bound(
    cloud: HangsUp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(connection, "_LONGEST_WAIT", 100)
    config = CloudConfig(address=f"127.0.0.1:{cloud.port}", token_file=tmp_path / "token")
    with connection.connect(config) as channel:
        waiting = grpc.channel_ready_future(channel)  # which has it try again and again
        assert cloud.enough.wait(60)
        waiting.cancel()


ONE, OTHER = b"0" * 32, b"1" * 32


def test_the_first_key_is_taken_and_no_other(tmp_path: Path) -> None:
    known = KnownClouds(BundleConfig(tmp_path))
    known.check("cloud.example.org", OTHER)  # not noted by asking
    known.check("cloud.example.org", ONE)
    known.note("cloud.example.org", ONE)
    for each in (known, KnownClouds(BundleConfig(tmp_path))):
        each.check("cloud.example.org:8471", ONE)
        with pytest.raises(BundleMismatch, match="not as before") as caught:
            each.check("cloud.example.org", OTHER)
        assert f"sotto pull --key {show_key(OTHER)}" in caught.value.fix
        each.check("cloud.example.org:9000", OTHER)  # another cloud
    known.note("cloud.example.org", OTHER)
    known.check("cloud.example.org", OTHER)


def test_any_noted_key_vouches_for_a_bundle_that_is_there(tmp_path: Path) -> None:
    known = KnownClouds(BundleConfig(tmp_path))
    with pytest.raises(BundleMismatch, match="never noted"):
        known.check_any(ONE)
    known.note("[::1]:80", ONE)
    known.note("cloud.example.org", OTHER)
    known.check_any(ONE)
    known.check_any(OTHER)


def test_a_configured_key_alone_counts(tmp_path: Path) -> None:
    KnownClouds(BundleConfig(tmp_path)).note("cloud.example.org", ONE)
    known = KnownClouds(BundleConfig(tmp_path, key=show_key(OTHER)))
    known.check("cloud.example.org", OTHER)
    known.check_any(OTHER)
    for refused in (lambda: known.check("new", ONE), lambda: known.check_any(ONE)):
        with pytest.raises(BundleMismatch, match="not the configured key"):
            refused()


@pytest.mark.parametrize("text", ["cloud:1", "cloud:1 key", "a b c", "cloud:1 \xff"])
def test_a_damaged_file_opens_to_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "known_clouds").write_text(text, encoding="latin-1")
    known = KnownClouds(BundleConfig(tmp_path))
    for call in (known.check, known.note):
        with pytest.raises(DataLoss, match="known_clouds is damaged"):
            call("cloud", ONE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.touch(0o600)
    return path


def test_a_renewed_secret_needs_no_restart(path: Path) -> None:
    secret = SecretFile(path, "chat.key_file", "key")
    for told in ("first", "second"):
        path.write_text(f"{told}\n")
        assert secret.read() == told


@pytest.mark.parametrize("content", [b"", b" \n", "clé".encode(), b"a\x00b", b"a\nb"])
def test_what_is_no_secret_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="holds no key") as caught:
        SecretFile(path, "chat.key_file", "key").read()
    assert caught.value.subject == "chat.key_file"


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    path.unlink()
    with pytest.raises(ConfigError, match=r"cannot read .*key"):
        SecretFile(path, "chat.key_file", "key").read()


def test_the_log_is_told_once_where_others_can_read_it(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text("secret")
    secret = SecretFile(path, "chat.key_file", "key")
    secret.read()
    assert not caplog.records
    path.chmod(0o644)
    for _ in range(2):
        secret.read()
    (record,) = caplog.records
    assert "chmod 600" in record.getMessage()
    assert "secret" not in record.getMessage()


@pytest.fixture
def server() -> Iterator[StubCloud]:
    """A cloud that asks for certificates."""
    with mutual_tls() as running:
        yield running


def _device(folder: Path, server: StubCloud) -> Cloud:
    return Cloud(configured(folder, **settings_for(folder, server)).cloud)


def _replace(file: Path, data: bytes) -> None:
    aside = file.with_name("aside")
    aside.touch(0o600)
    aside.write_bytes(data)
    os.replace(aside, file)


def test_every_call_shows_it(small_bundle_folder: Path, tmp_path: Path) -> None:
    with mutual_tls(small_bundle_folder) as server, closing(_device(tmp_path, server)) as cloud:
        cloud.get_manifest("")
        for _ in range(3):
            cloud.check_tenant()
        assert set(server.shown) == {(tmp_path / "certificate").read_bytes()}


def test_a_renewed_pair_is_shown_and_open_calls_go_on(small_bundle: Bundle, tmp_path: Path) -> None:
    release = training_pb2.ReleaseSettings(bundle_id=small_bundle.id, mechanism="t2t.v1", eta=4.0)
    request = training_pb2.CreateJobRequest(request_id="r", adapter="a", release=release)
    with mutual_tls(small_bundle.folder) as server, closing(_device(tmp_path, server)) as cloud:
        job = cloud.create_job(request)
        watched = cloud.watch_job(job.id)
        assert next(watched).id == job.id
        renewed = CLIENTS.sign("hall", days=(-2, 2))
        earlier = set(server.shown)
        _replace(tmp_path / "key", renewed.key)  # the certificate follows a moment later
        cloud.check_tenant()
        assert set(server.shown) == earlier
        _replace(tmp_path / "certificate", renewed.certificate)
        cloud.check_tenant()
        assert server.shown[-1] == renewed.certificate
        for _ in range(3):  # idle connections are closed, and the watch's is not
            again = CLIENTS.sign("hall")
            _replace(tmp_path / "certificate", again.certificate)
            _replace(tmp_path / "key", again.key)
            cloud.check_tenant()
        assert server.shown[-1] == again.certificate
        cloud.cancel_job(job.id)
        assert [each.id for each in watched][-1] == job.id


def test_a_pair_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    certificate, key = CLIENTS.sign("hall").write(tmp_path)
    pair = ClientCertificate(certificate, key)
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="other users can read"):
        pair.read()
    key.chmod(0o600)
    whole = key.read_bytes()
    for wrong, said in (
        (b"nonsense", "key cannot be read"),
        (CLIENTS.sign("hall").key, "do not match"),
    ):
        key.write_bytes(wrong)
        with pytest.raises(ConfigError, match=said):
            pair.read()
    key.unlink()
    with pytest.raises(ConfigError, match="cannot read"):
        pair.read()
    key.touch(0o600)
    key.write_bytes(whole)
    certificate.write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match="certificate cannot be read"):
        pair.read()
    certificate.write_bytes(CLIENTS.sign("hall").certificate)
    with pytest.raises(ConfigError, match="do not match"):
        pair.read()


def test_the_key_is_in_no_representation(tmp_path: Path) -> None:
    shown = ClientCertificate(*CLIENTS.sign("hall").write(tmp_path)).read()
    assert "PRIVATE" not in repr(shown)


@pytest.mark.parametrize("half", ["CERTIFICATE", "CERTIFICATE_KEY"])
def test_half_a_pair_is_refused(half: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="together"):
        load(environ={"HOME": str(tmp_path), f"SOTTO_CLOUD_{half}": "/x"})


def test_a_cloud_that_refuses_the_certificate_is_told_apart(tmp_path: Path) -> None:
    with mutual_tls(authority=Certificate.make().certificate) as server:
        with (
            closing(_device(tmp_path, server)) as cloud,
            pytest.raises(Unavailable, match="does not take this device's") as caught,
        ):
            cloud.check_tenant()
        assert caught.value.subject == "cloud.certificate"


def test_a_cloud_that_wants_a_certificate_says_so_to_a_device_without(
    server: StubCloud, tmp_path: Path
) -> None:
    given = settings_for(tmp_path, server)
    del given["SOTTO_CLOUD_CERTIFICATE"], given["SOTTO_CLOUD_CERTIFICATE_KEY"]
    with (
        closing(Cloud(configured(tmp_path, **given).cloud)) as cloud,
        pytest.raises(Unavailable, match="wants a certificate") as caught,
    ):
        cloud.check_tenant()
    assert "cloud.certificate_key" in caught.value.fix


def test_a_cloud_that_is_away_is_no_matter_of_certificates(
    server: StubCloud, tmp_path: Path
) -> None:
    with closing(_device(tmp_path, server)) as cloud:
        cloud.check_tenant()
        server.stop()
        with pytest.raises(Unavailable, match="does not answer"):
            cloud.check_tenant()
