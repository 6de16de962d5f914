"""What PATE adds to a job: examples without a label, which are public."""

from __future__ import annotations

from functools import partial

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.v1 import training_pb2 as wire
from tests.support.caller import Caller
from tests.support.peers import Peer, Row, refused, rows
from tests.support.waiting import until

PATE = {"pate": True, "dp_epsilon": 20.0, "method": wire.METHOD_HEAD}


def public(number: int) -> list[Row]:
    return [Row(row.text, "") for row in rows(number)]


def test_examples_without_a_label_are_for_pate_alone(cloud: Peer, acme: Caller) -> None:
    plain = acme.create(cloud.bundle.id, training={"dp_epsilon": 20.0})
    refused(lambda: acme.upload(plain.id, public(1)), InvalidInput, "label")
    job = acme.create(cloud.bundle.id, training=PATE)
    assert job.training.pate
    assert acme.upload(job.id, public(3)) == 3
    refused(
        lambda: acme.create(cloud.bundle.id, training={"pate": True}),
        InvalidInput,
        "training.pate",
    )


def test_public_texts_are_no_examples_and_too_few_are_refused(cloud: Peer, acme: Caller) -> None:
    for given, subject in (([*rows(30), *public(31)], "examples"), (public(60), "examples")):
        job = acme.create(cloud.bundle.id, training=PATE)
        acme.upload(job.id, given)
        refused(partial(acme.start, job.id, len(given)), NotReady, subject)


def test_a_job_with_both_ends_with_the_labels_of_its_examples(cloud: Peer, acme: Caller) -> None:
    given = [*rows(240), *public(60)]
    job = acme.create(cloud.bundle.id, training=PATE)
    acme.upload(job.id, given)
    acme.start(job.id, len(given))
    cloud.work()
    until(lambda: acme.get(job.id).state == wire.JOB_STATE_SUCCEEDED)
    assert list(acme.get(job.id).labels) == ["garden", "kitchen", "office"]
