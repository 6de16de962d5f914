"""Jobs by the cloud's rules, in memory: what a fake cloud knows of customisation.

The rules are those of the real one, word for word where a device reads them;
`tests/contract/protos` holds both to the same claims. Only what quotas,
disks and backbones add is missing.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sottovoce.core.bundle.manifest import Manifest
from sottovoce.core.errors import BundleMismatch, InvalidInput, NotFound, NotReady, OutOfRange
from sottovoce.core.rpc import training_settings
from sottovoce.core.rpc.limits import FEWEST_PUBLIC
from sottovoce.v1 import training_pb2 as training

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass
class FakeJob:
    """A job of one tenant; ``request`` is what it was created by."""

    tenant: str
    request: training.CreateJobRequest
    message: training.Job
    examples: list[training.PrivatizedExample] = field(default_factory=list)
    learnt: list[training.PrivatizedExample] = field(default_factory=list)
    """All that its adapter has learnt from, of earlier jobs too."""
    deleted: bool = False

    @property
    def ended(self) -> bool:
        return self.message.state >= training.JOB_STATE_SUCCEEDED

    @property
    def writes(self) -> bool:
        return self.message.training.task == training.TASK_GENERATION

    def shown(self) -> training.Job:
        """A copy, as a call answers with it."""
        copied = training.Job()
        copied.CopyFrom(self.message)
        copied.next_sequence = len(self.examples)
        return copied


def check_name(name: str, what: str) -> None:
    """Refuses what is no name for an adapter."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"the {what} name is not valid", fix="use a-z, 0-9", subject=what)


class FakeJobs:
    """All jobs.

    Args:
        served: the id and manifest of the bundle they must have been released with; None for any.
    """

    def __init__(self, served: Callable[[], tuple[str, Manifest] | None]) -> None:
        self.held: dict[str, FakeJob] = {}
        self.lock = threading.RLock()
        self._served = served

    def create(self, tenant: str, request: training.CreateJobRequest) -> FakeJob:
        """A new job, or the one made earlier with the same request id."""
        check_name(request.adapter, "adapter")
        if not 1 <= len(request.request_id) <= 128:
            raise InvalidInput("the request id is missing", fix="send one", subject="request_id")
        training_settings.check(request.training)
        self._check_release(request.release)
        with self.lock:
            for job in self.held.values():
                if (job.tenant, job.request.request_id) == (tenant, request.request_id):
                    if job.deleted or job.request != request:
                        raise InvalidInput(
                            "this request id was used for another job",
                            fix="take a new request id for a new job",
                            subject="request_id",
                        )
                    return job
            message = training.Job(
                id=f"job-{len(self.held)}",
                adapter=request.adapter,
                state=training.JOB_STATE_UPLOADING,
                training=request.training,
                release=request.release,
            )
            message.training.method = message.training.method or training.METHOD_LORA
            message.training.task = message.training.task or training.TASK_CLASSIFICATION
            message.create_time.GetCurrentTime()
            message.update_time.GetCurrentTime()
            self.held[message.id] = FakeJob(tenant, request, message)
            return self.held[message.id]

    def find(self, tenant: str, job_id: str) -> FakeJob:
        """The tenant's job; another's is not there."""
        job = self.held.get(job_id)
        if job is None or job.deleted or job.tenant != tenant:
            raise NotFound(
                "no such job for this tenant", fix="list yours with `sotto status`", subject=job_id
            )
        return job

    def append(self, tenant: str, request: training.UploadExamplesRequest) -> int:
        """Stores one message whole, or nothing of it."""
        with self.lock:
            job = self.find(tenant, request.job_id)
            held, first, sent = len(job.examples), request.first_sequence, list(request.examples)
            fresh = sent[max(0, held - first) :]
            uploading = job.message.state == training.JOB_STATE_UPLOADING
            if not uploading and (fresh or job.message.state == training.JOB_STATE_CANCELLED):
                raise NotReady("takes no more examples", fix="create a new job", subject="state")
            if first > held:
                raise OutOfRange(
                    f"the message starts at {first}, the job expects {held}",
                    fix="go on from next_sequence",
                    subject="first_sequence",
                    metadata={"next_sequence": str(held)},
                )
            repeats = zip(sent, job.examples[first:], strict=False)
            if uploading and any(one.example_id != other.example_id for one, other in repeats):
                raise InvalidInput("sent before otherwise", fix="keep it", subject="example_id")
            ids = {example.example_id for example in job.examples}
            for example in fresh:
                self._check_example(job, example)
                if example.example_id in ids:
                    raise InvalidInput("held already", fix="take ids once", subject="example_id")
                ids.add(example.example_id)
            job.examples += fresh
            return len(job.examples)

    def start(self, tenant: str, job_id: str, total: int) -> bool:
        """Queues the job; False if it was started before."""
        with self.lock:
            job = self.find(tenant, job_id)
            if job.message.state == training.JOB_STATE_CANCELLED:
                raise NotReady("the job was cancelled", fix="create a new job", subject="state")
            if job.message.state != training.JOB_STATE_UPLOADING:
                return False
            if len(job.examples) != total:
                raise NotReady("examples are missing", fix="upload them", subject="examples")
            counts = Counter(example.label for example in job.examples)
            public = counts.pop("", 0)
            if job.message.training.pate and public < FEWEST_PUBLIC:
                raise NotReady("public texts are too few", fix="add some", subject="examples")
            if (total if job.writes else counts.total()) < 8:
                raise NotReady("too few examples", fix="add examples", subject="examples")
            if not job.writes and (len(counts) < 2 or min(counts.values()) < 2):
                raise NotReady("labels are missing", fix="give 2 of each", subject="label")
            job.message.state = training.JOB_STATE_QUEUED
            job.learnt = job.examples
            return True

    def cancel(self, tenant: str, job_id: str) -> FakeJob:
        """Cancels, unless it has ended."""
        with self.lock:
            job = self.find(tenant, job_id)
            if not job.ended:
                job.message.state = training.JOB_STATE_CANCELLED
            return job

    def delete(self, tenant: str, job_id: str) -> None:
        """Forgets the job; its request id stays taken."""
        with self.lock:
            job = self.cancel(tenant, job_id)
            job.deleted = True
            job.examples.clear()

    def page(self, tenant: str, size: int, token: str) -> tuple[Sequence[FakeJob], str]:
        """Jobs, newest first, and the next page's token."""
        if token and not token.isdecimal():
            raise InvalidInput("unknown page token", fix="use none", subject="page_token")
        with self.lock:
            last = int(token) if token else len(self.held)
            numbered = list(enumerate(self.held.values()))[:last][::-1]
        found = [(n, job) for n, job in numbered if job.tenant == tenant and not job.deleted]
        size = min(size or 50, 200)
        more = str(found[size - 1][0]) if len(found) > size else ""
        return [job for _, job in found[:size]], more

    def _check_release(self, release: training.ReleaseSettings) -> None:
        served = self._served()
        if served is None:
            return
        bundle_id, manifest = served
        if release.bundle_id != bundle_id:
            raise BundleMismatch(
                "released with a bundle this cloud does not serve",
                fix="fetch the current one with `sotto pull HOST:PORT` and customise again",
                subject="bundle_id",
            )
        wrong = ""
        if release.mechanism not in manifest.calibration:
            wrong, fix = (
                "release.mechanism",
                f"use one of: {', '.join(sorted(manifest.calibration))}",
            )
        elif not 0.0 < release.eta < math.inf:
            wrong, fix = "release.eta", "give a finite number above 0"
        if wrong:
            raise InvalidInput(f"{wrong} is out of range", fix=fix, subject=wrong)

    def _check_example(self, job: FakeJob, example: training.PrivatizedExample) -> None:
        plain, ids = example.released_plain_tokens, example.plain_token_ids
        counted = job.message.training.plain_tokens
        served = self._served()
        words = served[1].words if served is not None else math.inf
        wrong = ""
        if not 1 <= len(example.example_id) <= 64:
            wrong = "example_id"
        elif not example.released_text.strip():
            wrong = "released_text"
        elif job.writes and example.label:
            wrong = "label"
        elif bool(example.released_output.strip()) != job.writes:
            wrong = "released_output"
        elif (
            not (example.label or job.writes or job.message.training.pate)
            or len(example.label) > 256
        ):
            wrong = "label"
        elif len(plain) != counted or len(ids) != counted or max(ids, default=0) >= words:
            wrong = "plain_token_ids"
        elif any(not 1 <= len(token) <= 256 for token in plain):
            wrong = "released_plain_tokens"
        if wrong:
            raise InvalidInput(f"{wrong} is not valid", fix="mend it", subject=wrong)
