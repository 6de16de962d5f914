"""The server ends silent streams, and streams after their token was renewed."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import repeat
from pathlib import Path

import grpc
import pytest

from sottovoce.cloud.api import listener
from sottovoce.cloud.api.authentication import IdleStreamReaper
from sottovoce.cloud.api.inference_service import CALLS, CALLS_PER_TENANT
from sottovoce.cloud.config import Settings
from sottovoce.cloud.store import open_database
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.tenants.credentials import Credentials, Scope
from sottovoce.core.errors import PermissionDenied, SottovoceError, Unauthenticated, Unavailable
from sottovoce.core.rpc.error_status import ErrorInterceptor, from_rpc_error
from sottovoce.v1 import generation_pb2 as generation
from sottovoce.v1 import inference_pb2 as wire
from sottovoce.v1 import training_pb2 as training
from tests.support.backbones import tiny_bert
from tests.support.caller import Caller
from tests.support.cloud import Cloud, cloud
from tests.support.tiny_bundle import tiny_bundle
from tests.support.waiting import until

OPEN, TENANTS = "/test.Open/{}", "/test.Tenants/{}"
LONG = 3600.0
FOR_ALL = ("GetAdapter", "ListJobs", "WatchAdapters")  # which tokens of every scope may call


class _Door:
    """Admits the tenants on the list."""

    def __init__(self) -> None:
        self.welcome = {"a", "b"}
        self.busy = False
        self.asked = 0
        self.news = 0
        self.told = 0
        self.broken: Exception | None = None
        self.unaskable = ""

    def authenticate(self, context: grpc.ServicerContext) -> str:
        self.asked += 1
        name = str(dict(context.invocation_metadata())["name"])
        if name == self.unaskable:
            raise ValueError("not a user's text")
        if self.busy:
            raise Unavailable("busy")
        if name not in self.welcome:
            raise Unauthenticated("who?")
        return name

    def tell(self) -> int:
        self.told += 1
        if self.broken:
            raise self.broken
        return self.news


class _Talk:
    """An open stream with single messages; the server echoes them."""

    def __init__(self, channel: grpc.Channel, path: str, name: str = "a") -> None:
        self._sending: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        method = channel.stream_stream(path.format("Echo"))
        self._call = method(iter(self._sending.get, None), metadata=[("name", name)], timeout=60)

    def says(self, message: bytes) -> bytes:
        self._sending.put(message)
        return bytes(next(self._call))

    def ended(self) -> grpc.StatusCode:
        with pytest.raises(grpc.RpcError):
            next(self._call)
        self.end()
        return self._call.code()

    def end(self) -> None:
        """Says no more, and lets the thread that would go."""
        self._sending.put(None)


def _follow(_: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    yield b"begun"
    waiting: queue.SimpleQueue[None] = queue.SimpleQueue()
    if context.add_callback(lambda: waiting.put(None)):
        waiting.get()


@contextmanager
def served(idle: float, again: float) -> Iterator[tuple[grpc.Channel, _Door, IdleStreamReaper]]:
    handlers = {
        "Echo": grpc.stream_stream_rpc_method_handler(lambda requests, _: requests),
        "Count": grpc.stream_unary_rpc_method_handler(lambda r, _: bytes([sum(1 for _ in r)])),
        "Follow": grpc.unary_stream_rpc_method_handler(_follow),
        "Pour": grpc.unary_stream_rpc_method_handler(lambda *_: repeat(bytes(50_000))),
        "One": grpc.unary_unary_rpc_method_handler(lambda request, _: request),
    }
    door = _Door()
    attendant = IdleStreamReaper(
        {"test.Tenants"}, door.authenticate, idle=idle, again=again, news=door.tell
    )
    calls = ThreadPoolExecutor(16)
    server = grpc.server(calls, interceptors=[ErrorInterceptor(), attendant])
    for service in ("test.Open", "test.Tenants"):
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    attendant.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel, door, attendant
    finally:
        attendant.close()
        server.stop(0).wait()
        calls.shutdown()


def test_a_stream_without_messages_is_ended_and_its_place_given_back() -> None:
    with served(idle=1.0, again=LONG) as (channel, _, attendant):
        silent, other = _Talk(channel, TENANTS), _Talk(channel, OPEN)
        assert silent.says(b"it") == b"it"
        assert other.says(b"it") == b"it"
        assert silent.ended() is grpc.StatusCode.CANCELLED
        until(lambda: not attendant._open)
        assert other.says(b"it") == b"it"  # which is none of the tenants' services
        other.end()


def test_answers_that_nobody_reads_are_ended_and_those_that_are_read_slowly_are_not() -> None:
    with served(idle=2.0, again=LONG) as (channel, _, attendant):
        pour = channel.unary_stream(TENANTS.format("Pour"))
        slow, silent = (pour(b"", metadata=[("name", name)], timeout=60) for name in "ab")
        assert next(silent)
        assert next(slow)
        while len(attendant._open) == 2:
            assert next(slow)
            threading.Event().wait(0.02)
        with pytest.raises(grpc.RpcError) as caught:
            list(silent)
        assert caught.value.code() is grpc.StatusCode.CANCELLED
        assert next(slow)
        slow.cancel()


def test_an_upload_that_stalls_is_ended() -> None:
    with served(idle=1.0, again=LONG) as (channel, _, attendant):
        sending: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        sending.put(b"first")
        method = channel.stream_unary(TENANTS.format("Count"))
        with pytest.raises(grpc.RpcError) as caught:
            method(iter(sending.get, None), metadata=[("name", "a")], timeout=60)
        sending.put(None)
        assert caught.value.code() is grpc.StatusCode.CANCELLED
        assert method(iter([b"1", b"2"]), metadata=[("name", "a")], timeout=60) == b"\x02"
        until(lambda: not attendant._open)


def test_who_only_listens_is_never_idle() -> None:
    with served(idle=0.05, again=0.1) as (channel, door, attendant):
        call = channel.unary_stream(TENANTS.format("Follow"))(
            b"", metadata=[("name", "a")], timeout=60
        )
        assert next(call) == b"begun"
        until(lambda: door.asked > 5)
        assert call.is_active()
        call.cancel()
        until(lambda: not attendant._open)


def test_a_stream_ends_with_its_token() -> None:
    with served(idle=LONG, again=0.05) as (channel, door, _):
        gone, kept = _Talk(channel, TENANTS, "a"), _Talk(channel, TENANTS, "b")
        follow = channel.unary_stream(TENANTS.format("Follow"))(
            b"", metadata=[("name", "a")], timeout=60
        )
        assert (gone.says(b"it"), kept.says(b"it"), next(follow)) == (b"it", b"it", b"begun")
        door.welcome.remove("a")
        assert gone.ended() is grpc.StatusCode.CANCELLED
        with pytest.raises(grpc.RpcError):
            next(follow)
        assert follow.code() is grpc.StatusCode.CANCELLED
        assert kept.says(b"more") == b"more"
        kept.end()


def test_news_of_a_token_are_heeded_at_once_and_each_caller_is_asked_about_once() -> None:
    with served(idle=LONG, again=LONG) as (channel, door, attendant):
        gone = [_Talk(channel, TENANTS, "a") for _ in range(3)]
        kept = _Talk(channel, TENANTS, "b")
        assert {talk.says(b"it") for talk in (*gone, kept)} == {b"it"}
        door.welcome.remove("a")
        assert not door.asked
        door.news += 1
        assert {talk.ended() for talk in gone} == {grpc.StatusCode.CANCELLED}
        assert door.asked == 2
        until(lambda: len(attendant._open) == 1)
        assert kept.says(b"more") == b"more"
        kept.end()


def test_a_busy_database_ends_no_stream() -> None:
    with served(idle=LONG, again=0.05) as (channel, door, _):
        talk = _Talk(channel, TENANTS)
        assert talk.says(b"it") == b"it"
        door.busy = True
        before = door.asked
        until(lambda: door.asked > before + 3)
        assert talk.says(b"more") == b"more"
        talk.end()


def test_whatever_goes_wrong_at_a_look_there_is_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with served(idle=LONG, again=0.05) as (channel, door, _):
        gone, kept = _Talk(channel, TENANTS, "a"), _Talk(channel, TENANTS, "b")
        assert {gone.says(b"it"), kept.says(b"it")} == {b"it"}
        door.broken = sqlite3.OperationalError("of a user's text")
        before = door.told
        until(lambda: door.told > before + 3)
        door.broken = None
        door.welcome.remove("a")
        assert gone.ended() is grpc.StatusCode.CANCELLED
        assert kept.says(b"more") == b"more"
        kept.end()
    assert "OperationalError at" in caplog.text
    assert "user" not in caplog.text


def test_a_caller_that_cannot_be_asked_about_keeps_no_other_in() -> None:
    with served(idle=LONG, again=LONG) as (channel, door, _):
        gone, kept = _Talk(channel, TENANTS, "a"), _Talk(channel, TENANTS, "b")
        assert {gone.says(b"it"), kept.says(b"it")} == {b"it"}
        door.welcome.remove("a")
        door.unaskable = "b"
        door.news += 1
        assert gone.ended() is grpc.StatusCode.CANCELLED
        assert kept.says(b"more") == b"more"
        kept.end()


def test_single_calls_are_left_alone() -> None:
    with served(idle=0.1, again=0.05) as (channel, door, _):
        one = channel.unary_unary(TENANTS.format("One"))
        assert one(b"it", metadata=[("name", "nobody")], timeout=60) == b"it"
        assert door.asked == 0


def test_tenants_with_idle_streams_hold_predictions_from_nobody(tmp_path: Path) -> None:
    """Four silent tenants open all streams they may; a fifth tenant finds room."""
    with _cloud(tmp_path) as running, ExitStack() as held:
        silent: queue.SimpleQueue[None] = queue.SimpleQueue()
        calls = []
        for tenant in range(CALLS // CALLS_PER_TENANT):
            caller = held.enter_context(running.caller(f"silent-{tenant}"))
            for _ in range(CALLS_PER_TENANT):
                stream = caller.inference.PredictStream
                calls.append(stream(iter(silent.get, None), metadata=caller.metadata, timeout=90))
        asked = wire.InferenceServicePredictRequest(adapter="none", released_text="it")
        acme = held.enter_context(running.caller())

        # Which of the last tenant's comes last is the network's affair.
        over: queue.SimpleQueue[grpc.Call] = queue.SimpleQueue()
        for call in calls:
            call.add_done_callback(over.put)
        refused = over.get(timeout=60).code()
        with pytest.raises(grpc.RpcError) as caught:
            acme.inference.Predict(asked, metadata=acme.metadata, timeout=60)
        running.server.listener._attendant._idle = 0.5
        ended = {call.code() for call in calls}
        for _ in calls:
            silent.put(None)  # lets their threads go
        assert refused is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND  # let in, and looked for
        assert ended - {grpc.StatusCode.RESOURCE_EXHAUSTED} == {grpc.StatusCode.CANCELLED}


def test_a_renewed_token_ends_what_the_old_one_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "TOKENS_AGAIN", 0.1)
    with _cloud(tmp_path) as running, running.caller("acme") as acme:
        job = acme.create(running.bundle_id)
        request = training.WatchJobRequest(job_id=job.id)
        watch = acme.training.WatchJob(request, metadata=acme.metadata, timeout=60)
        assert next(watch).job.id == job.id
        with running.caller("acme", running.server.tenants.renew("acme")) as renewed:
            following = renewed.training.WatchJob(request, metadata=renewed.metadata)
            assert next(following).job.id == job.id
            with pytest.raises(grpc.RpcError):
                next(watch)
            assert watch.code() is grpc.StatusCode.CANCELLED
            assert following.is_active()
            following.cancel()


def test_what_another_process_revokes_disables_or_replaces_ends_here(tmp_path: Path) -> None:
    with _cloud(tmp_path) as running, ExitStack() as held:
        acme = held.enter_context(running.caller("acme"))
        job = acme.create(running.bundle_id)
        request = training.WatchJobRequest(job_id=job.id)
        elsewhere = open_database(tmp_path / "state")
        held.callback(elsewhere.close)
        tokens, tenants = Credentials(elsewhere), Tenants(elsewhere)

        def watch(token: str) -> tuple[Caller, Iterator[training.WatchJobResponse]]:
            caller = held.enter_context(running.caller("acme", token))
            call = caller.training.WatchJob(request, metadata=caller.metadata, timeout=60)
            assert next(call).job.id == job.id
            return caller, call

        def refused(caller: Caller) -> SottovoceError:
            with pytest.raises(grpc.RpcError) as caught:
                caller.training.GetJob(
                    training.GetJobRequest(job_id=job.id), metadata=caller.metadata, timeout=60
                )
            return from_rpc_error(caught.value, peer="the cloud")

        phone, phones = watch(tokens.new("acme", "phone"))
        pi, pis = watch(tokens.new("acme", "pi"))
        tokens.revoke("acme", "phone")
        with pytest.raises(grpc.RpcError):
            next(phones)
        assert "revoked" in refused(phone).problem
        assert "sotto-cloud tokens" in refused(phone).fix
        tenants.disable("acme")
        with pytest.raises(grpc.RpcError):
            next(pis)
        assert type(refused(pi)) is PermissionDenied
        assert type(refused(phone)) is Unauthenticated
        tenants.disable("acme", disabled=False)
        assert pi.get(job.id).id == job.id


@pytest.mark.parametrize("scope", [Scope.PREDICT, Scope.TRAIN])
def test_no_call_is_answered_that_a_token_is_not_for(tmp_path: Path, scope: Scope) -> None:
    """Every one there is, as the services say it: one that forgets to ask is seen here."""
    other = {Scope.PREDICT: "Training", Scope.TRAIN: "InferenceGeneration"}[scope]
    with _cloud(tmp_path) as running:
        running.server.tenants.enroll("acme")
        token = Credentials(running.server.database).new("acme", "narrow", scope=scope)
        with running.caller("acme", token) as caller:
            for module, name in (
                (training, "Training"),
                (wire, "Inference"),
                (generation, "Generation"),
            ):
                for method in module.DESCRIPTOR.services_by_name[f"{name}Service"].methods:
                    call = caller.channel.stream_stream(
                        f"/sottovoce.v1.{name}Service/{method.name}"
                    )
                    answer = call(iter([b""]), metadata=caller.metadata, timeout=60)
                    with suppress(grpc.RpcError):
                        list(answer)
                    denied = answer.code() is grpc.StatusCode.PERMISSION_DENIED
                    assert denied is (name in other and method.name not in FOR_ALL), method.name


def _cloud(folder: Path) -> AbstractContextManager[Cloud]:
    bert = tiny_bert(folder / "bert")
    bundle = tiny_bundle(folder / "bundle", bert)
    return cloud(Settings(folder / "state", (bundle,), "127.0.0.1:0", str(bert)))
