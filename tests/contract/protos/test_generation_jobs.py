"""Generation jobs have outputs in place of labels."""

from __future__ import annotations

from functools import partial

import pytest

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.v1 import training_pb2 as wire
from tests.support.caller import Caller
from tests.support.peers import Peer, Row, refused

TRAINING = {"task": wire.TASK_GENERATION, "epochs": 1}


def rows(number: int) -> list[Row]:
    return [Row(f"to the bridge {i}", "", output=f"The train, {i}") for i in range(number)]


def test_a_job_of_outputs_is_taken_and_trained(cloud: Peer, acme: Caller) -> None:
    job = acme.create(cloud.bundle.id, training=TRAINING)
    assert job.training.task == wire.TASK_GENERATION
    assert acme.upload(job.id, rows(12)) == 12
    acme.start(job.id, 12)
    cloud.work()
    done = acme.get(job.id)
    assert (done.state, list(done.labels)) == (wire.JOB_STATE_SUCCEEDED, [])


def test_a_job_is_of_classification_unless_it_says_otherwise(cloud: Peer, acme: Caller) -> None:
    job = acme.create(cloud.bundle.id)
    assert acme.get(job.id).training.task == wire.TASK_CLASSIFICATION
    refused(partial(acme.upload, job.id, rows(1)), InvalidInput)
    both = [Row("text", "label", output="output")]
    refused(partial(acme.upload, job.id, both), InvalidInput, "released_output")


@pytest.mark.parametrize(
    ("row", "subject"),
    [
        (Row("text", "", output=" "), "released_output"),
        (Row("text", "label", output="output"), "label"),
        (Row("text", "label"), "label"),
        (Row(" ", "", output="output"), "released_text"),
    ],
)
def test_what_is_no_input_and_output_is_refused(
    cloud: Peer, acme: Caller, row: Row, subject: str
) -> None:
    job = acme.create(cloud.bundle.id, training=TRAINING)
    refused(partial(acme.upload, job.id, [*rows(2), row]), InvalidInput, subject)
    assert acme.get(job.id).next_sequence == 0


def test_a_few_outputs_are_too_few(cloud: Peer, acme: Caller) -> None:
    job = acme.create(cloud.bundle.id, training=TRAINING)
    acme.upload(job.id, rows(7))
    refused(partial(acme.start, job.id, 7), NotReady, "examples")


def test_what_has_not_been_made_for_generation_is_refused(cloud: Peer, acme: Caller) -> None:
    for changed in ({"label_words": True}, {"method": wire.METHOD_HEAD}):
        ask = partial(acme.create, cloud.bundle.id, training={**TRAINING, **changed})
        refused(ask, InvalidInput, f"training.{next(iter(changed))}")
