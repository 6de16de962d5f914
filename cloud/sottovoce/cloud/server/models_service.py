"""The calls of customisation that need a model: what may be trained, and adapters for devices.

Why it is here: a job that could not be trained is refused before anything is uploaded, and only who
has the models knows. They are part of the service that `training_service` answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

import grpc

from sottovoce.cloud.job import Release, TrainingOptions
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.models import methods
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.decoder import Decoder, no_decoder
from sottovoce.cloud.server.bundles_service import released_with
from sottovoce.cloud.server.downloads import Downloads
from sottovoce.cloud.server.training_service import ALIKE, job_message
from sottovoce.cloud.state.credentials import Scope
from sottovoce.cloud.state.tenants import Tenants
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.wire import training_settings
from sottovoce.core.wire.training_settings import METHODS, TASKS
from sottovoce.v1 import training_pb2 as wire
from sottovoce.v1 import training_pb2_grpc

__all__ = ["ModelsService"]

_METHODS = {number: name for name, number in METHODS.items()}
_TASKS = {number: name for name, number in TASKS.items()}


def _options(settings: wire.TrainingSettings) -> TrainingOptions:
    """What the tenant chose.

    Raises:
        InvalidInput: settings that contradict one another.
    """
    training_settings.check(settings)
    method = _METHODS[settings.method or wire.METHOD_LORA]
    task = _TASKS[settings.task or wire.TASK_CLASSIFICATION]
    return TrainingOptions(method, task=task, **{n: getattr(settings, n) for n in ALIKE})


class ModelsService(training_pb2_grpc.TrainingServiceServicer):
    """Answers `CreateJob` and `GetAdapter`; who asks for the rest is told where that is answered.

    Args:
        jobs: where new ones go.
        tenants: who may call.
        bundles: by id, those that examples may have been released with.
        backbone: what jobs are trained on.
        decoder: what those are trained on that write, if there is one.
        adapters: hands them out.
    """

    def __init__(
        self,
        jobs: Jobs,
        tenants: Tenants,
        bundles: Mapping[str, Bundle],
        backbone: LoadedBackbone,
        decoder: Decoder | None,
        adapters: Downloads,
    ) -> None:
        self._jobs = jobs
        self._tenants = tenants
        self._bundles = bundles
        self._backbone = backbone
        self._decoder = decoder
        self._adapters = adapters

    def _trained(self, options: TrainingOptions) -> LoadedBackbone:
        """What a job is trained on."""
        if not options.writes:
            return self._backbone
        if self._decoder is None:
            raise no_decoder()
        return self._decoder.backbone

    def CreateJob(  # noqa: N802 - the wire's names
        self, request: wire.CreateJobRequest, context: grpc.ServicerContext
    ) -> wire.CreateJobResponse:
        """A new job, or the one this request id made.

        Raises:
            InvalidInput: see `_options`, `methods.check` and `Jobs.create`.
            NotReady: a method this cloud cannot run, or generation where there is no decoder.
            BundleMismatch: released with a bundle that is not served here.
            QuotaExceeded: too many unfinished jobs.
        """
        tenant = self._tenants.admit(context.invocation_metadata(), Scope.TRAIN)
        options, release = _options(request.training), request.release
        methods.check(options, self._trained(options))
        bundle = released_with(self._bundles, release.bundle_id)
        if release.mechanism not in bundle.manifest.calibration:
            raise InvalidInput(
                "unknown mechanism; there is none for clear text",
                fix=f"use one of: {', '.join(sorted(bundle.manifest.calibration))}",
                subject="release.mechanism",
            )
        job = self._jobs.create(
            tenant,
            request.request_id,
            request.adapter,
            options,
            Release(
                release.mechanism, release.eta, release.level, release.bundle_id, release.policy
            ),
        )
        return wire.CreateJobResponse(job=job_message(job))

    def GetAdapter(  # noqa: N802
        self, request: wire.GetAdapterRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.GetAdapterResponse]:
        """The tenant's adapter, for a device to run."""
        tenant = self._tenants.admit(context.invocation_metadata(), Scope.TRAIN, Scope.PREDICT)
        yield from self._adapters.stream(tenant, request)


def _elsewhere(service: ModelsService, _: object, context: grpc.ServicerContext) -> NoReturn:
    service._tenants.admit(context.invocation_metadata(), Scope.TRAIN, Scope.PREDICT)
    raise NotReady(
        "fronts answer this call, and this is a replica",
        fix="call the provider's balancer; see `sotto-cloud balancer-config`",
        subject="address",
    )


for _method in wire.DESCRIPTOR.services_by_name["TrainingService"].methods:
    if _method.name not in vars(ModelsService):
        setattr(ModelsService, _method.name, _elsewhere)
