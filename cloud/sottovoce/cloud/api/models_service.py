"""The training calls that need a model: job creation, and adapters for devices.

A job that cannot be trained is refused before the upload, and only a process with the models can
check this. These calls are part of the service in `training_service`. The models themselves are
behind two functions, so this module loads no torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NoReturn

import grpc

from sottovoce.cloud.api.authentication import Admission
from sottovoce.cloud.api.bundles_service import released_with
from sottovoce.cloud.api.training_service import ALIKE, job_message
from sottovoce.cloud.config import EVERY_TENANT, check_name
from sottovoce.cloud.job import Release, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.store.adapters import AdapterFiles, with_files
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.tenants.credentials import Scope
from sottovoce.core.bundle.adapter import LocalAdapter
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput, NotReady, OutOfRange
from sottovoce.core.rpc import training_settings
from sottovoce.core.rpc.limits import LARGEST_ADAPTER
from sottovoce.core.rpc.training_settings import METHODS, TASKS
from sottovoce.v1 import training_pb2 as wire
from sottovoce.v1 import training_pb2_grpc

CHUNK: Final = 256 * 1024
CALLS, CALLS_PER_TENANT = 16, 4
"""Open calls at once; each holds one adapter in memory."""


def stays_here() -> NotReady:
    """Return the error for a tenant that may not download adapters."""
    return NotReady(
        "this provider does not hand out adapters",
        fix="have the cloud answer with --where cloud, or ask the provider, who allows it with "
        "`sotto-cloud serve --hand-out-adapters`",
        subject="adapter",
    )


_METHODS = {number: name for name, number in METHODS.items()}
_TASKS = {number: name for name, number in TASKS.items()}


def _options(settings: wire.TrainingSettings) -> TrainingOptions:
    training_settings.check(settings)
    method = _METHODS[settings.method or wire.METHOD_LORA]
    task = _TASKS[settings.task or wire.TASK_CLASSIFICATION]
    return TrainingOptions(method, task=task, **{n: getattr(settings, n) for n in ALIKE})


class ModelsService(training_pb2_grpc.TrainingServiceServicer):
    """Answers `CreateJob` and `GetAdapter`, and refuses all other calls.

    Args:
        bundles: by id, the bundles that examples may be released with.
        check: refuses options that this cloud's models cannot train.
        read: returns an adapter in the form that devices run.
        handed_out: tenants that may download adapters, or `EVERY_TENANT`.
    """

    def __init__(
        self,
        jobs: Jobs,
        tenants: Tenants,
        bundles: Mapping[str, Bundle],
        check: Callable[[TrainingOptions], None],
        read: Callable[[AdapterFiles], LocalAdapter],
        handed_out: Collection[str],
    ) -> None:
        self._jobs = jobs
        self._tenants = tenants
        self._bundles = bundles
        self._check = check
        self._read = read
        self._handed_out = frozenset(handed_out)
        self._admission = Admission(calls=CALLS, per_tenant=CALLS_PER_TENANT)

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
        self._check(options)
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
        """Stream the adapter's description, then its bytes from the caller's offset on.

        Raises:
            NotReady: this tenant may not download adapters, or devices cannot run this one.
            NotFound: no adapter of that name. OutOfRange: an offset past the end.
            InvalidInput: no name.
        """
        tenant = self._tenants.admit(context.invocation_metadata(), Scope.TRAIN, Scope.PREDICT)
        check_name(request.adapter, "adapter")
        if not self._handed_out & {tenant, EVERY_TENANT}:
            raise stays_here()
        with self._admission.admitted(tenant):
            adapter = with_files(self._jobs.database, tenant, request.adapter, self._read)
            data = adapter.to_bytes()
            if len(data) > LARGEST_ADAPTER:
                raise NotReady(
                    f"this adapter has {len(data)} bytes, and devices take {LARGEST_ADAPTER}",
                    fix="have the cloud answer with --where cloud, or customise with a lower rank "
                    "or fewer virtual tokens",
                    subject="adapter",
                )
            digest = hashlib.sha256(data).hexdigest()
            start = request.offset if request.sha256 == digest else 0
            if start > len(data):
                raise OutOfRange(
                    f"offset {start} lies past the end at {len(data)}",
                    fix="delete the partial file and start at 0",
                    subject="offset",
                    metadata={"bytes": str(len(data))},
                )
            yield wire.GetAdapterResponse(file=wire.AdapterFile(sha256=digest, bytes=len(data)))
            for place in range(start, len(data), CHUNK):
                yield wire.GetAdapterResponse(chunk=data[place : place + CHUNK])


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
