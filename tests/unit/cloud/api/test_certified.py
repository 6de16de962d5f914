"""Calls on real TLS connections, with certificates of a real authority, and without."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sottovoce.cloud.api import authentication, listener
from sottovoce.cloud.tenants.credentials import Codes, Credentials
from sottovoce.core.errors import ConfigError, PermissionDenied, Unauthenticated
from sottovoce.v1 import enrollment_pb2, generation_pb2, inference_pb2
from sottovoce.v1 import training_pb2 as training
from tests.support.caller import Caller, credentials
from tests.support.certificates import Certificate
from tests.support.cloud import cloud
from tests.support.mutual_tls import (
    Place,
    lists,
    place_with,
    refusal,
    refuses_every_call,
    shown,
)
from tests.support.waiting import until

DNS, URI = x509.DNSName, x509.UniformResourceIdentifier


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A cloud that asks for certificates."""
    with place_with(tmp_path_factory.mktemp("certified")) as found:
        yield found


def _gets_no_further_than_the_handshake(caller: Caller) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        caller.training.ListJobs(training.ListJobsRequest(), metadata=caller.metadata, timeout=30)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_device_is_let_in_with_its_certificate_and_its_token(place: Place) -> None:
    with place.caller(place.token("let-in"), place.authority.sign("let-in")) as caller:
        lists(caller)


def test_a_client_without_a_certificate_hears_nothing(place: Place) -> None:
    with place.caller(place.token("bare"), None) as bare:
        _gets_no_further_than_the_handshake(bare)
        stub = health_pb2_grpc.HealthStub(bare.channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest(), timeout=30)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_silent_client_without_one_is_cut_off(place: Place) -> None:
    """By raw TLS: no frame of HTTP/2 comes before the certificate was seen."""
    context = ssl.create_default_context(cadata=place.tls.certificate.decode())
    context.set_alpn_protocols(["h2"])
    host, _, port = place.address.rpartition(":")
    heard = b""
    with socket.create_connection((host, int(port)), 30) as line:
        try:
            with context.wrap_socket(line, server_hostname=host) as tls:
                heard = tls.recv(1)
        except (ssl.SSLError, ConnectionError):
            pass
    assert heard == b""


def test_another_authoritys_certificate_is_none(place: Place) -> None:
    with place.caller(place.token("foreign"), Certificate.make().sign("foreign")) as caller:
        _gets_no_further_than_the_handshake(caller)


def test_a_device_signs_for_nobody_else(place: Place) -> None:
    """Its own certificate is no authority's."""
    ours = place.authority.sign("upstart")
    forged = ours.sign("victim")
    chain = Certificate(forged.key, forged.certificate + ours.certificate)
    with place.caller(place.token("upstart"), chain) as caller:
        _gets_no_further_than_the_handshake(caller)


@pytest.mark.parametrize("days", [(-8, -1), (1, 8)])
def test_one_that_ended_or_has_not_begun_is_refused(place: Place, days: tuple[int, int]) -> None:
    pair = place.authority.sign("late", days=days)
    with place.caller(place.token(f"late{days[1]}"), pair) as caller:
        _gets_no_further_than_the_handshake(caller)


def test_a_token_belongs_to_the_first_name_that_comes_with_it(place: Place) -> None:
    token, sign = place.token("hall"), place.authority.sign
    with place.caller(token, sign("hall")) as caller:
        lists(caller)
    with place.caller(token, sign("hall", days=(-2, 2))) as renewed:  # another key, the same name
        lists(renewed)
    for thief in (sign("shed"), sign("hall", [DNS("hall")]), sign("shed", [URI("x:hall")])):
        with place.caller(token, thief) as caller:
            error = refusal(caller)
            assert type(error) is Unauthenticated
            assert error.subject == "cloud.certificate"
            assert "sotto enroll" in error.fix
    with place.caller((), sign("hall")) as caller:
        assert type(refusal(caller)) is Unauthenticated


def test_without_its_certificate_a_bound_token_opens_nothing_on_the_store(place: Place) -> None:
    token, other = place.token("bound"), place.token("free")
    with place.caller(token, place.authority.sign("bound")) as caller:
        lists(caller)
    said = (("x-ssl-client-cert", place.authority.sign("bound").certificate.hex()),)
    with place.beside() as address, shown(address, place.tls.certificate, None) as channel:
        refuses_every_call(
            Caller(channel, (*token, *said)),
            "only with its device's certificate",
            training,
            inference_pb2,
            generation_pb2,
        )
        lists(Caller(channel, other))


def test_a_redeemed_code_binds_the_token_at_once(place: Place) -> None:
    code = Codes(place.cloud.server.database).new("acme", "coded")
    secret = "a token that the device has made"  # noqa: S105
    digest = hashlib.sha256(secret.encode()).digest()
    with place.caller((), place.authority.sign("coded")) as caller:
        asked = enrollment_pb2.RedeemCodeRequest(code=code, token_sha256=digest)
        caller.enrollment.RedeemCode(asked, timeout=60)
    with place.caller(credentials("acme", secret), place.authority.sign("thief")) as thief:
        assert type(refusal(thief)) is Unauthenticated
    with place.caller(credentials("acme", secret), place.authority.sign("coded")) as caller:
        lists(caller)


@pytest.mark.parametrize(
    ("common", "others", "named"),
    [
        ("hall", (), "CN:hall"),
        ("hall", (DNS("Hall.example"), DNS("shed.example")), "DNS:hall.example"),
        ("hall", (URI("spiffe://acme/hall"),), "URI:spiffe://acme/hall"),
        ("hall", (x509.RFC822Name("a@b.example"),), "CN:hall"),
        (None, (), ""),
        ("two\nlines", (), ""),
        ("hall", (URI("x" * 300),), ""),
    ],
)
def test_a_certificate_is_named_by_what_its_authority_checked(
    common: str | None, others: tuple[x509.GeneralName, ...], named: str
) -> None:
    pem = Certificate.make().sign(common, others).certificate
    context = SimpleNamespace(auth_context=lambda: {"x509_pem_cert": [pem]})
    found = authentication.shown(context)  # type: ignore[arg-type]
    assert found is not None
    assert found[0] == named


def test_a_certificate_without_a_name_is_refused(place: Place) -> None:
    with place.caller(place.token("nameless"), place.authority.sign(None)) as caller:
        error = refusal(caller)
    assert type(error) is Unauthenticated
    assert error.subject == "certificate"


def test_one_that_ends_ends_what_is_open_on_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "TOKENS_AGAIN", 0.1)
    later = 0.0
    clocks = SimpleNamespace(time=lambda: time.time() + later, monotonic=time.monotonic)
    monkeypatch.setattr(authentication, "time", clocks)
    with place_with(tmp_path) as place:
        token = place.token("ending")
        with place.caller(token, place.authority.sign("ending")) as caller:
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
    with place_with(tmp_path) as place, ExitStack() as on:

        def watch(caller: Caller) -> Any:
            stub = health_pb2_grpc.HealthStub(caller.channel)
            opened = stub.Watch(health_pb2.HealthCheckRequest(), timeout=60)
            next(opened)
            return opened

        def device(name: str) -> Caller:
            return on.enter_context(place.caller(place.token(name), place.authority.sign(name)))

        modest, greedy = device("modest"), device("greedy")
        first = watch(modest)  # which stands still for the longest
        many = [watch(greedy) for _ in range(4)]
        until(lambda: sum(not each.is_active() for each in (first, *many)) == 2)
        assert first.is_active()
        first.cancel()


def test_a_certificate_opens_nothing_that_its_token_does_not(place: Place) -> None:
    with place.caller(place.token("lost"), place.authority.sign("lost")) as caller:
        lists(caller)
        Credentials(place.cloud.server.database).revoke("acme", "lost")
        assert "revoked" in refusal(caller).problem
    with place.caller(place.token("kept"), place.authority.sign("kept")) as caller:
        place.cloud.server.tenants.disable("acme")
        try:
            assert type(refusal(caller)) is PermissionDenied
        finally:
            place.cloud.server.tenants.disable("acme", disabled=False)
        lists(caller)


def test_renewed_files_are_taken_up_and_open_connections_go_on(tmp_path: Path) -> None:
    with place_with(tmp_path) as place, ExitStack() as on:
        token, pair = place.token("hall"), place.authority.sign("hall")
        early = on.enter_context(place.caller(token, pair))
        lists(early)
        before, after = place.tls, Certificate.make()
        key = tmp_path / "key"
        _replace(key, after.key)  # half of the pair: the earlier one stays in use
        with place.caller(token, pair) as caller:
            lists(caller)
        _replace(tmp_path / "certificate", after.certificate)
        with place.caller(token, pair) as caller:  # which trusts the earlier one
            _gets_no_further_than_the_handshake(caller)
        place.tls = after
        with place.caller(token, pair) as caller:
            lists(caller)
        lists(early)
        theirs = Certificate.make()
        _replace(tmp_path / "clients.pem", b"nonsense")
        with place.caller(token, pair) as caller:
            lists(caller)
        _replace(tmp_path / "clients.pem", theirs.certificate)
        with place.caller(token, pair) as caller:
            _gets_no_further_than_the_handshake(caller)
        with place.caller(token, theirs.sign("hall")) as caller:
            lists(caller)
        assert before != after


def _replace(file: Path, data: bytes) -> None:
    """As programs do that renew: by a rename."""
    aside = file.with_name("aside")
    aside.write_bytes(data)
    os.replace(aside, file)


@pytest.mark.parametrize("what", ["nonsense", "ended", "another's key"])
def test_files_that_cannot_be_used_are_named_at_the_start(place: Place, what: str) -> None:
    folder = place.cloud.settings.state.parent
    file = folder / "other.pem"
    if what == "another's key":
        file.write_bytes(Certificate.make().certificate)
        given = replace(place.cloud.settings, tls_cert=file)
    else:
        ended = Certificate.make(days=(-9, -1)).certificate
        file.write_bytes(ended if what == "ended" else b"nonsense")
        given = replace(place.cloud.settings, client_ca=file)
    with pytest.raises(ConfigError) as caught, cloud(given):
        pass
    assert ("--tls-cert" if what == "another's key" else "--client-ca") in str(
        (caught.value.fix, caught.value.subject)
    )
