"""Replicas, fronts and trainers fetch a published bundle by its id."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from sottovoce.cloud.store import bundles, check_objects, open_database
from sottovoce.core.bundle.manifest import MANIFEST, bundle_id
from sottovoce.v1 import bundles_pb2
from tests.support.backbones import tiny_bert
from tests.support.buckets import S3
from tests.support.caller import Caller
from tests.support.cloud import OWN_CONNECTION
from tests.support.processes import environment
from tests.support.tiny_bundle import tiny_bundle


@contextmanager
def running(state: Path, role: str, *options: object, **variables: str) -> Iterator[dict[str, Any]]:
    """Run a process of the cloud; yield its ready line."""
    command = [sys.executable, "-c", "from sottovoce.cloud.cli import main; main()", role]
    command += ["--state", str(state), "--json", *map(str, options)]
    process = subprocess.Popen(
        command, env={**environment(), **variables}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("objects_url", [S3], indirect=True)
def test_each_role_fetches_the_bundle_it_is_given_by_id(tmp_path: Path, objects_url: str) -> None:
    bert, state = tiny_bert(tmp_path / "bert"), tmp_path / "state"
    folder = tiny_bundle(tmp_path / "bundle", bert)
    database = open_database(state, "", objects_url)
    check_objects(database)
    published, _ = bundles.publish(database, folder)
    database.close()
    manifest, large = (folder / MANIFEST).read_bytes(), (folder / "large.bin").read_bytes()
    folder.rename(tmp_path / "elsewhere")
    model = ["--backbone", bert, "--objects", objects_url]
    listen = ["--listen", "127.0.0.1:0", "--objects", objects_url]
    with running(
        state, "replica", *listen, "--backbone", bert, SOTTO_CLOUD_BUNDLE=published.id
    ) as ready:
        assert ready["bundles"] == [published.id]
        with grpc.insecure_channel(ready["address"], OWN_CONNECTION) as channel:
            caller = Caller(channel, ())
            got = caller.bundles.GetManifest(bundles_pb2.GetManifestRequest())
            assert (got.manifest, got.bundle_id) == (manifest, bundle_id(manifest))
            asked = bundles_pb2.FetchFileRequest(path="large.bin")
            assert b"".join(part.chunk for part in caller.bundles.FetchFile(asked)) == large
        with running(state, "front", *listen, "--bundle", published.id[:8]) as ready:
            assert ready["ready"]
        with running(state, "trainer", *model) as ready:
            assert ready["ready"]


@pytest.mark.parametrize("role", ["front", "replica"])
def test_an_id_that_nobody_published_is_told_with_the_fix(tmp_path: Path, role: str) -> None:
    command = [sys.executable, "-c", "from sottovoce.cloud.cli import main; main()"]
    (tmp_path / "cloud.toml").write_text(f'[{role}]\nbundle = "3d19cedd"\n')
    state = ["--state", str(tmp_path / "state"), "--objects", f"file://{tmp_path}/objects"]
    if role == "replica":
        state += ["--backbone", str(tiny_bert(tmp_path / "bert"))]
    done = subprocess.run(
        [*command, "--config", str(tmp_path / "cloud.toml"), role, *state],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "no bundle is published as 3d19cedd" in done.stderr
    assert "bundles publish" in done.stderr
