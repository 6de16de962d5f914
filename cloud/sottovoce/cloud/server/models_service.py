"""The training calls that need a model: job creation, and adapters for devices.

A job that cannot be trained is refused before the upload, and only a process with the models can
check this. These calls are part of the service in `training_service`.
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
from sottovoce.core.rpc import training_settings
from sottovoce.core.rpc.training_settings import METHODS, TASKS
from sottovoce.v1 import training_pb2 as wire
from sottovoce.v1 import training_pb2_grpc

__all__ = ["ModelsService"]

_METHODS = {number: name for name, number in METHODS.items()}
_TASKS = {number: name for name, number in TASKS.items()}


def _options(settings: wire.TrainingSettings) -> TrainingOptions:
    """Return the tenant's training options.

    Raises:
        InvalidInput: settings that contradict one another.
    """
    training_settings.check(settings)
    method = _METHODS[settings.method or wire.METHOD_LORA]
    task = _TASKS[settings.task or wire.TASK_CLASSIFICATION]
    return TrainingOptions(method, task=task, **{n: getattr(settings, n) for n in ALIKE})


class ModelsService(training_pb2_grpc.TrainingServiceServicer):
    """Answers `CreateJob` and `GetAdapter`, and refuses all other calls.

    Args:
        jobs: stores new jobs.
        tenants: authenticates callers.
        bundles: by id, the bundles that examples may be released with.
        backbone: the model for classification jobs.
        decoder: the model for generation jobs, if there is one.
        adapters: sends adapters to devices.
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
        """Return the model that a job trains on."""
        if not options.writes:
            return self._backbone
        if self._decoder is None:
            raise no_decoder()
        return self._decoder.backbone

    def CreateJob(  # noqa: N802 - the wire's names
        self, request: wire.CreateJobRequest, context: grpc.ServicerContext
    ) -> wire.CreateJobResponse:
        """Create a job, or return the earlier job with this request id.

        Raises:
            InvalidInput: see `_options`, `methods.check` and `Jobs.create`.
            NotReady: a method that this cloud cannot run, or generation without a decoder.
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
        """Stream the tenant's adapter to a device."""
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
