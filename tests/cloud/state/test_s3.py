"""What only a bucket can do: be away, keep versions, be half written. On a real server."""

from __future__ import annotations

from pathlib import Path

import obstore
import pytest

from bench.live.s3_server import S3Server
from sottovoce.cloud.state.opening import open_objects
from sottovoce.cloud.state.s3 import S3Objects
from sottovoce.core.errors import DataLoss, Unavailable
from tests.support.buckets import made, read, uses
from tests.support.cut_line import Line


def test_a_large_file_comes_back_as_it_was_and_stays_nowhere(
    bucket: S3Objects, tmp_path: Path
) -> None:
    source = made(tmp_path / "made", facts="f", nothing="")
    (source / "weights").write_bytes(bytes(range(251)) * 80_000)  # three parts
    bucket.put(source, "jobs/a/1/adapter")
    with bucket.at("jobs/a/1/adapter") as folder:
        assert {f.name: f.read_bytes() for f in folder.iterdir()} == {
            f.name: f.read_bytes() for f in source.iterdir()
        }
    assert [*(tmp_path / "fetched").iterdir()] == []


def test_who_dies_while_an_object_is_put_leaves_none(
    bucket: S3Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bucket._put

    def cut(key: str, data: bytes | Path, *, once: bool = False) -> None:
        if key.endswith("weights"):
            raise KeyboardInterrupt
        real(key, data, once=once)

    with monkeypatch.context() as patched:
        patched.setattr(bucket, "_put", cut)
        with pytest.raises(KeyboardInterrupt):
            bucket.put(made(tmp_path / "made", facts="f", weights="w"), "jobs/a/1/adapter")
    assert bucket.within("jobs/a/1/adapter") == ["facts"]
    assert read(bucket, "jobs/a/1/adapter") == {}
    bucket.remove("jobs/a")
    assert bucket.within("jobs") == []


def test_other_bytes_than_were_put_are_noticed(bucket: S3Objects, tmp_path: Path) -> None:
    bucket.put(made(tmp_path / "made", facts="f"), "jobs/a/1/adapter")
    obstore.put(bucket._store, "jobs/a/1/adapter/facts", b"g")
    with pytest.raises(DataLoss):
        read(bucket, "jobs/a/1/adapter")


@pytest.mark.parametrize("instead", ["nothing", "another's"])
def test_what_is_not_there_is_not_believed_of_another_bucket(
    bucket: S3Objects, tmp_path: Path, instead: str
) -> None:
    source = made(tmp_path / "made", f="x")
    bucket.bind("ours", take=True)
    bucket.put(source, "jobs/a/1/adapter")
    bucket.put_secret("a", b"key")
    if instead == "nothing":
        obstore.delete(bucket._store, "objects.id")
    else:
        obstore.put(bucket._store, "objects.id", b"theirs")
    for use in uses(source).values():
        with pytest.raises(Unavailable, match=r"objects\.id"):
            use(bucket)
    obstore.put(bucket._store, "objects.id", b"ours")
    assert read(bucket, "jobs/a/1/adapter") == {"f": "x"}
    assert bucket.secret("a") == b"key"


def test_a_store_that_does_not_answer_is_away(
    bucket: S3Objects, s3_server: S3Server, tmp_path: Path
) -> None:
    source = made(tmp_path / "made", f="x")
    line = Line(s3_server.endpoint.removeprefix("http://"))
    try:
        url = s3_server.new().replace(s3_server.endpoint, f"http://{line.address}")
        objects = open_objects(url, tmp_path)
        objects.bind("ours", take=True)
        objects.put(source, "jobs/a/1/adapter")
    finally:
        line.close()
    for use in uses(source).values():
        with pytest.raises(Unavailable, match="no answer"):
            use(objects)


def test_credentials_that_are_refused_are_not_shown(
    bucket: S3Objects, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    with pytest.raises(Unavailable, match="SignatureDoesNotMatch") as caught:
        open_objects(s3_server.new(), tmp_path).within("jobs")
    told = f"{caught.value} {caught.value.__context__!r}"
    assert not any(secret in str(caught.value) for secret in s3_server.environment.values())
    assert "not-the-secret" not in told
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_bucket_that_keeps_versions_is_given_nothing(
    bucket: S3Objects, s3_server: S3Server, tmp_path: Path
) -> None:
    url = s3_server.new()
    objects = open_objects(url, tmp_path)
    objects.bind("ours", take=True)
    s3_server.keep_versions(url.split("/")[2])
    source = made(tmp_path / "made", f="x")
    for _ in range(2):  # nor when it is tried again
        with pytest.raises(Unavailable, match="old versions"):
            objects.put_secret("a", b"key")
        with pytest.raises(Unavailable, match="old versions"):
            objects.put(source, "jobs/a/1/adapter")
    assert objects.secret("a") is None
    assert read(objects, "jobs/a/1/adapter") == {}
    allowed = open_objects(f"{url}&versions=kept", tmp_path)
    assert allowed.put_secret("a", b"key") == b"key"
