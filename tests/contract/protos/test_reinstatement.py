"""ReinstateAdapter: a name stands again for what an earlier job trained."""

from __future__ import annotations

from sottovoce.core.errors import NotReady
from sottovoce.v1 import inference_pb2 as inference
from sottovoce.v1 import training_pb2 as wire
from tests.support.caller import Caller
from tests.support.peers import Peer, Row, refused, rows


def test_an_adapter_that_was_replaced_can_be_reinstated(cloud: Peer, acme: Caller) -> None:
    """The newer adapter names the labels differently."""
    swapped = {"garden": "kitchen", "kitchen": "garden", "office": "office"}
    other = [Row(row.text, swapped[row.label]) for row in rows(36)]
    jobs = []
    for examples in (rows(36), other):
        jobs.append(acme.submit(cloud.bundle.id, examples, training={"epochs": 12}))
        cloud.work()
        assert acme.watch(jobs[-1])[-1].state == wire.JOB_STATE_SUCCEEDED

    def label() -> str:
        request = inference.InferenceServicePredictRequest(
            adapter="topics", released_text="tree leaf soil", bundle_id=cloud.bundle.id
        )
        scores = acme.inference.Predict(request, metadata=acme.metadata).scores
        return str(max(scores, key=lambda score: score.probability).label)

    def reinstate(job_id: str) -> wire.Job:
        request = wire.ReinstateAdapterRequest(job_id=job_id)
        return acme.training.ReinstateAdapter(request, metadata=acme.metadata).job

    assert label() == "kitchen"
    assert reinstate(jobs[0]).id == jobs[0]
    assert label() == "garden"
    assert reinstate(jobs[0]).id == jobs[0]
    assert label() == "garden"
    reinstate(jobs[1])
    assert label() == "kitchen"


def test_a_job_that_trained_nothing_has_no_adapter_to_reinstate(cloud: Peer, acme: Caller) -> None:
    job = acme.create(cloud.bundle.id)
    request = wire.ReinstateAdapterRequest(job_id=job.id)
    refused(
        lambda: acme.training.ReinstateAdapter(request, metadata=acme.metadata), NotReady, job.id
    )
