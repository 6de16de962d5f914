"""GetAdapter: one file, from any offset, for its own tenant."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from sottovoce.core.bundle.adapter import LocalAdapter
from sottovoce.core.errors import InvalidInput, NotFound, NotReady, OutOfRange
from sottovoce.v1 import training_pb2 as wire
from tests.support.caller import Caller
from tests.support.peers import TOPICS, Peer, Row, refused, rows


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


def versions(caller: Caller, number: int, *adapters: str) -> list[tuple[str, str]]:
    """Take a number of messages from an endless stream."""
    request = wire.WatchAdaptersRequest(adapters=adapters)
    stream = caller.training.WatchAdapters(request, metadata=caller.metadata, timeout=60)
    said = [(one.adapter, one.version) for one in islice(stream, number)]
    stream.cancel()
    return said


def test_versions_are_said_at_once_and_when_they_change(cloud: Peer) -> None:
    with cloud.caller("watching") as caller:
        caller.submit(cloud.bundle.id, rows(24))
        cloud.work()
        ((name, first),) = versions(caller, 1, "not-yet", "topics")
        assert name == "topics"
        request = wire.WatchAdaptersRequest(adapters=["topics"])
        stream = caller.training.WatchAdapters(request, metadata=caller.metadata, timeout=60)
        assert next(stream).version == first
        caller.submit(cloud.bundle.id, rows(12), training={"continues": True})
        cloud.work()
        assert next(stream).version not in ("", first)
        stream.cancel()


def test_others_adapters_are_not_watched(cloud: Peer, trained: Caller) -> None:
    with cloud.caller("onlooker") as caller:
        caller.submit(cloud.bundle.id, rows(24), adapter="own")
        cloud.work()
        assert [name for name, _ in versions(caller, 1, "topics", "own")] == ["own"]
        refused(lambda: versions(caller, 1), InvalidInput, "adapters")
        refused(lambda: versions(caller, 1, "../own"), InvalidInput, "adapter")
        refused(lambda: versions(caller, 1, *map(str, range(33))), InvalidInput, "adapters")


def test_training_goes_on_from_the_adapter(cloud: Peer) -> None:
    with cloud.caller("adding") as caller:
        caller.submit(cloud.bundle.id, rows(24))
        cloud.work()
        before, _ = got(caller)
        # Of two labels only: the third is known from before.
        added = [Row(f"{row.text} river", row.label) for row in rows(36) if row.label != "office"]
        job = caller.submit(cloud.bundle.id, added, training={"continues": True, "epochs": 1})
        cloud.work()
        assert caller.get(job).state == wire.JOB_STATE_SUCCEEDED
        after, data = got(caller)
        assert after.sha256 != before.sha256
        assert all(label.encode() in data for label in TOPICS)


def test_what_cannot_be_gone_on_from_is_refused(cloud: Peer, acme: Caller) -> None:
    on = {"continues": True}
    bundle = cloud.bundle.id
    refused(lambda: acme.create(bundle, training=on), NotReady, "adapter")
    acme.submit(bundle, rows(24))
    cloud.work()
    prompt = {**on, "method": wire.METHOD_PROMPT_TUNING}
    refused(lambda: acme.create(bundle, training=prompt), NotReady, "training.method")
    private = {**on, "dp_epsilon": 1.0}
    refused(lambda: acme.create(bundle, training=private), InvalidInput, "training.dp_epsilon")
    stranger = [*rows(12), Row("moon", "sky"), Row("star", "sky")]
    refused(lambda: acme.submit(bundle, stranger, training=on), NotReady, "label")
