"""Stubs over a real channel, with a tenant's name and token: a device that keeps no rules."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from typing import Protocol

import grpc

from sottovoce.v1 import (
    bundles_pb2_grpc,
    enrollment_pb2_grpc,
    inference_pb2_grpc,
    training_pb2,
    training_pb2_grpc,
)


class Row(Protocol):
    """The uploaded fields of an example."""

    @property
    def text(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def plain_tokens(self) -> tuple[str, ...]: ...
    @property
    def plain_token_ids(self) -> tuple[int, ...]: ...
    @property
    def output(self) -> str: ...


@dataclasses.dataclass
class Caller:
    """Stubs over a real channel, with one tenant's metadata."""

    channel: grpc.Channel
    metadata: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        self.enrollment = enrollment_pb2_grpc.EnrollmentServiceStub(self.channel)
        self.training = training_pb2_grpc.TrainingServiceStub(self.channel)
        self.inference = inference_pb2_grpc.InferenceServiceStub(self.channel)
        self.bundles = bundles_pb2_grpc.BundlesServiceStub(self.channel)

    def create(self, bundle_id: str, **changes: object) -> training_pb2.Job:
        """A job for adapter "topics"."""
        settings = {"epochs": 6, "batch_size": 8, **changes.pop("training", {})}  # type: ignore[dict-item]
        request = training_pb2.CreateJobRequest(
            request_id=str(changes.pop("request_id", uuid.uuid4())),
            adapter=str(changes.pop("adapter", "topics")),
            training=training_pb2.TrainingSettings(**settings),
            release=training_pb2.ReleaseSettings(
                mechanism="pct2t.v1", eta=30.0, level="balanced", bundle_id=bundle_id
            ),
        )
        return self.training.CreateJob(request, metadata=self.metadata).job

    def upload(self, job_id: str, rows: Sequence[Row], *, first: int = 0, size: int = 8) -> int:
        """Uploads in messages of ``size``; example ids are their place in the whole."""
        messages = (
            message(job_id, first + at, rows[at : at + size]) for at in range(0, len(rows), size)
        )
        return int(self.training.UploadExamples(messages, metadata=self.metadata).next_sequence)

    def start(self, job_id: str, total: int) -> training_pb2.Job:
        """Queues the job."""
        request = training_pb2.StartJobRequest(job_id=job_id, total_examples=total)
        return self.training.StartJob(request, metadata=self.metadata).job

    def get(self, job_id: str) -> training_pb2.Job:
        """The job as it stands."""
        request = training_pb2.GetJobRequest(job_id=job_id)
        return self.training.GetJob(request, metadata=self.metadata).job

    def submit(self, bundle_id: str, rows: Sequence[Row], **changes: object) -> str:
        """Creates, uploads and starts; gives the job's id."""
        job = self.create(bundle_id, **changes)
        self.upload(job.id, rows)
        self.start(job.id, len(rows))
        return job.id

    def watch(self, job_id: str, *, timeout: float = 60) -> list[training_pb2.Job]:
        """All states shown until the job ends."""
        request = training_pb2.WatchJobRequest(job_id=job_id)
        stream = self.training.WatchJob(request, metadata=self.metadata, timeout=timeout)
        return [shown.job for shown in stream]


def message(
    job_id: str, first: int, rows: Sequence[Row], prefix: str = "example"
) -> training_pb2.UploadExamplesRequest:
    """One upload message."""
    return training_pb2.UploadExamplesRequest(
        job_id=job_id,
        first_sequence=first,
        examples=[
            training_pb2.PrivatizedExample(
                example_id=f"{prefix}-{sequence}",
                released_text=row.text,
                label=row.label,
                released_plain_tokens=row.plain_tokens,
                plain_token_ids=row.plain_token_ids,
                released_output=row.output,
            )
            for sequence, row in enumerate(rows, start=first)
        ],
    )


def credentials(tenant: str, token: str) -> tuple[tuple[str, str], ...]:
    """The metadata of a call."""
    return (("sottovoce-tenant", tenant), ("authorization", f"Bearer {token}"))
