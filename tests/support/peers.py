"""The cloud that the claims about the wire are held against.

It is the real one, or the stub where there is no torch, as on a device.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import SottovoceError
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.v1 import training_pb2 as training
from tests.support.caller import Caller, credentials
from tests.support.small_bundle import write_small_bundle
from tests.support.stub_cloud import stub_cloud


@dataclass
class Peer:
    """A cloud that serves one bundle and trains on demand."""

    address: str
    bundle: Bundle
    enroll: Callable[[str], str]
    code: Callable[[str, str], str]
    """A one-time code for a device of a tenant, by both their names."""
    work: Callable[[], None]
    """Trains all that is queued."""

    @contextmanager
    def caller(self, tenant: str, token: str | None = None) -> Iterator[Caller]:
        """Yield a tenant; without a token, enrol it first."""
        with grpc.insecure_channel(self.address) as channel:
            yield Caller(channel, credentials(tenant, token or self.enroll(tenant)))


@contextmanager
def peer(folder: Path) -> Iterator[Peer]:
    """A running cloud, all it needs made under ``folder``."""
    with _real(folder) if importlib.util.find_spec("torch") else _stub(folder) as running:
        yield running


@contextmanager
def _stub(folder: Path) -> Iterator[Peer]:
    write_small_bundle(folder / "bundle")
    bundle = Bundle.open(folder / "bundle")
    with stub_cloud(bundle.folder, trains=False) as server:
        yield Peer(server.address, bundle, server.enroll, server.code, server.work)


@contextmanager
def _real(folder: Path) -> Iterator[Peer]:
    from sottovoce.cloud.config import Settings
    from sottovoce.cloud.tenants.credentials import Codes
    from tests.support import decoders
    from tests.support.backbones import tiny_bert
    from tests.support.cloud import cloud
    from tests.support.tiny_bundle import tiny_bundle

    bert = tiny_bert(folder / "bert")
    bundle = tiny_bundle(folder / "bundle", bert)
    settings = Settings(
        folder / "state",
        (bundle,),
        f"unix:{folder}/s.sock",
        str(bert),
        str(decoders.save(folder / "decoder")),
        hand_out_adapters=("ALL",),
    )
    with cloud(settings) as running:
        yield Peer(
            running.server.address,
            Bundle.open(bundle),
            running.server.tenants.enroll,
            Codes(running.server.database).new,
            running.work,
        )


@dataclass(frozen=True)
class Row:
    """An example to upload."""

    text: str
    label: str
    plain_tokens: tuple[str, ...] = ()
    plain_token_ids: tuple[int, ...] = ()
    output: str = ""


TOPICS = {"garden": "tree leaf soil", "kitchen": "bread oven salt", "office": "desk paper file"}
"""Words of each label, which both a tiny encoder and a count of words can tell apart."""


def rows(number: int) -> list[Row]:
    """Return examples that show their label in every word, the labels in turn."""
    labels = list(TOPICS)
    return [Row(TOPICS[labels[i % 3]], labels[i % 3]) for i in range(number)]


def refused(
    call: Callable[[], object], kind: type[SottovoceError], subject: str = ""
) -> SottovoceError:
    """Return the error of a call, checked for kind, code, ``subject`` and fix."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    error = from_rpc_error(caught.value, peer="the cloud")
    assert type(error) is kind
    assert caught.value.code().value[0] == kind.code
    assert error.subject == subject or not subject
    assert error.fix
    return error


def every_call(
    caller: Caller, job_id: str, examples: Sequence[Row]
) -> dict[str, Callable[[], object]]:
    """Every call about a job, by name."""
    stub, metadata = caller.training, caller.metadata
    return {
        "UploadExamples": lambda: caller.upload(job_id, examples),
        "StartJob": lambda: caller.start(job_id, len(examples)),
        "GetJob": lambda: caller.get(job_id),
        "WatchJob": lambda: caller.watch(job_id),
        "CancelJob": lambda: stub.CancelJob(
            training.CancelJobRequest(job_id=job_id), metadata=metadata
        ),
        "ReinstateAdapter": lambda: stub.ReinstateAdapter(
            training.ReinstateAdapterRequest(job_id=job_id), metadata=metadata
        ),
        "DeleteJob": lambda: stub.DeleteJob(
            training.DeleteJobRequest(job_id=job_id), metadata=metadata
        ),
    }
