"""The device's side of the wire: where plaintext is allowed, who we are, what goes wrong."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from sottovoce.core.errors import ConfigError, NotFound, NotReady, Unauthenticated, Unavailable
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.config import CloudConfig
from sottovoce.v1 import inference_pb2 as inference
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import configured
from tests.support.certificates import Certificate
from tests.support.fake_cloud import FakeCloud, fake_cloud
from tests.support.garbage import babbling


def _config(folder: Path, cloud: FakeCloud, **environ: str) -> CloudConfig:
    return configured(folder, SOTTO_CLOUD_ADDRESS=cloud.address, **environ).cloud


def test_an_enrolled_tenant_is_answered(tmp_path: Path) -> None:
    with fake_cloud() as server, closing(Cloud(_config(tmp_path, server))) as cloud:
        job = cloud.create_job(training.CreateJobRequest(request_id="r", adapter="a"))
        again = cloud.create_job(training.CreateJobRequest(request_id="r", adapter="a"))
        assert job == again == cloud.get_job(job.id)
        cloud.check_tenant()


def test_errors_of_the_cloud_arrive_with_their_fix(tmp_path: Path) -> None:
    with fake_cloud() as server, closing(Cloud(_config(tmp_path, server))) as cloud:
        with pytest.raises(NotFound) as caught:
            cloud.predict(inference.InferencePredictRequest(adapter="none", released_text="x"))
        assert (caught.value.problem, caught.value.fix, caught.value.subject) == (
            "no such adapter",
            "customise it first",
            "adapter",
        )


def test_a_wrong_token_is_unauthenticated(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("x")
    with fake_cloud() as server:
        config = _config(tmp_path, server, SOTTO_CLOUD_TOKEN_FILE=str(wrong))
        with closing(Cloud(config)) as cloud, pytest.raises(Unauthenticated):
            cloud.check_tenant()


def test_a_renewed_token_needs_no_restart(tmp_path: Path) -> None:
    with fake_cloud() as server, closing(Cloud(_config(tmp_path, server))) as cloud:
        token = tmp_path / "token"
        right = token.read_text()
        token.write_text("wrong")
        with pytest.raises(Unauthenticated):
            cloud.check_tenant()
        token.write_text(right)
        cloud.check_tenant()


def test_a_cloud_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with fake_cloud() as server:
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
    with fake_cloud() as server, closing(Cloud(_config(tmp_path, server))) as cloud:
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
    ],
)
def test_missing_credentials_are_named(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    (tmp_path / "empty").write_text("\n")
    token = tmp_path / settings["token_file"] if "token_file" in settings else None
    config = CloudConfig("127.0.0.1:1", settings.get("tenant", ""), token)
    with closing(Cloud(config)) as cloud, pytest.raises(ConfigError, match=said):
        cloud.check_tenant()


def test_no_address_is_not_ready() -> None:
    with pytest.raises(NotReady, match=r"cloud\.address"):
        Cloud(CloudConfig()).check()


def test_a_token_open_to_others_is_warned_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with fake_cloud() as server, closing(Cloud(_config(tmp_path, server))) as cloud:
        (tmp_path / "token").chmod(0o644)
        with caplog.at_level(logging.WARNING):
            cloud.check_tenant()
            cloud.check_tenant()
    assert [record.getMessage() for record in caplog.records if "chmod 600" in record.getMessage()]
    assert caplog.text.count("chmod 600") == 1
    assert "correct horse" not in caplog.text


def test_plaintext_goes_to_no_address_but_loopback(tmp_path: Path) -> None:
    """0.0.0.0 is no loopback address, though Linux leads it here: it stands for a remote one."""
    with fake_cloud() as server:
        port = server.address.rpartition(":")[2]
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=f"0.0.0.0:{port}").cloud
        request = training.CreateJobRequest(request_id="r", adapter="a")
        with closing(Cloud(config)) as cloud, pytest.raises(Unavailable):
            cloud.create_job(request)
        assert server.jobs == {}
        with closing(Cloud(_config(tmp_path, server))) as cloud:
            cloud.create_job(request)
        with grpc.insecure_channel(config.address) as channel:  # it does lead there
            grpc.channel_ready_future(channel).result(timeout=30)


def test_with_an_authority_the_wire_is_tls(tmp_path: Path) -> None:
    ours, other = Certificate.make(), Certificate.make()
    (tmp_path / "ca.pem").write_bytes(ours.certificate)
    server = FakeCloud()
    for served, accepted in ((ours, True), (other, False), (None, False)):
        credentials = served and grpc.ssl_server_credentials([(served.key, served.certificate)])
        server.start(credentials)
        config = _config(tmp_path, server, SOTTO_CLOUD_CA_FILE=str(tmp_path / "ca.pem"))
        request = training.CreateJobRequest(request_id=str(id(served)), adapter="a")
        with closing(Cloud(config)) as cloud:
            if accepted:
                assert cloud.create_job(request).id == "job-0"
            else:  # somebody else's certificate, or none: not a single request gets there
                with pytest.raises(Unavailable):
                    cloud.create_job(request)
        server.stop()
    assert list(server.jobs) == ["job-0"]


def test_a_closed_cloud_answers_nobody(tmp_path: Path) -> None:
    with fake_cloud() as server:
        cloud = Cloud(_config(tmp_path, server))
        cloud.check_tenant()
        cloud.close()
        with pytest.raises(Unavailable, match="stopping"):
            cloud.check_tenant()
