"""training.proto: exactly once, in order, for one tenant alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as details
from grpc_status import rpc_status

from sottovoce.core.errors import (
    BundleMismatch,
    InvalidInput,
    NotFound,
    NotReady,
    OutOfRange,
    Unauthenticated,
)
from sottovoce.v1 import training_pb2 as wire
from tests.support.caller import Caller, message
from tests.support.peers import Peer, Row, every_call, refused, rows
from tests.support.waiting import until


@pytest.fixture
def job(cloud: Peer, acme: Caller) -> wire.Job:
    """A new job."""
    return acme.create(cloud.bundle.id)


def upload(caller: Caller, *messages: wire.UploadExamplesRequest) -> int:
    answer = caller.training.UploadExamples(iter(messages), metadata=caller.metadata)
    return int(answer.next_sequence)


def cancel(caller: Caller, job: wire.Job) -> wire.Job:
    request = wire.CancelJobRequest(job_id=job.id)
    return caller.training.CancelJob(request, metadata=caller.metadata).job


def delete(caller: Caller, job: wire.Job) -> None:
    caller.training.DeleteJob(wire.DeleteJobRequest(job_id=job.id), metadata=caller.metadata)


def listed(caller: Caller, **page: object) -> tuple[list[str], str]:
    answer = caller.training.ListJobs(wire.ListJobsRequest(**page), metadata=caller.metadata)
    return [job.id for job in answer.jobs], answer.next_page_token


def create(cloud: Peer, caller: Caller, **release: object) -> wire.Job:
    settings = {"mechanism": "pct2t.v1", "eta": 30.0, "bundle_id": cloud.bundle.id, **release}
    request = wire.CreateJobRequest(
        request_id="r", adapter="a", release=wire.ReleaseSettings(**settings)
    )
    return caller.training.CreateJob(request, metadata=caller.metadata).job


def test_a_new_job_holds_nothing_and_says_what_was_chosen(cloud: Peer, acme: Caller) -> None:
    chosen = {"reconstruction": True, "plain_tokens": 2, "seed": 2**40, "epochs": 7}
    job = acme.create(cloud.bundle.id, adapter="news", training=chosen)
    assert (job.state, job.next_sequence, job.adapter) == (wire.JOB_STATE_UPLOADING, 0, "news")
    for name, value in chosen.items():
        assert getattr(job.training, name) == value
    assert job.training.method == wire.METHOD_LORA  # where none was named
    assert job.release == wire.ReleaseSettings(
        mechanism="pct2t.v1", eta=30.0, level="balanced", bundle_id=cloud.bundle.id
    )
    assert job.update_time.ToSeconds() >= job.create_time.ToSeconds() > 1_700_000_000
    assert acme.get(job.id) == job


def test_creating_again_with_the_same_id_gives_the_same_job(cloud: Peer, acme: Caller) -> None:
    first = acme.create(cloud.bundle.id, request_id="same")
    acme.upload(first.id, rows(9))
    again = acme.create(cloud.bundle.id, request_id="same")
    assert (again.id, again.next_sequence) == (first.id, 9)
    assert acme.create(cloud.bundle.id, request_id="other").id != first.id
    for changes in ({"adapter": "other"}, {"training": {"epochs": 9}}):
        refused(
            partial(acme.create, cloud.bundle.id, request_id="same", **changes),
            InvalidInput,
            "request_id",
        )


def test_two_tenants_may_choose_the_same_request_id(cloud: Peer, acme: Caller) -> None:
    job = acme.create(cloud.bundle.id, request_id="same")
    with cloud.caller(f"{acme.metadata[0][1]}-b") as other:
        assert other.create(cloud.bundle.id, request_id="same").id != job.id


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        ({"adapter": ""}, "adapter"),
        ({"adapter": "../other"}, "adapter"),
        ({"adapter": "Capital"}, "adapter"),
        ({"adapter": "a" * 65}, "adapter"),
        ({"request_id": ""}, "request_id"),
        ({"request_id": "x" * 129}, "request_id"),
        ({"training": {"method": 99}}, "training.method"),
        ({"training": {"method": wire.METHOD_PREFIX_TUNING, "rank": 4}}, "training.rank"),
        ({"training": {"virtual_tokens": 4}}, "training.virtual_tokens"),
        ({"training": {"plain_tokens": 3}}, "training.plain_tokens"),
        ({"training": {"learning_rate": float("nan")}}, "training.learning_rate"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused_by_field(
    cloud: Peer, acme: Caller, changes: dict[str, object], subject: str
) -> None:
    refused(lambda: acme.create(cloud.bundle.id, **changes), InvalidInput, subject)
    assert listed(acme) == ([], "")


@pytest.mark.parametrize("eta", [0.0, -1.0, float("inf"), float("nan")])
def test_eta_is_a_finite_number_above_nothing(cloud: Peer, acme: Caller, eta: float) -> None:
    refused(lambda: create(cloud, acme, eta=eta), InvalidInput, "release.eta")


@pytest.mark.parametrize("mechanism", ["", "none", "clear", "pct2t.v9"])
def test_there_is_no_mechanism_for_clear_text(cloud: Peer, acme: Caller, mechanism: str) -> None:
    error = refused(
        lambda: create(cloud, acme, mechanism=mechanism), InvalidInput, "release.mechanism"
    )
    assert "pct2t.v1" in error.fix


def test_examples_released_with_another_bundle_are_refused(cloud: Peer, acme: Caller) -> None:
    error = refused(lambda: create(cloud, acme, bundle_id="0" * 16), BundleMismatch, "bundle_id")
    assert "sotto pull" in error.fix


def test_each_message_is_held_before_the_next_is_read(acme: Caller, job: wire.Job) -> None:
    given = rows(20)

    def sent() -> Iterator[wire.UploadExamplesRequest]:
        for first, held in ((0, 8), (8, 16), (16, 20)):
            yield message(job.id, first, given[first:held])
            until(lambda expected=held: acme.get(job.id).next_sequence == expected)  # type: ignore[misc]

    answer = acme.training.UploadExamples(sent(), metadata=acme.metadata)
    assert answer.next_sequence == 20


def test_an_upload_cut_off_goes_on_where_it_was(acme: Caller, job: wire.Job) -> None:
    given = rows(20)

    def broken() -> Iterator[wire.UploadExamplesRequest]:
        yield message(job.id, 0, given[:8])
        until(lambda: acme.get(job.id).next_sequence == 8)
        raise ConnectionResetError

    with pytest.raises(grpc.RpcError):
        acme.training.UploadExamples(broken(), metadata=acme.metadata)
    assert acme.get(job.id).next_sequence == 8
    # The device overlaps by some, being unsure what arrived.
    assert acme.upload(job.id, given[5:], first=5) == 20
    assert acme.get(job.id).next_sequence == 20


def test_what_is_held_is_passed_over(acme: Caller, job: wire.Job) -> None:
    given = rows(12)
    assert acme.upload(job.id, given) == 12
    assert acme.upload(job.id, given) == 12
    assert acme.upload(job.id, given[3:7], first=3) == 12


def test_a_gap_says_where_to_go_on_and_holds_nothing_of_it(acme: Caller, job: wire.Job) -> None:
    given = rows(20)
    acme.upload(job.id, given[:5])
    error = refused(lambda: acme.upload(job.id, given[9:], first=9), OutOfRange, "first_sequence")
    assert error.metadata["next_sequence"] == "5"
    assert acme.get(job.id).next_sequence == 5


def test_an_example_sent_again_is_the_same_example(acme: Caller, job: wire.Job) -> None:
    given = rows(8)
    acme.upload(job.id, given)
    # Another under a number that is taken.
    refused(lambda: upload(acme, message(job.id, 0, given, "other")), InvalidInput, "example_id")
    # Held already, under another number.
    moved = message(job.id, 8, rows(1))
    moved.examples[0].example_id = "example-3"
    refused(lambda: upload(acme, moved), InvalidInput, "example_id")
    assert acme.get(job.id).next_sequence == 8


@pytest.mark.parametrize(
    ("wrong", "subject"),
    [
        (wire.PrivatizedExample(released_text="t", label="l"), "example_id"),
        (wire.PrivatizedExample(example_id="x" * 65, released_text="t", label="l"), "example_id"),
        (wire.PrivatizedExample(example_id="x", released_text=" ", label="l"), "released_text"),
        (wire.PrivatizedExample(example_id="x", released_text="t"), "label"),
        (wire.PrivatizedExample(example_id="x", released_text="t", label="l" * 257), "label"),
        (
            wire.PrivatizedExample(
                example_id="x",
                released_text="t",
                label="l",
                released_plain_tokens=["word"],
                plain_token_ids=[0],
            ),
            "plain_token_ids",  # the job takes none
        ),
    ],
)
def test_a_message_is_held_whole_or_not_at_all(
    acme: Caller, job: wire.Job, wrong: wire.PrivatizedExample, subject: str
) -> None:
    sent = message(job.id, 0, rows(4))
    sent.examples.append(wrong)
    refused(lambda: upload(acme, sent), InvalidInput, subject)
    assert acme.get(job.id).next_sequence == 0
    assert acme.upload(job.id, rows(4)) == 4


def test_padding_is_taken_and_says_nothing(acme: Caller, job: wire.Job) -> None:
    sent = message(job.id, 0, rows(4))
    sent.padding = b"\0a"
    refused(lambda: upload(acme, sent), InvalidInput, "padding")
    sent.padding = bytes(99)
    assert upload(acme, sent) == 4


def test_plain_tokens_are_as_many_as_said_and_words_of_the_bundle(
    cloud: Peer, acme: Caller
) -> None:
    words = cloud.bundle.manifest.words
    job = acme.create(cloud.bundle.id, training={"reconstruction": True, "plain_tokens": 2})
    for tokens, ids, subject in (
        (("a",), (0,), "plain_token_ids"),
        (("a", "b"), (0, words), "plain_token_ids"),
        (("a", ""), (0, 1), "released_plain_tokens"),
    ):
        row = Row("text", "label", tokens, ids)
        refused(partial(acme.upload, job.id, [row]), InvalidInput, subject)
    assert acme.upload(job.id, [Row("text", "label", ("a", "b"), (0, words - 1))]) == 1


def test_starting_is_for_a_whole_upload_and_may_be_repeated(acme: Caller, job: wire.Job) -> None:
    given = rows(12)
    acme.upload(job.id, given[:9])
    refused(lambda: acme.start(job.id, 12), NotReady, "examples")
    acme.upload(job.id, given[9:], first=9)
    assert acme.start(job.id, 12).state == wire.JOB_STATE_QUEUED
    assert acme.start(job.id, 12).state in (wire.JOB_STATE_QUEUED, wire.JOB_STATE_RUNNING)
    # What was held may come again, nothing new.
    assert acme.upload(job.id, given[4:], first=4) == 12
    refused(lambda: acme.upload(job.id, rows(13)[12:], first=12), NotReady, "state")
    cancel(acme, job)


@pytest.mark.parametrize(
    ("labels", "subject"),
    [("ababab", "examples"), ("a" * 12, "label"), ("ab" * 6 + "c", "label")],
)
def test_what_cannot_be_trained_on_is_refused_at_the_start(
    acme: Caller, job: wire.Job, labels: str, subject: str
) -> None:
    acme.upload(job.id, [Row("some text", label) for label in labels])
    refused(lambda: acme.start(job.id, len(labels)), NotReady, subject)
    assert acme.get(job.id).state == wire.JOB_STATE_UPLOADING


def test_a_watch_shows_the_job_at_once_and_until_it_ends(cloud: Peer, acme: Caller) -> None:
    job = acme.create(cloud.bundle.id, training={"epochs": 2})
    acme.upload(job.id, rows(12))
    request = wire.WatchJobRequest(job_id=job.id)
    watched = acme.training.WatchJob(request, metadata=acme.metadata, timeout=120)
    assert next(watched).job == acme.get(job.id)
    acme.start(job.id, 12)
    cloud.work()
    shown = [answer.job for answer in watched]
    assert [j.state for j in shown] == sorted(j.state for j in shown)
    assert shown[-1] == acme.get(job.id)
    assert shown[-1].state == wire.JOB_STATE_SUCCEEDED
    assert list(shown[-1].labels) == ["garden", "kitchen", "office"]
    assert (shown[-1].progress.epoch, shown[-1].progress.epochs) == (2, 2)
    assert 0 < shown[-1].progress.held_out_accuracy <= 1
    # What has ended stays as it is.
    assert acme.watch(job.id) == [shown[-1]]
    assert cancel(acme, job).state == acme.start(job.id, 12).state == wire.JOB_STATE_SUCCEEDED


@pytest.mark.parametrize("started", [False, True])
def test_a_cancelled_job_ends_and_takes_nothing_more(
    acme: Caller, job: wire.Job, started: bool
) -> None:
    acme.upload(job.id, rows(12))
    if started:
        acme.start(job.id, 12)
    assert cancel(acme, job).state == wire.JOB_STATE_CANCELLED
    assert cancel(acme, job).state == wire.JOB_STATE_CANCELLED
    assert [shown.state for shown in acme.watch(job.id)] == [wire.JOB_STATE_CANCELLED]
    refused(lambda: acme.upload(job.id, rows(12)), NotReady, "state")
    refused(lambda: acme.start(job.id, 12), NotReady, "state")


def test_a_deleted_job_is_gone_and_its_request_id_stays_taken(cloud: Peer, acme: Caller) -> None:
    job = acme.create(cloud.bundle.id, request_id="same")
    acme.upload(job.id, rows(12))
    delete(acme, job)
    for call in every_call(acme, job.id, rows(12)).values():
        refused(call, NotFound)
    assert listed(acme) == ([], "")
    again = partial(acme.create, cloud.bundle.id, request_id="same")
    refused(again, InvalidInput, "request_id")


def test_jobs_are_listed_newest_first_in_pages(cloud: Peer, acme: Caller) -> None:
    made = [acme.create(cloud.bundle.id).id for _ in range(5)]
    assert listed(acme) == (made[::-1], "")
    first, token = listed(acme, page_size=2)
    second, token = listed(acme, page_size=2, page_token=token)
    third, token = listed(acme, page_size=2, page_token=token)
    assert [*first, *second, *third] == made[::-1]
    assert token == ""
    refused(lambda: listed(acme, page_token="nonsense"), InvalidInput, "page_token")  # noqa: S106


def test_another_tenants_job_is_as_one_that_never_was(
    cloud: Peer, acme: Caller, job: wire.Job
) -> None:
    acme.upload(job.id, rows(12))
    with cloud.caller(f"{acme.metadata[0][1]}-b") as other:
        for name, call in every_call(other, job.id, rows(12)).items():
            theirs = refused(call, NotFound, job.id)
            none = refused(every_call(other, "none", rows(12))[name], NotFound, "none")
            assert (theirs.problem, theirs.fix) == (none.problem, none.fix)
        assert listed(other) == ([], "")
    assert acme.get(job.id).next_sequence == 12


def test_every_call_needs_a_tenant_and_its_token(cloud: Peer, acme: Caller, job: wire.Job) -> None:
    tenant = acme.metadata[0][1]
    said = set()
    for name, token in ((tenant, "guess"), ("nobody", "guess"), ("nobody", acme.metadata[1][1])):
        with cloud.caller(name, token=token) as thief:
            calls = every_call(thief, job.id, rows(4))
            calls["CreateJob"] = partial(thief.create, cloud.bundle.id)
            calls["ListJobs"] = partial(listed, thief)
            for call in calls.values():
                error = refused(call, Unauthenticated)
                said.add((error.problem, error.fix))
    assert len(said) == 1  # who guesses names learns nothing
    refused(lambda: acme.training.ListJobs(wire.ListJobsRequest()), Unauthenticated)
    assert acme.get(job.id).next_sequence == 0


def test_errors_carry_the_details_of_their_kind(cloud: Peer, acme: Caller, job: wire.Job) -> None:
    """What clients in other languages read."""
    acme.upload(job.id, rows(5))

    def detail(call: object, code: grpc.StatusCode, kind: type[Message], reason: str) -> Message:
        with pytest.raises(grpc.RpcError) as caught:
            call()  # type: ignore[operator]
        assert caught.value.code() is code
        found, info = kind(), details.ErrorInfo()
        packed = rpc_status.from_call(caught.value).details
        assert any(each.Unpack(found) for each in packed)
        assert any(each.Unpack(info) for each in packed)
        assert (info.domain, info.reason) == ("sottovoce", reason)
        return found

    code = grpc.StatusCode
    invalid = detail(
        lambda: create(cloud, acme, eta=0),
        code.INVALID_ARGUMENT,
        details.BadRequest,
        "INVALID_INPUT",
    )
    assert [v.field for v in invalid.field_violations] == ["release.eta"]  # type: ignore[attr-defined]
    absent = detail(lambda: acme.get("none"), code.NOT_FOUND, details.ResourceInfo, "NOT_FOUND")
    assert absent.resource_name == "none"  # type: ignore[attr-defined]
    unmet = detail(
        lambda: acme.start(job.id, 9),
        code.FAILED_PRECONDITION,
        details.PreconditionFailure,
        "NOT_READY",
    )
    assert [v.subject for v in unmet.violations] == ["examples"]  # type: ignore[attr-defined]
    gap = detail(
        lambda: acme.upload(job.id, rows(4), first=7),
        code.OUT_OF_RANGE,
        details.ErrorInfo,
        "OUT_OF_RANGE",
    )
    assert gap.metadata["next_sequence"] == "5"  # type: ignore[attr-defined]


def test_no_error_quotes_what_was_sent(cloud: Peer, acme: Caller, job: wire.Job) -> None:
    for row in (Row("zanzibar", ""), Row("zanzibar", "a", ("zanzibar",), (0,))):
        error = refused(partial(acme.upload, job.id, [row]), InvalidInput)
        assert "zanzibar" not in f"{error} {error.fix} {error.subject} {dict(error.metadata)}"
