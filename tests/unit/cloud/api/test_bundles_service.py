"""Several bundles, and files in chunks; the rest `tests/contract/protos` asks of every cloud."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from sottovoce.cloud.config import Settings
from sottovoce.core.bundle.manifest import bundle_id
from sottovoce.v1 import bundles_pb2
from tests.support.backbones import tiny_bert
from tests.support.caller import Caller
from tests.support.cloud import cloud
from tests.support.tiny_bundle import tiny_bundle


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two bundles of one backbone."""
    root = tmp_path_factory.mktemp("cloud")
    bert = tiny_bert(root / "bert")
    return [bert, tiny_bundle(root / "first", bert), tiny_bundle(root / "x", bert, language="de")]


@pytest.fixture(scope="module")
def caller(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """A caller without a tenant: bundles are public."""
    state = tmp_path_factory.mktemp("state")
    settings = Settings(state, tuple(folders[1:]), f"unix:{state}/s.sock", str(folders[0]))
    with cloud(settings) as running, grpc.insecure_channel(running.server.address) as channel:
        yield Caller(channel, ())


def test_the_first_bundle_is_the_default_and_others_go_by_id(
    caller: Caller, folders: list[Path]
) -> None:
    first, second = ((folder / "manifest.json").read_bytes() for folder in folders[1:])
    for asked, data in [("", first), (bundle_id(first), first), (bundle_id(second), second)]:
        got = caller.bundles.GetManifest(bundles_pb2.GetManifestRequest(bundle_id=asked))
        assert (got.bundle_id, got.manifest) == (bundle_id(data), data)
