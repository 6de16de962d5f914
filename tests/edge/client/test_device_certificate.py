"""The device's key stays on it; its certificate is had, kept, shown and given up by itself."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sottovoce.core.errors import ConfigError, DataLoss, Unauthenticated, Unavailable
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.device_certificate import DeviceCertificate, Held
from sottovoce.v1 import training_pb2
from tests.support.certified import calling, certifying, open_ports
from tests.support.fake_authority import DAY, FakeAuthority
from tests.support.fake_cloud import FakeCloud


@pytest.fixture
def server() -> Iterator[FakeCloud]:
    """A cloud with a port for certificates."""
    with certifying() as running:
        yield running


def _device(folder: Path, server: FakeCloud) -> Cloud:
    config = calling(folder, server)
    return Cloud(config.cloud, config.agent.state)


def _kept(folder: Path, server: FakeCloud) -> DeviceCertificate:
    return DeviceCertificate(folder / "state", server.address)


def _key_of(pem: bytes) -> bytes:
    return _spki(x509.load_pem_x509_certificate(pem))


def _spki(made: x509.Certificate | x509.CertificateSigningRequest) -> bytes:
    return made.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def test_the_first_call_gets_one_and_the_others_show_it(server: FakeCloud, tmp_path: Path) -> None:
    with closing(_device(tmp_path, server)) as cloud:
        for _ in range(3):
            cloud.check_tenant()
    with closing(_device(tmp_path, server)) as cloud:  # another process, or after a restart
        cloud.check_tenant()
    assert len(server.signed) == 1
    assert len(set(server.shown)) == 1
    assert len(server.shown) == 4
    for file in _kept(tmp_path, server).files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_the_port_no_key_is_made(server: FakeCloud, tmp_path: Path) -> None:
    config = calling(tmp_path, server)
    server.devices_port = 0
    config = calling(tmp_path, server)
    with closing(Cloud(config.cloud, config.agent.state)) as cloud:
        assert not cloud.shows_certificate
        assert cloud.certify() is None
        cloud.check_tenant()
    assert not (tmp_path / "state").exists()
    assert server.shown == server.signed == []


def test_what_needs_no_token_needs_no_certificate(
    small_bundle_folder: Path, tmp_path: Path
) -> None:
    with certifying(small_bundle_folder) as server, closing(_device(tmp_path, server)) as cloud:
        cloud.get_manifest("")
        assert server.signed == []


def test_one_that_ended_is_asked_for_anew_by_the_call_that_needs_it(
    server: FakeCloud, tmp_path: Path
) -> None:
    state = _kept(tmp_path, server)
    with closing(_device(tmp_path, server)) as cloud:
        ended = FakeAuthority((-9 * DAY, -2 * DAY), server.authority.key).sign(state.request())
        _put(state, ended)
        held = state.held()
        assert held is not None
        assert held.left() < 0
        cloud.check_tenant()
    (shown,) = server.shown
    assert _key_of(shown) == _spki(x509.load_der_x509_certificate(ended))


def _put(state: DeviceCertificate, der: bytes) -> None:
    """As if it had been kept when it was valid."""
    pem = x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)
    state.files[0].write_bytes(pem)


def test_one_that_the_cloud_does_not_take_is_given_up_and_said_so(
    server: FakeCloud, tmp_path: Path
) -> None:
    """The provider has another authority."""
    with closing(_device(tmp_path, server)) as cloud:
        cloud.check_tenant()
    server.stop()
    server.authority = FakeAuthority()
    open_ports(server)
    with closing(_device(tmp_path, server)) as cloud:
        with pytest.raises(Unauthenticated, match="does not take this device's") as caught:
            cloud.check_tenant()
        assert "try again" in caught.value.fix
        assert not _kept(tmp_path, server).files[0].exists()
        cloud.check_tenant()
    assert len(server.signed) == 2


def test_a_cloud_that_is_away_takes_nobodys_certificate(server: FakeCloud, tmp_path: Path) -> None:
    with closing(_device(tmp_path, server)) as cloud:
        cloud.check_tenant()
        server.stop()
        with pytest.raises(Unavailable, match="does not answer"):
            cloud.check_tenant()
        assert _kept(tmp_path, server).files[0].exists()


def test_a_cloud_that_is_busy_has_taken_the_certificate(server: FakeCloud, tmp_path: Path) -> None:
    server.refuses["CreateJob"] = Unavailable("busy", fix="later")
    with closing(_device(tmp_path, server)) as cloud:
        with pytest.raises(Unavailable, match="busy"):
            cloud.create_job(training_pb2.CreateJobRequest(request_id="r"))
        cloud.check_tenant()
    assert len(server.signed) == 1


@pytest.mark.parametrize("life", [(DAY, 8 * DAY), (-9 * DAY, -2 * DAY)])
def test_a_wrong_clock_is_named(
    server: FakeCloud, tmp_path: Path, life: tuple[float, float]
) -> None:
    server.authority.life = life
    with closing(_device(tmp_path, server)) as cloud:
        with pytest.raises(ConfigError, match="clock says") as caught:
            cloud.check_tenant()
        assert caught.value.subject == "clock"
        assert "timedatectl" in caught.value.fix
        assert not _kept(tmp_path, server).files[0].exists()
        server.authority.life = (-300.0, DAY)
        cloud.check_tenant()


@pytest.mark.parametrize("sent", [b"", b"nonsense"])
def test_what_is_no_certificate_is_not_kept(
    server: FakeCloud, tmp_path: Path, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.authority, "sign", lambda csr: sent)
    said = pytest.raises(Unavailable, match="no certificate for this device")
    with closing(_device(tmp_path, server)) as cloud, said:
        cloud.check_tenant()
    assert not _kept(tmp_path, server).files[0].exists()


def test_one_for_another_key_is_not_kept(server: FakeCloud, tmp_path: Path) -> None:
    ours = DeviceCertificate(tmp_path / "ours", server.address)
    ours.request()
    others = DeviceCertificate(tmp_path / "theirs", server.address)
    theirs = server.authority.sign(others.request())
    with pytest.raises(Unavailable, match="no certificate for this device"):
        ours.keep(theirs)


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_certificate_is_had_again(
    server: FakeCloud, tmp_path: Path, damage: bytes | None
) -> None:
    with closing(_device(tmp_path, server)) as cloud:
        cloud.check_tenant()
        file = _kept(tmp_path, server).files[0]
        if damage is None:
            file.unlink()
        else:
            file.write_bytes(damage)
        cloud.check_tenant()
    assert len(server.signed) == 2


def test_a_key_that_is_damaged_or_open_to_others_is_not_replaced_unasked(
    server: FakeCloud, tmp_path: Path
) -> None:
    key = _kept(tmp_path, server).files[1]
    with closing(_device(tmp_path, server)) as cloud:
        cloud.check_tenant()
    whole = key.read_bytes()
    key.write_bytes(whole[:40])
    with closing(_device(tmp_path, server)) as cloud:
        with pytest.raises(DataLoss, match="damaged") as caught:
            cloud.check_tenant()
        assert "sotto enroll" in caught.value.fix
    key.write_bytes(whole)
    key.chmod(0o644)
    said = pytest.raises(ConfigError, match="other users can read")
    with closing(_device(tmp_path, server)) as cloud, said:
        cloud.check_tenant()
    assert key.read_bytes() == whole


def test_a_certificate_whose_key_is_gone_is_none(server: FakeCloud, tmp_path: Path) -> None:
    with closing(_device(tmp_path, server)) as cloud:
        cloud.check_tenant()
    _kept(tmp_path, server).files[1].unlink()
    with closing(_device(tmp_path, server)) as cloud:
        cloud.check_tenant()
    assert len({_key_of(pem) for pem in server.shown}) == 2


def test_processes_that_begin_together_have_one_key(tmp_path: Path) -> None:
    together = threading.Barrier(6)

    def ask(_: int) -> bytes:
        together.wait(60)
        return _spki(x509.load_der_x509_csr(DeviceCertificate(tmp_path, "here").request()))

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(ask, range(6)))) == 1
    assert [file.name for file in tmp_path.iterdir()] == [
        DeviceCertificate(tmp_path, "here").files[1].name
    ]


def test_forgetting_the_key_makes_another(tmp_path: Path) -> None:
    state = DeviceCertificate(tmp_path, "here")
    one = x509.load_der_x509_csr(state.request()).public_key()
    assert x509.load_der_x509_csr(state.request()).public_key() == one
    state.forget_key()
    assert x509.load_der_x509_csr(state.request()).public_key() != one
    state.forget_key()
    state.forget_key()


def test_threads_that_begin_together_ask_once(server: FakeCloud, tmp_path: Path) -> None:
    together = threading.Barrier(6)
    with closing(_device(tmp_path, server)) as cloud:

        def call(_: int) -> None:
            together.wait(60)
            cloud.check_tenant()

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(call, range(6)))
        assert len(cloud._certified) == 1
    assert len(server.signed) == 1
    assert len(server.shown) == 6


def test_an_old_ones_late_failure_gives_up_no_new_one(server: FakeCloud, tmp_path: Path) -> None:
    with closing(_device(tmp_path, server)) as cloud:
        old = cloud.certify()
        new = cloud.certify(2.0)
        assert old is not None
        assert new is not None
        said = Unauthenticated("ended", fix="call again", subject="certificate")
        assert cloud._diagnosed(said, old) is said
        assert _kept(tmp_path, server).held() == new
        cloud._diagnosed(said, new)
        assert _kept(tmp_path, server).held() is None


def test_a_call_whose_connection_was_closed_may_be_tried_again(
    server: FakeCloud, tmp_path: Path
) -> None:
    with closing(_device(tmp_path, server)) as cloud:
        cloud.check_tenant()
        cloud._certified[-1].close()
        with pytest.raises(Unavailable, match="replaced meanwhile"):
            cloud.check_tenant()
        with pytest.raises(Unavailable, match="replaced meanwhile"):
            list(cloud.watch_job("job"))


def test_no_other_cloud_is_shown_a_key(server: FakeCloud, tmp_path: Path) -> None:
    """Whatever is written into the settings; and on the way back nothing was lost."""
    with certifying() as other:
        for each in (server, other, server):
            with closing(_device(tmp_path, each)) as cloud:
                cloud.check_tenant()
        keys = [{_key_of(pem) for pem in each.shown} for each in (server, other)]
    assert [len(each) for each in keys] == [1, 1]
    assert keys[0] != keys[1]
    assert len(server.signed) == 1


def test_the_token_is_read_before_the_key(
    server: FakeCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that is enrolled again in between: the new token is not bound to the old key."""
    order: list[str] = []
    with closing(_device(tmp_path, server)) as cloud:
        token, key = cloud._credentials, DeviceCertificate.request
        monkeypatch.setattr(cloud, "_credentials", lambda: (order.append("token"), token())[1])
        monkeypatch.setattr(
            DeviceCertificate, "request", lambda kept: (order.append("key"), key(kept))[1]
        )
        cloud.certify()
    assert order == ["token", "key"]


def test_who_only_looks_makes_nothing_and_gives_nothing_up(
    server: FakeCloud, tmp_path: Path
) -> None:
    config = calling(tmp_path, server)
    with closing(Cloud(config.cloud, config.agent.state, looks=True)) as cloud:
        assert cloud.certify() is None
        cloud.check_tenant()
        assert not config.agent.state.exists()
        assert server.signed == server.shown == []
    with closing(_device(tmp_path, server)) as cloud:
        held = cloud.certify()
    with closing(Cloud(config.cloud, config.agent.state, looks=True)) as cloud:
        assert cloud.certify() == held
        cloud._diagnosed(Unauthenticated("ended", fix="call", subject="certificate"), held)
    assert _kept(tmp_path, server).held() == held


@pytest.mark.parametrize("which", [0, 1])
def test_files_that_cannot_be_read_are_named(server: FakeCloud, tmp_path: Path, which: int) -> None:
    """A link to itself stands for one of another user's, which root could read."""
    with closing(_device(tmp_path, server)) as cloud:
        cloud.certify()
    file = _kept(tmp_path, server).files[which]
    file.unlink()
    file.symlink_to(file)
    with pytest.raises(ConfigError, match="cannot read") as caught:
        _kept(tmp_path, server).held()
    assert str(file) in str(caught.value)
    assert "chown" in caught.value.fix


def test_the_key_goes_before_its_certificate(
    server: FakeCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[Path] = []
    kept = _kept(tmp_path, server)
    monkeypatch.setattr(Path, "unlink", lambda file, missing_ok=False: gone.append(file))
    kept.forget_key()
    assert gone == list(reversed(kept.files))


def test_one_that_came_while_we_looked_is_taken(
    server: FakeCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, looks = DeviceCertificate.held, iter((True,))
    with closing(_device(tmp_path, server)) as cloud:

        def slow(kept: DeviceCertificate) -> Held | None:
            found = held(kept)
            if next(looks, False):
                cloud.certify()  # another thread's
            return found

        monkeypatch.setattr(DeviceCertificate, "held", slow)
        cloud.check_tenant()
    assert len(server.signed) == 1
