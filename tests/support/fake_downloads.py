"""What a fake cloud sends of an adapter: one that counted the words it was taught."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

from sottovoce.core.errors import InvalidInput, NotFound, NotReady, OutOfRange
from sottovoce.v1 import training_pb2 as training
from tests.support.fake_jobs import FakeJob, check_name
from tests.support.plain_encoder import counted

CHUNK = 512


class FakeDownloads:
    """The part of a fake cloud that hands out adapters."""

    def GetAdapter(self, request, context):  # noqa: N802
        tenant = self._tenant(context)
        check_name(request.adapter, "adapter")
        self._refuse("GetAdapter")
        job = self.adapters.get((tenant, request.adapter))
        if job is None:
            raise NotFound("no such adapter for this tenant", fix="train one", subject="adapter")
        served = self._served()
        sha256 = served[1].backbone.sha256 if served else "0" * 64
        for message in _parts(job, sha256, request, altered=self.altered == "adapter"):
            self._cut(len(message.chunk))
            self.fetched["adapter"] += len(message.chunk)
            yield message

    def WatchAdapters(self, request, context):  # noqa: N802
        tenant = self._tenant(context)
        if not 0 < len(request.adapters) <= 32:
            raise InvalidInput("none, or too many", fix="name some", subject="adapters")
        for name in request.adapters:
            check_name(name, "adapter")
        self._refuse("WatchAdapters")
        self.watched.append(list(request.adapters))
        said = {}
        while context.is_active():
            for name in request.adapters:
                job = self.adapters.get((tenant, name))
                if job is not None and said.get(name) != job.message.id:
                    said[name] = job.message.id
                    yield training.WatchAdaptersResponse(adapter=name, version=job.message.id)
            time.sleep(0.05)

    def _has_learnt(self, job: FakeJob) -> None:
        """It counts words: what was counted before counts on."""
        name = job.tenant, job.message.adapter
        if job.message.training.continues:
            job.learnt = self.adapters[name].learnt + job.learnt
        self.adapters[name] = job

    def _check_added(self, job: FakeJob) -> None:
        labels = {example.label for example in job.examples}
        self._check_base(job.tenant, job.message.adapter, job.message.training, labels)

    def _check_base(self, tenant: str, adapter: str, settings, labels=frozenset()) -> None:
        if not settings.continues:
            return
        base = self.adapters.get((tenant, adapter))
        if base is None:
            raise NotReady("there is no adapter to go on from", fix="train", subject="adapter")
        if (settings.method or training.METHOD_LORA) != base.message.training.method:
            raise NotReady("another method", fix="keep it", subject="training.method")
        if labels - {example.label for example in base.learnt}:
            raise NotReady("does not know a label", fix="train anew", subject="label")


def _parts(
    job: FakeJob, backbone_sha256: str, request: training.GetAdapterRequest, *, altered: bool
) -> Iterator[training.GetAdapterResponse]:
    """The stream that answers ``request``; ``altered`` flips a bit of every byte."""
    pairs = [(example.released_text, example.label) for example in job.learnt]
    data = counted(pairs, backbone_sha256).to_bytes()
    digest = hashlib.sha256(data).hexdigest()
    start = request.offset if request.sha256 == digest else 0
    if start > len(data):
        raise OutOfRange("past the end", fix="start at 0", subject="offset")
    yield training.GetAdapterResponse(file=training.AdapterFile(sha256=digest, bytes=len(data)))
    if altered:
        data = bytes(b ^ 1 for b in data)
    for place in range(start, len(data), CHUNK):
        yield training.GetAdapterResponse(chunk=data[place : place + CHUNK])
