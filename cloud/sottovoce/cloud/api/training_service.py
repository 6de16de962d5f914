"""Customisation jobs over the wire.

Every call names its tenant. This module loads no model and no torch. Calls that need the models are
in `models_service`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Final

import grpc

from sottovoce.cloud.api.authentication import Admission
from sottovoce.cloud.api.bundles_service import released_with
from sottovoce.cloud.config import check_name
from sottovoce.cloud.job import FINAL, Example, Job, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.ending import cancel, delete, reinstate
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store.adapters import versions
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.tenants.credentials import Scope
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.rpc.limits import LARGEST_MESSAGE
from sottovoce.core.rpc.streams import check_padding
from sottovoce.core.rpc.training_settings import METHODS, TASKS
from sottovoce.v1 import training_pb2 as wire
from sottovoce.v1 import training_pb2_grpc

if TYPE_CHECKING:
    from sottovoce.cloud.api.models_service import ModelsService

FOLLOWERS, FOLLOWERS_PER_TENANT = 128, 64
"""Open calls at once; each holds a thread for some minutes."""

_FOLLOWED: Final = 32
_LOOK_SECONDS: Final = 1.0
_SECONDS: Final = 300.0


POLL_SECONDS = 0.3
UPLOADS, UPLOADS_PER_TENANT = 64, 16
WATCHES, WATCHES_PER_TENANT = 128, 32
"""Open calls at once; each holds a thread for as long as the caller likes."""

ALIKE: Final = [f.name for f in fields(TrainingOptions) if f.name not in ("method", "task")]
"""Fields with the same name in `TrainingOptions` and the wire's TrainingSettings."""


def job_message(job: Job) -> wire.Job:
    training = job.training
    message = wire.Job(
        id=job.id,
        adapter=job.adapter,
        state=f"JOB_STATE_{job.state}",
        training=wire.TrainingSettings(
            method=METHODS[training.method],
            task=TASKS[training.task],
            **{name: getattr(training, name) for name in ALIKE},
        ),
        release=wire.ReleaseSettings(**asdict(job.release)),
        next_sequence=job.next_sequence,
        progress=wire.JobProgress(**asdict(job.progress)),
        labels=job.labels,
        message=job.message,
    )
    message.create_time.FromMicroseconds(round(job.created * 1e6))
    message.update_time.FromMicroseconds(round(job.updated * 1e6))
    return message


def _uploads(message: wire.UploadExamplesRequest) -> list[Upload]:
    return [
        Upload(
            example.example_id,
            Example(
                example.released_text,
                example.label,
                tuple(example.released_plain_tokens),
                tuple(example.plain_token_ids),
                example.released_output,
            ),
        )
        for example in message.examples
    ]


class TrainingService(training_pb2_grpc.TrainingServiceServicer):
    """Jobs of the calling tenants.

    Args:
        bundles: by id, the bundles that examples may be released with.
        models: answers the calls that need a model; None if this process has none.
    """

    def __init__(
        self,
        jobs: Jobs,
        tenants: Tenants,
        bundles: Mapping[str, Bundle],
        models: ModelsService | None = None,
    ) -> None:
        self._jobs = jobs
        self._tenants = tenants
        self._bundles = bundles
        self._models = models
        self._uploads = Admission(calls=UPLOADS, per_tenant=UPLOADS_PER_TENANT)
        self._watches = Admission(calls=WATCHES, per_tenant=WATCHES_PER_TENANT)
        self._followers = Admission(calls=FOLLOWERS, per_tenant=FOLLOWERS_PER_TENANT)

    def _tenant(self, context: grpc.ServicerContext, *others: Scope) -> str:
        return self._tenants.admit(context.invocation_metadata(), Scope.TRAIN, *others)

    def _with_models(self, context: grpc.ServicerContext) -> ModelsService:
        if self._models is None:
            self._tenant(context, Scope.PREDICT)
            raise NotReady(
                "replicas answer this call, and this is a front without a model",
                fix="call the provider's balancer; see `sotto-cloud balancer-config`",
                subject="address",
            )
        return self._models

    def CreateJob(  # noqa: N802 - the wire's names
        self, request: wire.CreateJobRequest, context: grpc.ServicerContext
    ) -> wire.CreateJobResponse:
        return self._with_models(context).CreateJob(request, context)

    def GetAdapter(  # noqa: N802
        self, request: wire.GetAdapterRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.GetAdapterResponse]:
        yield from self._with_models(context).GetAdapter(request, context)

    def UploadExamples(  # noqa: N802
        self, request_iterator: Iterator[wire.UploadExamplesRequest], context: grpc.ServicerContext
    ) -> wire.UploadExamplesResponse:
        """Append message by message, each committed before the next is read."""
        tenant = self._tenant(context)
        held = 0
        with self._uploads.admitted(tenant):
            for message in request_iterator:
                check_padding(message.padding, LARGEST_MESSAGE)
                job = self._jobs.get(message.job_id, tenant)
                words = released_with(self._bundles, job.release.bundle_id).manifest.words
                first, uploads = message.first_sequence, _uploads(message)
                held = append(self._jobs, job.id, tenant, first, uploads, words)
        return wire.UploadExamplesResponse(next_sequence=held)

    def StartJob(  # noqa: N802
        self, request: wire.StartJobRequest, context: grpc.ServicerContext
    ) -> wire.StartJobResponse:
        job = self._jobs.start(request.job_id, self._tenant(context), request.total_examples)
        return wire.StartJobResponse(job=job_message(job))

    def GetJob(  # noqa: N802
        self, request: wire.GetJobRequest, context: grpc.ServicerContext
    ) -> wire.GetJobResponse:
        job = self._jobs.get(request.job_id, self._tenant(context))
        return wire.GetJobResponse(job=job_message(job))

    def WatchJob(  # noqa: N802
        self, request: wire.WatchJobRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.WatchJobResponse]:
        """Stream the job at once and on every change, until it ends or the caller disconnects."""
        tenant = self._tenant(context)
        shown: Job | None = None
        with self._watches.admitted(tenant):
            while context.is_active():
                job = self._jobs.get(request.job_id, tenant)
                if job != shown:
                    yield wire.WatchJobResponse(job=job_message(job))
                    shown = job
                if job.state in FINAL:
                    return
                # The worker is another process, so SQLite must be polled.
                time.sleep(POLL_SECONDS)

    def CancelJob(  # noqa: N802
        self, request: wire.CancelJobRequest, context: grpc.ServicerContext
    ) -> wire.CancelJobResponse:
        job = cancel(self._jobs, request.job_id, self._tenant(context))
        return wire.CancelJobResponse(job=job_message(job))

    def ListJobs(  # noqa: N802
        self, request: wire.ListJobsRequest, context: grpc.ServicerContext
    ) -> wire.ListJobsResponse:
        """Return the tenant's jobs, newest first."""
        found, token = self._jobs.page(
            self._tenant(context, Scope.PREDICT),
            page_size=request.page_size,
            page_token=request.page_token,
        )
        return wire.ListJobsResponse(jobs=map(job_message, found), next_page_token=token)

    def DeleteJob(  # noqa: N802
        self, request: wire.DeleteJobRequest, context: grpc.ServicerContext
    ) -> wire.DeleteJobResponse:
        delete(self._jobs, request.job_id, self._tenant(context))
        return wire.DeleteJobResponse()

    def ReinstateAdapter(  # noqa: N802
        self, request: wire.ReinstateAdapterRequest, context: grpc.ServicerContext
    ) -> wire.ReinstateAdapterResponse:
        """Make an earlier adapter current again."""
        job = reinstate(self._jobs, request.job_id, self._tenant(context))
        return wire.ReinstateAdapterResponse(job=job_message(job))

    def WatchAdapters(  # noqa: N802
        self, request: wire.WatchAdaptersRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.WatchAdaptersResponse]:
        """Stream the adapters' versions at once and on every change, for some minutes.

        Raises:
            InvalidInput: no names, or too many. Overloaded: too many streams are open.
        """
        tenant = self._tenant(context, Scope.PREDICT)
        names = set(request.adapters)
        if not 0 < len(names) <= _FOLLOWED:
            raise InvalidInput(
                f"{len(names)} adapters to watch", fix=f"name 1 to {_FOLLOWED}", subject="adapters"
            )
        for name in names:
            check_name(name, "adapter")
        said: dict[str, str] = {}
        ends = time.monotonic() + _SECONDS
        with self._followers.admitted(tenant):
            while context.is_active() and time.monotonic() < ends:
                now = versions(self._jobs.database, tenant, names)
                for name, version in sorted(now.items()):
                    if said.get(name) != version:
                        yield wire.WatchAdaptersResponse(adapter=name, version=version)
                said = now
                # The trainer is another process, so the database must be polled.
                time.sleep(_LOOK_SECONDS)
