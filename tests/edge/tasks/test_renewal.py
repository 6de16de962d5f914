"""The daemon's certificate never ends: it is signed anew in time, and calls go on meanwhile."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from cryptography import x509

from sottovoce.core.errors import ConfigError
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.device_certificate import DeviceCertificate
from sottovoce.edge.tasks.renewal import Renewal
from tests.support.agent import opened, running
from tests.support.certified import calling, certifying
from tests.support.fake_authority import DAY
from tests.support.fake_cloud import FakeCloud
from tests.support.waiting import until


@pytest.fixture
def server() -> Iterator[FakeCloud]:
    """A cloud with a port for certificates."""
    with certifying() as running:
        yield running


@contextmanager
def _renewing(cloud: Cloud) -> Iterator[Renewal]:
    renewal = Renewal(cloud, first=0.01)
    renewal.start()
    try:
        yield renewal
    finally:
        renewal.stop()


def _device(folder: Path, server: FakeCloud) -> Cloud:
    config = calling(folder, server)
    return Cloud(config.cloud, config.agent.state)


def _aged(server: FakeCloud, life: tuple[float, float], cloud: Cloud) -> None:
    """Has it hold a certificate of that life, and the cloud sign for a week from then on."""
    server.authority.life = life
    cloud.check_tenant()
    server.authority.life = (-300.0, 7 * DAY)


def test_one_is_signed_anew_when_a_quarter_of_its_life_is_left(
    server: FakeCloud, tmp_path: Path
) -> None:
    with closing(_device(tmp_path, server)) as cloud:
        _aged(server, (-6 * DAY, 2 * DAY), cloud)
        with _renewing(cloud):
            until(lambda: len(server.signed) == 2)
            held = DeviceCertificate(tmp_path / "state", server.address)
            until(lambda: held.held().left() > 0.9)
            cloud.check_tenant()
    first, second = server.shown
    assert first != second


@pytest.mark.parametrize("life", [(-300.0, 7 * DAY), (-5 * DAY, 5 * DAY)])
def test_one_that_has_half_of_its_life_before_it_is_let_be(
    server: FakeCloud, tmp_path: Path, life: tuple[float, float]
) -> None:
    with closing(_device(tmp_path, server)) as cloud:
        _aged(server, life, cloud)
        asked = 0
        inner = cloud.certify

        def counted(least: float = 0.0) -> object:
            nonlocal asked
            asked += 1
            return inner(least)

        cloud.certify = counted  # type: ignore[method-assign, assignment]
        with _renewing(cloud):
            until(lambda: asked)
    assert len(server.signed) == 1


def test_a_cloud_that_is_away_is_asked_again_and_calls_go_on(
    server: FakeCloud, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(_device(tmp_path, server)) as cloud:
        _aged(server, (-6 * DAY, 2 * DAY), cloud)
        server.refuses_keys = 9  # four attempts a call
        with _renewing(cloud):
            until(lambda: server.refuses_keys < 9)
            cloud.check_tenant()
            assert len(server.signed) == 1
            until(lambda: len(server.signed) == 2)
    assert "this device's certificate: Unavailable at " in caplog.text
    assert "not now" not in caplog.text  # the cloud's words are not ours to log


def test_a_stream_that_was_open_goes_on_over_the_old_connection(
    small_bundle_folder: Path, tmp_path: Path
) -> None:
    with certifying(small_bundle_folder) as server, closing(_device(tmp_path, server)) as cloud:
        asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        answers: queue.SimpleQueue[object] = queue.SimpleQueue()

        def follow() -> None:
            try:
                for answer in cloud.predict_stream(iter(asked.get, None)):
                    answers.put(answer)
                answers.put(None)
            except BaseException as error:
                answers.put(error)

        _aged(server, (-6 * DAY, 2 * DAY), cloud)
        before = cloud._certified[-1]
        listening = threading.Thread(target=follow)
        listening.start()
        until(lambda: len(server.shown) == 2)
        try:
            for renewals in range(1, 4):
                cloud.certify(2.0)
                cloud.check_tenant()
                assert before in cloud._certified
                assert len(cloud._certified) <= 3, renewals
        finally:
            asked.put(None)
        assert answers.get(timeout=60) is None
        listening.join()
        cloud.certify(2.0)
        cloud.check_tenant()
        assert before not in cloud._certified
        assert len(cloud._certified) == 2
    assert len(server.signed) == 5


def test_there_is_no_thread_where_no_certificate_is_wanted(tmp_path: Path) -> None:
    server = FakeCloud()
    server.start()
    config = calling(tmp_path, server)
    with closing(Cloud(config.cloud, config.agent.state)) as cloud:
        renewal = Renewal(cloud)
        renewal.start()
        assert not renewal._thread.is_alive()
        renewal.stop()
    server.stop()


def test_a_running_daemon_takes_up_what_was_renewed(
    server: FakeCloud, tmp_path: Path, lexicon_tagger: object
) -> None:
    """And another process of the same device as well."""
    config = calling(tmp_path, server)
    with opened(config, lexicon_tagger) as device:  # type: ignore[arg-type]
        _aged(server, (-6 * DAY, 2 * DAY), device.cloud)
    with running(config, lexicon_tagger):  # type: ignore[arg-type]
        until(lambda: len(server.signed) == 2)
        read = x509.load_der_x509_certificate(server.signed[-1])
        file, _ = DeviceCertificate(tmp_path / "state", server.address).files
        until(lambda: _serial(file) == read.serial_number)
        with closing(_device(tmp_path, server)) as other:
            other.check_tenant()
    assert x509.load_pem_x509_certificate(server.shown[-1]) == read
    assert len(server.signed) == 2


def _serial(file: Path) -> int:
    return x509.load_pem_x509_certificate(file.read_bytes()).serial_number


def test_a_key_that_cannot_be_read_is_waited_out(
    server: FakeCloud, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A link to itself stands for one of another user's, which root could read."""
    with closing(_device(tmp_path, server)) as cloud:
        _, key = DeviceCertificate(tmp_path / "state", server.address).files
        key.parent.mkdir(mode=0o700)
        key.symlink_to(key)
        with pytest.raises(ConfigError, match="cannot read") as caught:
            cloud.check_tenant()
        assert "chown" in caught.value.fix
        with _renewing(cloud):
            until(lambda: "ConfigError at " in caplog.text)
            key.unlink()
            until(lambda: server.signed)
