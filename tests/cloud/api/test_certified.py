"""Calls on real TLS connections, with certificates of a real authority, and without."""

from __future__ import annotations

import datetime
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sottovoce.cloud.api import certified, listener
from sottovoce.cloud.tenants.authority import Authority, device
from sottovoce.cloud.tenants.codes import Codes
from sottovoce.cloud.tenants.credentials import Credentials
from sottovoce.core.errors import (
    ConfigError,
    InvalidInput,
    NotReady,
    PermissionDenied,
    SottovoceError,
    Unauthenticated,
)
from sottovoce.core.rpc.status import from_rpc_error
from sottovoce.v1 import enrollment_pb2, generation_pb2, inference_pb2
from sottovoce.v1 import training_pb2 as training
from tests.support import device_keys as keys
from tests.support.caller import Caller
from tests.support.certificates import Certificate
from tests.support.cloud import cloud
from tests.support.devices_port import (
    Place,
    devices_place,
    lists,
    refusal,
    refuses_every_call,
    settings_of,
)
from tests.support.waiting import until


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A cloud that also answers tokens alone."""
    with devices_place(tmp_path_factory.mktemp("certified")) as found:
        yield found


def _gets_no_further_than_the_handshake(caller: Caller) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        caller.training.ListJobs(training.ListJobsRequest(), metadata=caller.metadata, timeout=30)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_device_is_let_in_with_its_certificate_and_its_token(place: Place) -> None:
    token, secret = place.token("let-in"), keys.key()
    made = place.issue(token, secret)
    named = x509.load_der_x509_certificate(made).subject.rfc4514_string()
    assert named == f"CN={device(secret.public_key())}"
    with place.caller(token, secret, made) as caller:
        lists(caller)
    with keys.shown(place.plain, place.roots, None) as channel:  # as before
        lists(Caller(channel, token))


def test_who_shows_none_hears_nothing(place: Place) -> None:
    token = place.token("bare")
    with keys.shown(place.devices, place.roots, None) as channel:
        _gets_no_further_than_the_handshake(Caller(channel, token))
        with pytest.raises(grpc.RpcError) as caught:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=30)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_who_is_silent_without_one_is_cut_off(place: Place) -> None:
    """By raw TLS: no frame of HTTP/2 comes before the certificate was seen."""
    context = ssl.create_default_context(cadata=place.roots.decode())
    context.set_alpn_protocols(["h2"])
    host, _, port = place.devices.rpartition(":")
    heard = b""
    with socket.create_connection((host, int(port)), 30) as line:
        try:
            with context.wrap_socket(line, server_hostname=host) as tls:
                heard = tls.recv(1)
        except (ssl.SSLError, ConnectionError):
            pass
    assert heard == b""


def test_another_authoritys_certificate_is_none(place: Place, tmp_path: Path) -> None:
    token, secret = place.token("foreign"), keys.key()
    place.issue(token, secret)
    theirs = Authority.make(tmp_path).sign(secret.public_key(), 7)
    with place.caller(token, secret, theirs) as caller:
        _gets_no_further_than_the_handshake(caller)


def test_a_device_signs_for_nobody_else(place: Place) -> None:
    """Its own certificate is no authority's."""
    token, secret, other = place.token("upstart"), keys.key(), keys.key()
    ours = place.issue(token, secret)
    read = x509.load_der_x509_certificate(ours)
    forged = (
        x509.CertificateBuilder()
        .serial_number(7)
        .subject_name(read.subject)
        .issuer_name(read.subject)
        .public_key(other.public_key())
        .not_valid_before(read.not_valid_before_utc)
        .not_valid_after(read.not_valid_after_utc)
        .sign(secret, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )
    with place.caller(token, other, forged, ours) as caller:
        _gets_no_further_than_the_handshake(caller)


def test_a_certificate_is_worth_nothing_with_another_devices_token(place: Place) -> None:
    mine, yours, secret = place.token("mine"), place.token("yours"), keys.key()
    made = place.issue(mine, secret)
    place.issue(yours, keys.key())
    with place.caller(yours, secret, made) as caller:
        error = refusal(caller)
        assert type(error) is Unauthenticated
        assert error.subject == "token"
    with place.caller(place.token("unbound"), secret, made) as caller:
        assert type(refusal(caller)) is Unauthenticated
    with place.caller((), secret, made) as caller:
        assert type(refusal(caller)) is Unauthenticated
    with place.caller(mine, secret, made) as caller:
        lists(caller)


def test_every_call_of_a_tenant_asks(place: Place) -> None:
    mine, secret = place.token("asking"), keys.key()
    made, yours = place.issue(mine, secret), place.token("asked")
    with place.caller(yours, secret, made) as caller:
        refuses_every_call(caller, "device's key", training, inference_pb2, generation_pb2)


def test_who_shows_a_certificate_is_looked_up_no_more_often(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, secret = place.token("looked-up"), keys.key()
    kind, reads = type(place.cloud.server.database), []
    real = kind.read
    made = place.issue(token, secret)
    with place.caller(token, secret, made) as caller:
        with keys.shown(place.plain, place.roots, None) as channel:
            plain = Caller(channel, token)
            monkeypatch.setattr(kind, "read", lambda database: reads.append(1) or real(database))
            lists(plain)
            without = len(reads)
        lists(caller)
        assert len(reads) == 2 * without
        reads.clear()
        place.issue(token, secret)
        assert len(reads) == 2


def test_one_that_ended_is_refused(place: Place) -> None:
    token, secret = place.token("late"), keys.key()
    place.issue(token, secret)
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=8)
    with place.caller(token, secret, place.authority.sign(secret.public_key(), 7, before)) as late:
        _gets_no_further_than_the_handshake(late)
    ahead = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    with place.caller(token, secret, place.authority.sign(secret.public_key(), 7, ahead)) as early:
        _gets_no_further_than_the_handshake(early)


def test_one_that_ends_ends_what_is_open_on_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "TOKENS_AGAIN", 0.1)
    later = 0.0
    monkeypatch.setattr(certified, "time", SimpleNamespace(time=lambda: time.time() + later))
    with devices_place(tmp_path) as place:
        token, secret = place.token("ending"), keys.key()
        with place.caller(token, secret, place.issue(token, secret)) as caller:
            job = caller.create(place.cloud.bundle_id)
            request = training.WatchJobRequest(job_id=job.id)
            watch = caller.training.WatchJob(request, metadata=token, timeout=60)
            assert next(watch).job.id == job.id
            lists(caller)
            later = 7 * 86_400.0
            error = refusal(caller)
            assert type(error) is Unauthenticated
            assert error.subject == "certificate"
            assert "ended at" in error.problem
            with pytest.raises(grpc.RpcError):
                next(watch)
            assert watch.code() is grpc.StatusCode.CANCELLED
            later = 0.0
            lists(caller)


def test_a_device_that_opens_many_streams_ends_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a balancer that passes TLS on all have its address, as these two have one."""
    monkeypatch.setattr(listener, "STREAMS", 3)
    with devices_place(tmp_path) as place, ExitStack() as on:

        def watch(caller: Caller) -> Any:
            stub = health_pb2_grpc.HealthStub(caller.channel)
            opened = stub.Watch(health_pb2.HealthCheckRequest(), timeout=60)
            next(opened)
            return opened

        def device(name: str) -> Caller:
            token, secret = place.token(name), keys.key()
            return on.enter_context(place.caller(token, secret, place.issue(token, secret)))

        modest, greedy = device("modest"), device("greedy")
        first = watch(modest)  # which stands still for the longest
        many = [watch(greedy) for _ in range(4)]
        until(lambda: sum(not each.is_active() for each in (first, *many)) == 2)
        assert first.is_active()
        first.cancel()


def test_a_certificate_opens_nothing_that_its_token_does_not(place: Place) -> None:
    token, secret = place.token("lost"), keys.key()
    made = place.issue(token, secret)
    with place.caller(token, secret, made) as caller:
        lists(caller)
        Credentials(place.cloud.server.database).revoke("acme", "lost")
        assert "revoked" in refusal(caller).problem
        with pytest.raises(grpc.RpcError):
            place.issue(token, secret)
    other = place.token("kept")
    made = place.issue(other, secret)
    with place.caller(other, secret, made) as caller:
        place.cloud.server.tenants.disable("acme")
        try:
            assert type(refusal(caller)) is PermissionDenied
        finally:
            place.cloud.server.tenants.disable("acme", disabled=False)
        lists(caller)


def test_a_stolen_token_gets_no_certificate_of_its_own(place: Place) -> None:
    token = place.token("robbed")
    place.issue(token, keys.key())
    with pytest.raises(grpc.RpcError) as caught:
        place.issue(token, keys.key())
    assert type(from_rpc_error(caught.value, peer="the cloud")) is PermissionDenied


@pytest.mark.parametrize(
    ("metadata", "csr", "kind"),
    [
        (False, b"", Unauthenticated),  # a stranger's is not even read
        (True, b"", InvalidInput),
        (True, bytes(1 << 20), InvalidInput),
    ],
)
def test_what_cannot_be_signed_is_not(
    place: Place, metadata: bool, csr: bytes, kind: type[SottovoceError]
) -> None:
    known = place.token(f"asks-{len(csr)}") if metadata else ()
    with keys.shown(place.plain, place.roots, None) as channel:
        stub = Caller(channel, known).enrollment
        with pytest.raises(grpc.RpcError) as caught:
            stub.IssueCertificate(
                enrollment_pb2.IssueCertificateRequest(csr=csr), metadata=known, timeout=60
            )
    assert type(from_rpc_error(caught.value, peer="the cloud")) is kind


def test_without_the_port_nothing_is_signed(tmp_path: Path) -> None:
    tls = Certificate.make()
    with cloud(settings_of(tmp_path, tls)) as running:
        running.server.tenants.enroll("acme")
        place = Place(running, None, tls.certificate)  # type: ignore[arg-type]
        assert place.devices == ""
        with pytest.raises(grpc.RpcError) as caught:
            place.issue(place.token("asking"), keys.key())
        assert type(from_rpc_error(caught.value, peer="the cloud")) is NotReady
        code = Codes(running.server.database).new("acme", "hall")
        with keys.shown(place.plain, place.roots, None) as channel:
            asked = enrollment_pb2.RedeemCodeRequest(code=code, token_sha256=bytes(32))
            answer = Caller(channel, ()).enrollment.RedeemCode(asked, timeout=60)
        assert answer.devices_port == 0


def test_a_cloud_without_its_authority_does_not_start(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, Certificate.make(), devices_listen="127.0.0.1:0")
    with pytest.raises(ConfigError, match="no authority"), cloud(settings):
        pass
