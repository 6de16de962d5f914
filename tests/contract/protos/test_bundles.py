"""bundles.proto: exact bytes, from any offset, of the bundle's files alone."""

from __future__ import annotations

import pytest

from sottovoce.core.bundle.manifest import bundle_id
from sottovoce.core.bundle.signature import Signature
from sottovoce.core.errors import NotFound, OutOfRange
from sottovoce.v1 import bundles_pb2 as wire
from tests.support.caller import Caller
from tests.support.peers import Peer, refused

LARGEST_CHUNK = 256 * 1024


@pytest.fixture
def largest(cloud: Peer) -> str:
    """The name of a file of several chunks."""
    files = cloud.bundle.manifest.files
    return max(files, key=lambda name: files[name].bytes)


def fetch(caller: Caller, path: str, offset: int = 0, identity: str = "") -> list[bytes]:
    request = wire.FetchFileRequest(bundle_id=identity, path=path, offset=offset)
    return [part.chunk for part in caller.bundles.FetchFile(request)]


def test_the_manifest_comes_as_its_exact_bytes(cloud: Peer, acme: Caller) -> None:
    data = (cloud.bundle.folder / "manifest.json").read_bytes()
    for asked in ("", bundle_id(data)):
        got = acme.bundles.GetManifest(wire.GetManifestRequest(bundle_id=asked))
        assert (got.bundle_id, got.manifest) == (bundle_id(data), data)
        Signature.of(got.public_key, got.signature).check(data)


def test_a_file_comes_whole_from_any_offset(cloud: Peer, acme: Caller, largest: str) -> None:
    data = (cloud.bundle.folder / largest).read_bytes()
    chunks = fetch(acme, largest)
    assert len(chunks) > 1
    first = len(chunks[0])
    for offset in (0, 1, first - 1, first, len(data) - 1, len(data)):
        chunks = fetch(acme, largest, offset, cloud.bundle.id)
        assert b"".join(chunks) == data[offset:]
        assert all(len(chunk) <= LARGEST_CHUNK for chunk in chunks)


def test_an_offset_past_the_end_is_out_of_range(cloud: Peer, acme: Caller, largest: str) -> None:
    size = cloud.bundle.manifest.files[largest].bytes
    error = refused(lambda: fetch(acme, largest, size + 1), OutOfRange, "offset")
    assert error.metadata["bytes"] == str(size)


@pytest.mark.parametrize("path", ["manifest.json", "../s.sock", "/etc/passwd", "", "none.npy"])
def test_only_files_the_manifest_names_leave(acme: Caller, path: str) -> None:
    refused(lambda: fetch(acme, path), NotFound, "path")


def test_an_unknown_bundle_names_the_fix(acme: Caller) -> None:
    asked = wire.GetManifestRequest(bundle_id="0" * 16)
    for call in (
        lambda: acme.bundles.GetManifest(asked),
        lambda: fetch(acme, "words.txt", identity="0" * 16),
    ):
        assert "sotto pull" in refused(call, NotFound, "bundle_id").fix
