"""The real HAProxy with our configuration, before servers that name themselves."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

from bench.live.testbed import free_address
from sottovoce.cloud.api.authentication import MOST as GUESSES
from sottovoce.cloud.cli import main
from tests.support import haproxy
from tests.support.answering import Answering, answering
from tests.support.certificates import Certificate
from tests.support.cloud import OWN_CONNECTION
from tests.support.paths import ROOT
from tests.support.processes import environment
from tests.support.waiting import until

PREDICT, ENCODE = "/sottovoce.v1.InferenceService/Predict", "/sottovoce.v1.InferenceService/Encode"
CREATE = "/sottovoce.v1.TrainingService/CreateJob"
TENANTS = [f"tenant-{n}" for n in range(24)]
_NOBODY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN)
"""No server is up, or one went down under the call; gRPC tells the latter as "Stream removed"."""
_NO_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@pytest.fixture(scope="module")
def program() -> str:
    """HAProxy itself."""
    found = haproxy.found()
    if found is None:
        pytest.skip(haproxy.HINT)
    return found


def printed(address: str, replicas: list[str], fronts: list[str], *more: str) -> str:
    """What `balancer-config` prints."""
    options = ["--listen", address, *(part for r in replicas for part in ("--replica", r))]
    options += [part for f in fronts for part in ("--front", f)]
    done = CliRunner().invoke(main, ["balancer-config", *options, *more])
    assert done.exit_code == 0, done.output
    return str(done.stdout)


class Place:
    """Two replicas and a front behind a balancer."""

    def __init__(
        self, address: str, balancer: haproxy.Balancer, channel: grpc.Channel, *behind: Answering
    ) -> None:
        self.address, self.balancer, self.channel = address, balancer, channel
        self.one, self.two, self.front = behind

    def call(self, path: str, tenant: str = "acme", message: bytes = b"") -> str:
        """Return the name of the answering server, with retries."""
        called: list[Any] = []

        def answered() -> bool:
            called.append(self.begin(path, tenant, message))
            return called[-1].code() not in _NOBODY

        until(answered)
        return bytes(called[-1].result()).decode()

    def begin(self, path: str, tenant: str = "acme", message: bytes = b"") -> Any:
        """The same without waiting."""
        method = self.channel.unary_unary(path)
        metadata = (("sottovoce-tenant", tenant), ("authorization", "Bearer hush"))
        return method.future(message, metadata=metadata, timeout=60)


@contextmanager
def place(program: str, *more: str) -> Iterator[Place]:
    with ExitStack() as stack:
        behind = [stack.enter_context(answering(name)) for name in ("one", "two", "front")]
        one, two, front = (each.address for each in behind)
        address = free_address()
        text = printed(address, [one, two], [front], *more)
        balancer = stack.enter_context(haproxy.running(program, text, address))
        channel = stack.enter_context(grpc.insecure_channel(address, OWN_CONNECTION))
        found = Place(address, balancer, channel, *behind)
        until(lambda: {found.call(PREDICT, t) for t in TENANTS} == {"one", "two"})
        until(
            lambda: found.begin("/sottovoce.v1.TrainingService/GetJob").code() == grpc.StatusCode.OK
        )
        yield found


@pytest.fixture(scope="module")
def running(program: str) -> Iterator[Place]:
    """Run one for the tests that leave it unchanged."""
    with place(program, "--peer-calls", "1000", "--metrics", free_address()) as found:
        yield found


def test_a_tenant_stays_with_a_replica_and_calls_go_where_they_are_answered(
    running: Place,
) -> None:
    for tenant in TENANTS[:8]:
        paths = (PREDICT, ENCODE, "/sottovoce.v1.GenerationService/Generate", CREATE)
        assert len({running.call(path, tenant) for path in paths for _ in range(3)}) == 1
    assert running.call("/sottovoce.v1.TrainingService/GetAdapter") in ("one", "two")
    for path in ("UploadExamples", "WatchJob", "StartJob"):
        assert running.call(f"/sottovoce.v1.TrainingService/{path}") == "front"
    assert running.call("/sottovoce.v1.BundlesService/GetManifest") in ("one", "two")


def test_a_stream_goes_both_ways_while_it_is_open(running: Place) -> None:
    stream = running.channel.stream_stream("/sottovoce.v1.InferenceService/PredictStream")
    ended = False

    def ask() -> Iterator[bytes]:
        yield b"first"
        while not ended:
            yield b"another"

    answers = stream(ask(), metadata=(("sottovoce-tenant", "acme"),), timeout=60)
    assert {bytes(next(answers)) for _ in range(5)} <= {b"one", b"two"}
    ended = True
    answers.cancel()


def hot(replica: Answering) -> int:
    """Calls of one tenant that it has had."""
    return sum(metadata.get("sottovoce-tenant") == "hot" for _, metadata in replica.seen)


def test_a_tenant_with_more_than_its_share_spills_over(running: Place) -> None:
    calls = [running.begin(PREDICT, "hot", b"hold") for _ in range(12)]
    try:
        until(lambda: hot(running.one) + hot(running.two) == 12)
        assert min(hot(running.one), hot(running.two)) >= 2
    finally:
        for each in (running.one, running.two):
            each.let_go.set()
    assert {bytes(call.result()) for call in calls} == {b"one", b"two"}


def test_who_says_that_he_does_not_serve_is_left_out(running: Place) -> None:
    running.one.healthy(False)
    until(lambda: {running.call(PREDICT, tenant) for tenant in TENANTS} == {"two"})
    running.one.healthy(True)
    until(lambda: {running.call(PREDICT, tenant) for tenant in TENANTS} == {"one", "two"})


def test_nothing_of_who_calls_is_logged(running: Place) -> None:
    running.call(PREDICT, "secretive", b"a text")
    until(lambda: b"InferenceService/Predict" in running.balancer.log.read_bytes())
    log = running.balancer.log.read_text()
    for secret in ("secretive", "hush", "a text", "acme"):
        assert secret not in log


def test_what_changes_nothing_is_sent_again_when_a_replica_dies_and_nothing_else_is(
    program: str,
) -> None:
    with ExitStack() as stack:
        alive = stack.enter_context(answering("alive"))
        front = stack.enter_context(answering("front"))
        dying = free_address()
        address = free_address()
        text = printed(address, [dying, alive.address], [front.address])
        stack.enter_context(haproxy.running(program, text, address))
        channel = stack.enter_context(grpc.insecure_channel(address, OWN_CONNECTION))
        found = Place(address, None, channel, alive, alive, front)  # type: ignore[arg-type]

        def die_in(path: str) -> grpc.StatusCode:
            """Return the outcome of a call while its first replica dies."""
            started = subprocess.Popen(
                [sys.executable, "-m", "tests.support.answering", dying.rpartition(":")[2]],
                cwd=ROOT,
                env=environment(),
            )
            try:
                until(lambda: "dying" in {found.call(ENCODE, tenant) for tenant in TENANTS})
                (tenant, *_) = [t for t in TENANTS if found.call(ENCODE, t) == "dying"]
                call = found.begin(path, tenant, b"die")
                return grpc.StatusCode(call.code())
            finally:
                started.kill()
                started.wait()

        assert die_in(PREDICT) == grpc.StatusCode.OK
        assert die_in(CREATE) == grpc.StatusCode.UNAVAILABLE


def let_in(stack: ExitStack, address: str, first: str = "") -> bool:
    """Whether a new connection, which stays open, is talked to."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        line = stack.enter_context(socket.create_connection((host, int(port)), 60))
        line.sendall(f"{first}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".encode() + _NO_SETTINGS)
        return bool(line.recv(1))
    return False


def test_one_address_is_held_back_before_anybody_asks_who_it_is(program: str) -> None:
    with ExitStack() as stack:
        one, front = (stack.enter_context(answering(name)) for name in ("one", "front"))
        address = free_address()
        limits = ("--peer-calls", "30", "--peer-connections", "4")
        text = printed(address, [one.address], [front.address], *limits)
        stack.enter_context(haproxy.running(program, text, address))
        channel = stack.enter_context(grpc.insecure_channel(address, OWN_CONNECTION))
        found = Place(address, None, channel, one, one, front)  # type: ignore[arg-type]
        calls = [found.begin(PREDICT) for _ in range(900)]
        assert {call.code() for call in calls} == {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
        assert len(one.seen) <= 300
        # Beside the one that is there.
        assert [let_in(stack, address) for _ in range(7)] == [True] * 3 + [False] * 4


def test_one_address_holds_few_calls_open_that_need_no_token(program: str) -> None:
    bundles = "/sottovoce.v1.BundlesService/Fetch"
    with ExitStack() as stack:
        one = stack.enter_context(answering("one"))
        address = free_address()
        text = printed(address, [one.address], [one.address], "--peer-streams", "3")
        stack.enter_context(haproxy.running(program, text, address))
        channel = stack.enter_context(grpc.insecure_channel(address, OWN_CONNECTION))
        found = Place(address, None, channel, one, one, one)  # type: ignore[arg-type]
        until(lambda: found.begin(bundles).code() == grpc.StatusCode.OK)
        one.seen.clear()
        held = [found.begin(bundles, message=b"hold") for _ in range(3)]
        until(lambda: len(one.seen) == 3)
        for path in (bundles, "/grpc.health.v1.Health/Watch", "/grpc.reflection.v1.Any/Call"):
            assert found.begin(path).code() == grpc.StatusCode.UNAVAILABLE
        assert found.begin(PREDICT).code() == grpc.StatusCode.OK
        one.let_go.set()
        assert {call.code() for call in held} == {grpc.StatusCode.OK}
        until(lambda: found.begin(bundles).code() == grpc.StatusCode.OK)


def test_one_address_has_few_tries_at_codes(program: str) -> None:
    redeem = "/sottovoce.v1.EnrollmentService/RedeemCode"
    with ExitStack() as stack:
        one = stack.enter_context(answering("one"))
        address = free_address()
        stack.enter_context(
            haproxy.running(program, printed(address, [one.address], [one.address]), address)
        )
        channel = stack.enter_context(grpc.insecure_channel(address, OWN_CONNECTION))
        found = Place(address, None, channel, one, one, one)  # type: ignore[arg-type]
        until(lambda: found.begin(PREDICT).code() == grpc.StatusCode.OK)
        said = [found.begin(redeem).code() for _ in range(20)]
        few = GUESSES // 2  # of all that a replica takes of the balancer
        assert said[:few] == [grpc.StatusCode.OK] * few
        assert sum(path == redeem for path, _ in one.seen) < GUESSES
        assert said[few:] == [grpc.StatusCode.UNAVAILABLE] * (20 - few)
        assert found.begin(PREDICT).code() == grpc.StatusCode.OK


def test_an_ipv6_network_is_held_back_as_one_address(program: str) -> None:
    with ExitStack() as stack:
        one = stack.enter_context(answering("one"))
        address = free_address()
        text = printed(address, [one.address], [one.address], "--peer-connections", "2")
        # Addresses that this machine does not have are told by the PROXY protocol, which rules of
        # the session see, and those of the connection do not.
        text = text.replace("tcp-request connection", "tcp-request session")
        text = text.replace(f"bind {address} ", f"bind {address} accept-proxy ")
        balancer = stack.enter_context(haproxy.running(program, text))
        host, _, port = address.rpartition(":")

        def listens() -> bool:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection((host, int(port)), 60).close()
                return True
            assert balancer.process.poll() is None
            return False

        def told(source: str) -> bool:
            kind, to = ("TCP6", "::1") if ":" in source else ("TCP4", "127.0.0.1")
            return let_in(stack, address, f"PROXY {kind} {source} {to} 1000 2000\r\n")

        until(listens)
        assert [told(f"2001:db8::{n}") for n in (1, 2, 3)] == [True, True, False]
        assert told("2001:db8:0:1::1")
        assert [told(f"192.0.2.{n}") for n in (1, 1, 1, 2)] == [True, True, False, True]


def test_tls_is_ended_and_devices_see_the_certificate(program: str, tmp_path: Path) -> None:
    made = Certificate.make()
    both = tmp_path / "both.pem"
    both.write_bytes(made.certificate + made.key)
    with answering("one") as one, answering("front") as front:
        address = free_address()
        text = printed(address, [one.address], [front.address], "--tls-cert", str(both))
        trusted = grpc.ssl_channel_credentials(made.certificate)
        with (
            haproxy.running(program, text) as balancer,
            grpc.secure_channel(address, trusted, OWN_CONNECTION) as channel,
        ):
            found = Place(address, balancer, channel, one, one, front)
            until(lambda: found.begin(PREDICT).code() == grpc.StatusCode.OK)


def test_the_balancers_own_figures_say_nothing_of_tenants(program: str) -> None:
    metrics = free_address()
    with place(program, "--metrics", metrics) as found:
        found.call(PREDICT, "secretive")
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=60) as answer:
            told = answer.read().decode()
        assert 'haproxy_server_status{proxy="replicas",server="replica1"' in told
        assert "secretive" not in told


def test_a_name_of_many_addresses_and_tls_behind_are_understood(
    program: str, tmp_path: Path
) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(Certificate.make().certificate)
    text = printed(
        free_address(), ["replica.example.org:8471*16"], ["localhost:8471"], "--backend-ca", str(ca)
    )
    with haproxy.running(program, text) as balancer:
        assert balancer.process.poll() is None
    assert "server-template replica1- 1-16 replica.example.org:8471" in text
