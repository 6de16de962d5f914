"""The device shows the owner's certificate, and takes up a renewed one without losing a call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import ConfigError, Unavailable
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.connection import ClientCertificate
from sottovoce.edge.config import load
from sottovoce.v1 import training_pb2
from tests.support.agent import configured
from tests.support.certificates import Certificate
from tests.support.stub_cloud import StubCloud
from tests.support.stub_mutual_tls import CLIENTS, mutual_tls, settings_for


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
