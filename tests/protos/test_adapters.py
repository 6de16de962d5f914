"""GetAdapter as both clouds keep it: one file, from any offset, to the tenant whose it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput, NotFound, OutOfRange
from sottovoce.core.local.adapter import LocalAdapter
from sottovoce.v1 import training_pb2 as wire
from tests.support.caller import Caller
from tests.support.peers import TOPICS, Peer, refused, rows


@pytest.fixture(scope="module")
def trained(cloud: Peer) -> Iterator[Caller]:
    """A tenant with the adapter "topics"."""
    with cloud.caller("homing") as caller:
        caller.submit(cloud.bundle.id, rows(24))
        cloud.work()
        yield caller


def got(caller: Caller, **asked: object) -> tuple[wire.AdapterFile, bytes]:
    request = wire.GetAdapterRequest(**{"adapter": "topics", **asked})
    first, *rest = caller.training.GetAdapter(request, metadata=caller.metadata)
    assert first.WhichOneof("part") == "file"
    assert all(part.WhichOneof("part") == "chunk" for part in rest)
    assert all(0 < len(part.chunk) <= 256 * 1024 for part in rest)
    return first.file, b"".join(part.chunk for part in rest)


def test_the_file_is_what_the_first_message_says(trained: Caller, tmp_path: Path) -> None:
    file, data = got(trained)
    assert len(data) == file.bytes
    assert hashlib.sha256(data).hexdigest() == file.sha256
    (tmp_path / "a").write_bytes(data)
    assert sorted(LocalAdapter.read(tmp_path / "a").labels) == sorted(TOPICS)


def test_a_download_goes_on_and_one_that_has_all_gets_no_more(trained: Caller) -> None:
    file, data = got(trained)
    assert got(trained, sha256=file.sha256, offset=100) == (file, data[100:])
    assert got(trained, sha256=file.sha256, offset=file.bytes) == (file, b"")


def test_another_version_begins_at_the_start(trained: Caller) -> None:
    file, data = got(trained)
    assert got(trained, sha256="0" * 64, offset=100) == (file, data)


def test_what_cannot_be_is_refused(cloud: Peer, trained: Caller) -> None:
    file, _ = got(trained)
    beyond = {"sha256": file.sha256, "offset": file.bytes + 1}
    refused(lambda: got(trained, **beyond), OutOfRange, "offset")
    refused(lambda: got(trained, adapter="unknown"), NotFound)
    refused(lambda: got(trained, adapter="../topics"), InvalidInput, "adapter")
    with cloud.caller("stranger") as stranger:
        refused(lambda: got(stranger), NotFound)
