"""Jobs over a real channel: limits above all, which `tests/contract/protos` does not ask for."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from sottovoce.cloud.api.training_service import UPLOADS_PER_TENANT
from sottovoce.cloud.config import ServerLimits, Settings
from sottovoce.cloud.job import Example
from sottovoce.cloud.tenants import quotas
from sottovoce.core import errors
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.v1 import training_pb2 as wire
from tests.support.caller import Caller, message
from tests.support.cloud import Cloud, cloud
from tests.support.examples import examples

LONG = Example("word " * 10_000, "garden")


@pytest.fixture
def running(folders: tuple[Path, Path], tmp_path: Path) -> Iterator[Cloud]:
    """A server without a worker: jobs move only when a test says so."""
    listen = f"unix:{tmp_path}/s.sock"
    settings = Settings(
        tmp_path, (folders[1],), listen, str(folders[0]), limits=ServerLimits(unfinished_jobs=5)
    )
    with cloud(settings) as started:
        yield started


@pytest.fixture
def acme(running: Cloud) -> Iterator[Caller]:
    """A tenant."""
    with running.caller("acme") as caller:
        yield caller


def refused(call: Callable[[], object]) -> errors.SottovoceError:
    """The error a call comes back with."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return from_rpc_error(caught.value, peer="cloud")


def test_without_a_decoder_nothing_is_taken_for_it(running: Cloud, acme: Caller) -> None:
    error = refused(lambda: acme.create(running.bundle_id, training={"task": wire.TASK_GENERATION}))
    assert isinstance(error, errors.NotReady)
    assert error.subject == "decoder"
    assert "--decoder" in error.fix


def test_a_job_goes_from_upload_to_adapter(running: Cloud, acme: Caller) -> None:
    rows = examples(24, plain=2)
    settings = {"reconstruction": True, "plain_tokens": 2, "epochs": 40}
    job = acme.create(running.bundle_id, training=settings)
    assert (job.state, job.next_sequence) == (wire.JOB_STATE_UPLOADING, 0)
    assert acme.upload(job.id, rows) == 24
    assert acme.start(job.id, 24).state == wire.JOB_STATE_QUEUED

    shown: list[wire.Job] = []
    watching = threading.Thread(target=lambda: shown.extend(acme.watch(job.id)))
    watching.start()
    while not shown and watching.is_alive() and acme.get(job.id).state != wire.JOB_STATE_QUEUED:
        time.sleep(0.05)
    running.work()
    watching.join(60)

    assert shown[0].state in (wire.JOB_STATE_QUEUED, wire.JOB_STATE_RUNNING)
    last = shown[-1]
    assert last.state == wire.JOB_STATE_SUCCEEDED
    assert list(last.labels) == ["garden", "kitchen", "office"]
    assert last.progress.step == last.progress.steps > 0
    assert last.progress.reconstruction_loss > 0
    # Figures are told while it trains, not only at the end.
    told = [j.progress for j in shown if j.state == wire.JOB_STATE_RUNNING and j.progress.step]
    assert len({progress.step for progress in told}) >= 2
    assert [p.step for p in told] == sorted(p.step for p in told)
    for progress in (*told, last.progress):
        assert progress.epochs == 40
        assert progress.steps == last.progress.steps
        assert 1 <= progress.epoch == -(-progress.step * 40 // progress.steps)
        assert progress.loss > 0
        assert progress.reconstruction_loss > 0
        assert 0 < progress.held_out_accuracy <= 1
        assert progress.examples_per_second > 0
    assert told[0].seconds_left > 0 == last.progress.seconds_left
    assert last.training.plain_tokens == 2
    assert last.release.bundle_id == running.bundle_id
    assert last.update_time.ToSeconds() >= last.create_time.ToSeconds() > 1_700_000_000


@pytest.mark.parametrize(
    ("chosen", "field"),
    [
        ({"rank": 100_000}, "training.rank"),
        ({"reconstruction_weight": 1.0}, "training.reconstruction_weight"),
        ({"label_words": True}, "training.label_words"),  # the backbone is no decoder
        # It has 300 positions, and a text takes 256 of them.
        ({"method": wire.METHOD_PROMPT_TUNING, "virtual_tokens": 45}, "training.virtual_tokens"),
        ({"method": wire.METHOD_PREFIX_TUNING, "virtual_tokens": 301}, "training.virtual_tokens"),
        ({"reconstruction": True, "plain_tokens": 23}, "training.plain_tokens"),
    ],
)
def test_settings_that_cannot_be_met_are_refused_by_field(
    running: Cloud, acme: Caller, chosen: dict[str, object], field: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        acme.create(running.bundle_id, training=chosen)
    status = rpc_status.from_call(caught.value)
    violations = detail(status, error_details_pb2.BadRequest).field_violations
    assert [violation.field for violation in violations] == [field]
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.skipif(bool(find_spec("bitsandbytes")), reason="with bitsandbytes there is QLoRA")
def test_a_method_this_cloud_cannot_run_is_refused_before_anything_is_sent(
    running: Cloud, acme: Caller
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        acme.create(running.bundle_id, training={"method": wire.METHOD_QLORA})
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    status = rpc_status.from_call(caught.value)
    violations = detail(status, error_details_pb2.PreconditionFailure).violations
    assert [violation.subject for violation in violations] == ["training.method"]
    assert from_rpc_error(caught.value, peer="cloud").fix
    assert running.server.jobs.page("acme") == ([], "")


@pytest.mark.parametrize(
    ("limit", "call"),
    [
        ("unfinished_jobs", lambda acme, bundle: [acme.create(bundle) for _ in range(6)]),
        ("examples", lambda acme, bundle: acme.upload(acme.create(bundle).id, examples(41))),
        ("upload_bytes", lambda acme, bundle: acme.upload(acme.create(bundle).id, [LONG] * 3)),
    ],
)
def test_a_limit_is_named_in_the_errors_details(
    running: Cloud, acme: Caller, limit: str, call: Callable[[Caller, str], object]
) -> None:
    quotas.change(running.server.database, "acme", "examples", 40)
    quotas.change(running.server.database, "acme", "upload_bytes", 100_000)
    with pytest.raises(grpc.RpcError) as caught:
        call(acme, running.bundle_id)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    status = rpc_status.from_call(caught.value)
    violations = detail(status, error_details_pb2.QuotaFailure).violations
    assert [violation.subject for violation in violations] == [limit]
    assert from_rpc_error(caught.value, peer="cloud").fix


def detail(status: Any, kind: type[Any]) -> Any:
    """The detail of that kind in an error."""
    found = kind()
    assert any(packed.Unpack(found) for packed in status.details)
    return found


def test_a_tenant_that_opens_calls_and_leaves_them_open_is_in_nobodys_way(
    running: Cloud, acme: Caller, end: threading.Event
) -> None:
    def nothing() -> Iterator[wire.UploadExamplesRequest]:
        end.wait()
        yield from ()

    with running.caller("other") as other:
        job = other.create(running.bundle_id)
        request = wire.WatchJobRequest(job_id=job.id)
        watches = [other.training.WatchJob(request, metadata=other.metadata) for _ in range(200)]
        uploads = [
            other.training.UploadExamples.future(nothing(), metadata=other.metadata)
            for _ in range(200)
        ]
        # Those that got no place are told so, and when to come back.
        for each in uploads:
            if each.done() and each.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                assert isinstance(from_rpc_error(each.exception(), peer="cloud"), errors.Overloaded)
        job = acme.create(running.bundle_id)
        upload = acme.training.UploadExamples(
            iter([message(job.id, 0, examples(3))]), metadata=acme.metadata, timeout=60
        )
        assert upload.next_sequence == 3
        shown = acme.training.WatchJob(
            wire.WatchJobRequest(job_id=job.id), metadata=acme.metadata, timeout=60
        )
        assert next(shown).job.next_sequence == 3
        shown.cancel()
        end.set()
        for watch in watches:
            watch.cancel()
        codes = Counter(upload.code() for upload in uploads)
    assert codes[grpc.StatusCode.OK] == UPLOADS_PER_TENANT
    # On a busy machine some are turned away before they are looked at.
    refused = codes[grpc.StatusCode.RESOURCE_EXHAUSTED] + codes[grpc.StatusCode.UNAVAILABLE]
    assert refused == 200 - UPLOADS_PER_TENANT


def test_an_upload_to_a_job_whose_bundle_is_gone_says_so(running: Cloud, acme: Caller) -> None:
    job = acme.create(running.bundle_id)
    bundle = running.server.bundles.pop(running.bundle_id)
    error = refused(lambda: acme.upload(job.id, examples(3)))
    running.server.bundles[bundle.id] = bundle
    assert isinstance(error, errors.BundleMismatch)
    assert "sotto pull" in error.fix


@pytest.mark.parametrize("character", ["x", "\N{DOG FACE}", "\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_an_error_that_quotes_much_arrives_as_itself(
    running: Cloud, acme: Caller, character: str
) -> None:
    job = acme.create(running.bundle_id)
    rows = [Example("a text", f"{i:03}".ljust(256, character)) for i in range(20)]
    acme.upload(job.id, rows)
    error = refused(lambda: acme.start(job.id, 20))
    assert isinstance(error, errors.NotReady)
    assert error.fix == "give at least 2 examples of each label, or drop it"
    assert isinstance(refused(lambda: acme.get(character * 100_000)), errors.NotFound)


def test_a_watch_whose_caller_has_gone_frees_its_thread(running: Cloud, acme: Caller) -> None:
    job = acme.create(running.bundle_id)
    request = wire.WatchJobRequest(job_id=job.id)
    # More watches, one after another, than the server has threads.
    for _ in range(70):
        stream = acme.training.WatchJob(request, metadata=acme.metadata)
        assert next(stream).job.id == job.id
        stream.cancel()
        time.sleep(0.02)
    assert acme.get(job.id).id == job.id


def test_a_message_over_the_limit_is_refused(running: Cloud, acme: Caller) -> None:
    job = acme.create(running.bundle_id)
    row = examples(1)[0]
    large = [type(row)("word " * 12_000, "x") for _ in range(80)]
    error = refused(lambda: acme.upload(job.id, large, size=80))
    assert isinstance(error, errors.QuotaExceeded)
    assert acme.get(job.id).next_sequence == 0
