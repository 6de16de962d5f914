"""The cloud's world for `damage`: a bundle, and a state with an adapter and half a job.

Afterwards a device pulls the bundle and asks for a prediction. The job must end with the adapter of
an undisturbed job.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import grpc

from soak.campaign.damage import World
from sottovoce.cloud.config import Settings
from sottovoce.cloud.job import State
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store.adapters import locate
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.training.worker import Worker
from sottovoce.core.bundle.manifest import Manifest
from sottovoce.core.errors import DataLoss, SottovoceError
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.v1 import bundles_pb2, inference_pb2
from tests.support import cloud as clouds
from tests.support import killed_jobs
from tests.support.backbones import tiny_bert
from tests.support.caller import Caller
from tests.support.examples import RELEASE, WORDS
from tests.support.tiny_bundle import tiny_bundle

_HALF: Final = "others"
_ROW: Final = "a value in a row, for which SQLite does not vouch"
_STEPS: Final = 14
_BESIDE: Final = "acme.lock"
"""Files of the tenant's device, which the cloud cannot lose."""


def cloud() -> World:
    """Run a cloud with its tiny backbone and its tenant's token beside it."""
    return World(_make, _asked, {"sottovoce.db": _ROW, "sottovoce.db-wal": _ROW})


def _make(world: Path) -> None:
    world.mkdir()
    bert = tiny_bert(world.parent / "bert")
    tiny_bundle(world / "bundle", bert)
    state = world / "state"
    killed_jobs.queue(state)
    assert killed_jobs.work(state, str(bert))[0] == 0
    database = SqliteDatabase(state)
    jobs = Jobs(database)
    job = jobs.create("acme", _HALF, _HALF, killed_jobs.OPTIONS, RELEASE)
    rows = [Upload(f"e{number}", row) for number, row in enumerate(killed_jobs.ROWS)]
    append(jobs, job.id, "acme", 0, rows, len(WORDS))
    jobs.start(job.id, "acme", len(rows))
    (world / _BESIDE).write_text(Tenants(database).renew("acme"))
    database.close()
    killed_jobs.work(state, str(bert), ("step", _STEPS))
    with clouds.cloud(_settings(world)):
        pass  # which makes its key


def _settings(world: Path) -> Settings:
    return Settings(
        world / "state",
        (world / "bundle",),
        f"unix:{world}/cloud.sock",
        str(world.parent / "bert"),
        trainer=False,
    )


def _asked(world: Path) -> tuple[bytes, ...]:
    settings = _settings(world)
    with (
        clouds.cloud(settings) as running,
        running.caller("acme", (world / _BESIDE).read_text()) as caller,
    ):
        try:
            told = (_pulled(caller), _predicted(caller))
        except grpc.RpcError as error:
            raise from_rpc_error(error, peer="the cloud") from error
    return *told, _finished(settings)


def _pulled(caller: Caller) -> bytes:
    """Of the bundle and its signature, as a device checks them."""
    answer = caller.bundles.GetManifest(bundles_pb2.GetManifestRequest())
    found = hashlib.sha256(answer.manifest + answer.public_key + answer.signature)
    for path, stored in Manifest.from_json(answer.manifest).files.items():
        asked = bundles_pb2.FetchFileRequest(bundle_id=answer.bundle_id, path=path)
        data = b"".join(part.chunk for part in caller.bundles.FetchFile(asked))
        if hashlib.sha256(data).hexdigest() != stored.sha256:
            raise DataLoss(f"a device refuses {path}")  # as `pull` does
        found.update(data)
    return found.digest()


def _predicted(caller: Caller) -> bytes:
    asked = inference_pb2.InferenceServicePredictRequest(
        adapter="topics", released_text="the oven was very salt", bundle_id=RELEASE.bundle_id
    )
    answer = caller.inference.Predict(asked, metadata=caller.metadata)
    return bytes(answer.SerializeToString(deterministic=True))


def _finished(settings: Settings) -> bytes:
    worker = Worker(settings.state, settings.backbone, owner="worker")
    try:
        while worker.run_next():
            pass
        for job in Jobs(worker.database).page("acme")[0]:
            if job.state != State.SUCCEEDED:
                kind = SottovoceError if "internal" in job.message else DataLoss
                raise kind(job.message or str(job.state))
        return locate(worker.database, "acme", _HALF).sha256.encode()
    finally:
        worker.database.close()
