"""What only a bucket can do: be away, keep versions, be half written. On a real server."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
import pytest

from sottovoce.cloud.store import open_objects, s3
from sottovoce.cloud.store.s3 import S3Objects, S3Place, clear, own_folder
from sottovoce.core.errors import ConfigError, DataLoss, Unavailable
from tests.support.buckets import made, read, uses
from tests.support.cut_line import Line
from tests.support.processes import environment
from tests.support.s3_server import S3Server


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


@pytest.mark.parametrize(
    ("key", "content"),
    [
        ("facts", b"g"),
        ("facts", None),
        ("files.json", b"{"),
        ("files.json", b"\xff"),
        ("files.json", b"[]"),
        ("files.json", b"7"),
        ("files.json", b"[" * 100_000),
        ("files.json", b'{"facts": 1}'),
    ],
)
def test_what_is_no_longer_what_was_put_is_named(
    bucket: S3Objects, tmp_path: Path, key: str, content: bytes | None
) -> None:
    bucket.put(made(tmp_path / "made", facts="f"), "jobs/a/1/adapter")
    if content is None:
        obstore.delete(bucket._store, f"jobs/a/1/adapter/{key}")
    else:
        obstore.put(bucket._store, f"jobs/a/1/adapter/{key}", content)
    with pytest.raises(DataLoss, match="jobs/a/1/adapter"):
        read(bucket, "jobs/a/1/adapter")


@pytest.mark.parametrize("name", ["../../stolen", "/stolen", "..", ".", "", "a\0b"])
def test_no_object_is_fetched_into_another_folder(
    bucket: S3Objects, tmp_path: Path, name: str
) -> None:
    if name == "/stolen":
        name = f"{tmp_path}{name}"
    bucket.put(made(tmp_path / "made", facts="f"), "jobs/a/1/adapter")
    listed = json.dumps({name: hashlib.sha256(b"f").hexdigest()}).encode()
    obstore.put(bucket._store, "jobs/a/1/adapter/files.json", listed)
    with pytest.raises(DataLoss, match="jobs/a/1/adapter"):
        read(bucket, "jobs/a/1/adapter")
    assert not [*tmp_path.rglob("stolen")]


def test_a_folder_that_cannot_be_made_is_the_machines_affair(
    bucket: S3Objects, tmp_path: Path
) -> None:
    bucket.put(made(tmp_path / "made", facts="f"), "jobs/a/1/adapter")
    (tmp_path / "fetched").write_text("in the way")
    with pytest.raises(Unavailable, match="File exists") as caught:
        read(bucket, "jobs/a/1/adapter")
    assert "--state" in caught.value.fix
    (tmp_path / "fetched").unlink()
    assert read(bucket, "jobs/a/1/adapter") == {"facts": "f"}


def test_who_fetches_too_many_at_once_waits_and_a_place_comes_back(
    s3_server: S3Server, bucket: S3Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_FETCHES", 2)
    monkeypatch.setattr(s3, "_PATIENCE", 0.01)
    objects = open_objects(s3_server.new(), tmp_path)
    objects.put(made(tmp_path / "made", f="x"), "jobs/a/1/adapter")
    objects.put(made(tmp_path / "more", f="x"), "jobs/b/1/adapter")
    obstore.put(objects._store, "jobs/b/1/adapter/f", b"y")
    for _ in range(3):  # nor is one lost by what fails
        with pytest.raises(DataLoss):
            read(objects, "jobs/b/1/adapter")
    for _ in range(2):
        with objects.at("jobs/a/1/adapter"), objects.at("jobs/a/1/adapter"):
            with pytest.raises(Unavailable, match="too many"):
                read(objects, "jobs/a/1/adapter")
            assert objects.within("jobs") == ["a", "b"], "nothing else waits"
        assert read(objects, "jobs/a/1/adapter") == {"f": "x"}


@pytest.mark.parametrize("instead", ["nothing", "another's"])
def test_what_is_not_there_is_not_believed_of_another_bucket(
    bucket: S3Objects, tmp_path: Path, instead: str
) -> None:
    source = made(tmp_path / "made", f="x")
    ours = bucket.bind("ours", take=True)
    bucket.put(source, "jobs/a/1/adapter")
    bucket.put_secret("a", b"key")
    if instead == "nothing":
        obstore.delete(bucket._store, "objects.id")
    else:
        obstore.put(bucket._store, "objects.id", b"theirs")
    for use in uses(source).values():
        with pytest.raises(Unavailable, match=r"objects\.id"):
            use(bucket)
    obstore.put(bucket._store, "objects.id", ours.encode())
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


def test_a_store_that_takes_calls_and_never_answers_is_away(
    bucket: S3Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_REQUEST", timedelta(milliseconds=100))
    source = made(tmp_path / "made", f="x")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        objects = open_objects(f"s3://bucket/sotto?endpoint={address}", tmp_path)
        for use in (*uses(source).values(), lambda o: o.bind("ours", take=True)):
            with pytest.raises(Unavailable, match="no answer"):
                use(objects)


def test_half_of_the_credentials_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="what is set") as caught:
        S3Objects(S3Place("bucket", secrets={"aws_access_key_id": "hush"}), tmp_path)
    assert "hush" not in str(caught.value)


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
    with pytest.raises(Unavailable, match="old versions"):
        open_objects(url, tmp_path).bind("ours")  # as whatever starts from then on
    allowed = open_objects(f"{url}&versions=kept", tmp_path)
    allowed.bind("ours")
    assert allowed.put_secret("a", b"key") == b"key"


def test_a_store_that_overwrites_what_is_put_once_is_refused(
    bucket: S3Objects, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = obstore.put

    def heedless(*given: Any, **options: Any) -> Any:
        return put(*given, **{**options, "mode": "overwrite"})

    url = s3_server.new()
    open_objects(url, tmp_path).bind("theirs", take=True)
    with monkeypatch.context() as patched:
        patched.setattr(obstore, "put", heedless)
        for store in (bucket, open_objects(url, tmp_path)):
            with pytest.raises(ConfigError):
                store.bind("ours", take=True)
        with pytest.raises(ConfigError, match="If-None-Match"):
            bucket.bind("ours", take=True)
    with pytest.raises(ConfigError, match="not where"):
        bucket.bind("ours")  # it was not taken
    open_objects(url, tmp_path).bind("theirs")


KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hush"}


def test_what_a_url_says() -> None:
    found = S3Place.of("s3://b/some/prefix/?endpoint=https://s3.example.org/&region=eu", KEYS)
    assert (found.bucket, found.prefix, found.plaintext) == ("b", "some/prefix", False)
    assert found.settings() == {"aws_endpoint": "https://s3.example.org", "aws_region": "eu"}
    assert str(found) == "s3://b/some/prefix"
    assert S3Place.of("s3://b", KEYS).settings() == {}


def test_an_endpoint_of_the_environment() -> None:
    environment = {**KEYS, "AWS_ENDPOINT_URL": "https://one.example.org"}
    assert S3Place.of("s3://b", environment).endpoint == "https://one.example.org"
    environment["AWS_ENDPOINT_URL_S3"] = "https://two.example.org"
    assert S3Place.of("s3://b", environment).endpoint == "https://two.example.org"
    found = S3Place.of("s3://b?endpoint=http://localhost:1", environment)
    assert (found.endpoint, found.plaintext) == ("http://localhost:1", True)


@pytest.mark.parametrize("host", ["127.0.0.1:9000", "[::1]:9000", "localhost"])
def test_plain_http_is_for_this_machine(host: str) -> None:
    assert S3Place.of(f"s3://b?endpoint=http://{host}", KEYS).plaintext


def test_plain_http_elsewhere_has_to_be_said() -> None:
    url = "s3://b?endpoint=http://10.0.0.7:9000"
    with pytest.raises(ConfigError, match="plain HTTP"):
        S3Place.of(url, KEYS)
    assert S3Place.of(url, {**KEYS, "AWS_ALLOW_HTTP": "true"}).plaintext


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///prefix",
        "s3://id:hush@bucket",
        "s3://b?endpoint=ftp://x",
        "s3://b?endpoint=hush",
        "s3://b?secret=hush",
        "s3://b?versions=maybe",
        "s3://b#hush",
        "s3://[hush",
        "s3://b c",
        "s3://b%00",
        "s3://b/one//two",
        "s3://b/one/../hush",
        "s3://b/%0a",
        "s3://b?region=hush%0a",
        "s3://b?endpoint=https://",
        "s3://b?endpoint=https://[hush",
        "s3://b?endpoint=https://x:99999",
        "s3://b?endpoint=https://x%20hush",
        "s3://b?endpoint=https://id:hush@x",
        "s3://b?endpoint=https://x?key=hush",
    ],
)
def test_what_is_no_url_is_not_quoted(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        S3Place.of(url, KEYS)
    assert "hush" not in str(caught.value)


def test_the_file_of_credentials(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id = one\naws_secret_access_key = a%b\n"
        "[other]\naws_access_key_id = two\naws_secret_access_key = c\naws_session_token = t\n"
    )
    named = {"AWS_SHARED_CREDENTIALS_FILE": str(file)}
    found = S3Place.of("s3://b", named)
    assert found.settings() == {"aws_access_key_id": "one", "aws_secret_access_key": "a%b"}
    assert "a%b" not in repr(found)
    assert S3Place.of("s3://b", {**named, "AWS_PROFILE": "other"}).secrets == {
        "aws_access_key_id": "two",
        "aws_secret_access_key": "c",
        "aws_session_token": "t",
    }
    assert S3Place.of("s3://b", {**named, **KEYS}).secrets == {}, "the environment goes before"
    with pytest.raises(ConfigError, match="profile"):
        S3Place.of("s3://b", {**named, "AWS_PROFILE": "none"})
    file.write_text("hush hush\n")
    with pytest.raises(ConfigError) as caught:
        S3Place.of("s3://b", named)
    assert "hush" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_an_address_with_a_password_is_refused_wherever_it_stands() -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        with pytest.raises(ConfigError, match="more than an address") as caught:
            S3Place.of("s3://b", {**KEYS, name: "https://id:hush@s3.example.org"})
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize("value", ["hush\n", "hush hush", "h\u00fcsh"])
def test_what_no_request_can_hold_is_refused_by_its_name(tmp_path: Path, value: str) -> None:
    for name in (*KEYS, "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        with pytest.raises(ConfigError, match=name) as caught:
            S3Place.of("s3://b", {**KEYS, name: value})
        assert value.strip() not in str(caught.value)
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = one\naws_secret_access_key = h\u00fc sh\n")
    with pytest.raises(ConfigError, match="credentials"):
        S3Place.of("s3://b", {"AWS_SHARED_CREDENTIALS_FILE": str(file)})


def test_a_file_of_credentials_that_was_named_is_there_and_has_them(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    named = {"AWS_SHARED_CREDENTIALS_FILE": str(file)}
    with pytest.raises(ConfigError, match="credentials"):
        S3Place.of("s3://b", named)
    for text in ("", "[other]\naws_access_key_id = one\n", "[default]\naws_access_key_id = one\n"):
        file.write_text(text)
        with pytest.raises(ConfigError, match="credentials"):
            S3Place.of("s3://b", named)
    file.unlink()
    file.mkdir()
    with pytest.raises(ConfigError, match="credentials"):
        S3Place.of("s3://b", named)


def test_the_usual_file_of_credentials_may_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert S3Place.of("s3://b", {}).secrets == {}, "a machine may have a role"
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[other]\naws_access_key_id = two\n")
    assert S3Place.of("s3://b", {}).secrets == {}


HOLD = """
import sys
from pathlib import Path
from sottovoce.cloud.store.s3 import own_folder
with own_folder(Path(sys.argv[1])) as folder:
    (folder / "weights").write_text("w")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_it_goes_with_the_block(tmp_path: Path) -> None:
    with own_folder(tmp_path / "fetched") as folder:
        (folder / "weights").write_text("w")
        clear(tmp_path / "fetched")
        assert (folder / "weights").exists(), "somebody uses it"
    assert [*(tmp_path / "fetched").iterdir()] == []


def test_what_a_dead_process_left_goes_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    clear(tmp_path)
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().decode().strip())
        clear(tmp_path)
        assert (folder / "weights").exists()
        process.kill()
        process.wait()
    assert (folder / "weights").exists()
    clear(tmp_path)
    assert not folder.exists()


def test_what_has_no_lock_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "weights").write_text("w")
    (tmp_path / "stray").write_text("s")
    clear(tmp_path)
    assert [f.name for f in tmp_path.iterdir()] == ["stray"]


def test_it_is_locked_as_a_share_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def shared(held: int, how: int) -> None:
        """Emulate NFS, which turns locks into byte locks for writers."""
        descriptor = held if isinstance(held, int) else held.fileno()
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", shared)
    with own_folder(tmp_path) as folder:
        clear(tmp_path)
        assert folder.exists()
    assert [*tmp_path.iterdir()] == []


def test_a_disk_that_locks_nothing_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="locks"), own_folder(tmp_path):
        pass
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert [*tmp_path.iterdir()] == []


def test_who_makes_a_folder_while_another_clears_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, cleared = fcntl.flock, []

    def slowly(held: int, how: int) -> None:
        if not cleared:  # between the file and its lock
            cleared.append(True)
            clear(tmp_path)
        lock(held, how)

    monkeypatch.setattr(fcntl, "flock", slowly)
    with own_folder(tmp_path) as folder:
        assert cleared
        clear(tmp_path)
        assert folder.exists()
    assert [*tmp_path.iterdir()] == []
