"""Objects are whole or not there, and what reads them changes nothing."""

from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import obstore
import pytest

from sottovoce.cloud.store import open_objects
from sottovoce.cloud.store.objects import FileObjects, Objects, copy_files
from sottovoce.core.errors import ConfigError, Unavailable
from tests.support.buckets import BOTH, FILES, made, read, uses


@pytest.fixture(params=BOTH)
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    """In a folder or a bucket."""
    if request.param == FILES:
        return FileObjects(tmp_path / "kept")
    return cast(Objects, request.getfixturevalue("bucket"))


@pytest.fixture
def folder(tmp_path: Path) -> Objects:
    """In a folder."""
    return FileObjects(tmp_path / "kept")


def test_what_was_put_is_there_under_its_name_alone(objects: Objects, tmp_path: Path) -> None:
    source = made(tmp_path / "made", weights="w", facts="f")
    objects.put(source, "jobs/a/1/adapter")
    objects.put(made(tmp_path / "other", weights="o"), "jobs/a/2/checkpoints/1")
    assert read(objects, "jobs/a/1/adapter") == {"weights": "w", "facts": "f"}
    assert read(objects, "jobs/a/2/checkpoints/1") == {"weights": "o"}
    assert read(objects, "jobs/a/2/adapter") == {}
    assert objects.within("jobs/a") == ["1", "2"]
    assert objects.within("jobs/none") == []
    assert sorted(f.name for f in source.iterdir()) == ["facts", "weights"], "the source stays"


def test_a_source_that_is_written_anew_leaves_the_object_as_it_was(
    objects: Objects, tmp_path: Path
) -> None:
    source = made(tmp_path / "made", last="one")
    objects.put(source, "jobs/a/1/checkpoints/1")
    (tmp_path / "aside").write_text("two")
    os.replace(tmp_path / "aside", source / "last")  # as checkpoints are written
    objects.put(source, "jobs/a/1/checkpoints/2")
    kept = [read(objects, f"jobs/a/1/checkpoints/{n}") for n in (1, 2)]
    assert kept == [{"last": "one"}, {"last": "two"}]


def test_what_goes_is_all_below_a_name_and_nothing_else(objects: Objects, tmp_path: Path) -> None:
    for name in ("jobs/a/1/adapter", "jobs/a/2/adapter", "jobs/ab/1/adapter"):
        objects.put(made(tmp_path / name.replace("/", "-"), f="x"), name)
    objects.remove("jobs/a")
    objects.remove("jobs/a")
    assert [read(objects, f"jobs/{n}/adapter") for n in ("a/1", "a/2")] == [{}, {}]
    assert read(objects, "jobs/ab/1/adapter") == {"f": "x"}


def test_a_file_comes_back_from_any_place(objects: Objects, tmp_path: Path) -> None:
    source, content = tmp_path / "rows", bytes(range(251)) * 80_000  # three parts of a bucket's
    source.write_bytes(content)
    assert objects.size("bundles/a/deep/rows") is None
    assert [*objects.pieces("bundles/a/deep/rows", 0)] == []
    objects.put_file(source, "bundles/a/deep/rows")
    assert source.read_bytes() == content
    assert objects.size("bundles/a/deep/rows") == len(content)
    for begin in (0, 1, 9 << 20, len(content) - 1, len(content), len(content) + 1):
        assert b"".join(objects.pieces("bundles/a/deep/rows", begin)) == content[begin:]
    with source.open("r+b") as changed:
        changed.write(b"another")
    assert next(objects.pieces("bundles/a/deep/rows", 0))[:7] == content[:7], "it is a copy"
    objects.remove("bundles/a")
    assert objects.size("bundles/a/deep/rows") is None


def test_who_dies_while_a_file_is_put_again_disturbs_nobody(
    objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "rows").write_bytes(b"r" * 1000)
    objects.put_file(tmp_path / "rows", "bundles/a/rows")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", cut)
        patched.setattr(obstore, "put", cut)
        with pytest.raises(KeyboardInterrupt):
            objects.put_file(tmp_path / "rows", "bundles/a/rows")
    assert objects.size("bundles/a/rows") == 1000
    with ThreadPoolExecutor(4) as threads:
        puts = [
            threads.submit(objects.put_file, tmp_path / "rows", "bundles/a/rows") for _ in range(4)
        ]
        assert [put.result() for put in puts] == [None] * 4
    assert objects.within("bundles/a") == ["rows"]


def test_who_dies_while_a_file_is_put_leaves_none(
    folder: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(source: Path, to: Path) -> None:
        to.write_bytes(b"half")
        raise KeyboardInterrupt

    (tmp_path / "rows").write_bytes(b"rows")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", cut)
        with pytest.raises(KeyboardInterrupt):
            folder.put_file(tmp_path / "rows", "bundles/a/rows")
    assert folder.size("bundles/a/rows") is None


def test_who_dies_while_an_object_is_put_leaves_none(
    folder: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(source: Path, to: Path) -> None:
        copy_files(source, to)
        raise KeyboardInterrupt

    monkeypatch.setattr("sottovoce.cloud.store.objects.copy_files", cut)
    with pytest.raises(KeyboardInterrupt):
        folder.put(made(tmp_path / "made", f="x"), "jobs/a/1/adapter")
    assert read(folder, "jobs/a/1/adapter") == {}


def test_files_on_another_disk_are_copied(
    folder: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refused)
    folder.put(made(tmp_path / "made", f="x"), "jobs/a/1/adapter")
    assert read(folder, "jobs/a/1/adapter") == {"f": "x"}


@pytest.mark.parametrize("instead", ["an empty mount point", "another's objects", "no folder"])
def test_what_is_not_there_is_not_believed_of_a_store_that_is_away(
    folder: Objects, tmp_path: Path, instead: str
) -> None:
    source = made(tmp_path / "made", f="x")
    folder.bind("ours", take=True)
    folder.put(source, "jobs/a/1/adapter")
    folder.put_secret("a", b"key")
    kept, away = tmp_path / "kept", tmp_path / "away"
    kept.rename(away)
    if instead != "no folder":
        kept.mkdir()
    if instead == "another's objects":
        FileObjects(kept).bind("theirs", take=True)
    for use in uses(source).values():
        with pytest.raises(Unavailable, match=r"objects\.id") as caught:
            use(folder)
        assert "mount" in caught.value.fix
    for file in kept.glob("*"):
        file.unlink()
    away.rename(kept)
    assert read(folder, "jobs/a/1/adapter") == {"f": "x"}
    assert folder.secret("a") == b"key"


def test_a_share_that_answers_with_errors_is_away(
    folder: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = made(tmp_path / "made", f="x")
    folder.put(source, "jobs/a/1/adapter")
    folder.put_secret("a", b"key")

    def stale(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as patched:
        for owner, name in (
            (os, "listdir"),
            (Path, "lstat"),
            (Path, "mkdir"),
            (Path, "open"),
            (Path, "read_bytes"),
            (Path, "iterdir"),
            (Path, "stat"),
            (Path, "touch"),
        ):
            patched.setattr(owner, name, stale)
        for use in uses(source).values():
            with pytest.raises(Unavailable, match="Stale"):
                use(folder)
    assert folder.secret("a") == b"key"


def test_what_fails_beside_an_object_is_not_laid_to_the_store(
    objects: Objects, tmp_path: Path
) -> None:
    objects.put(made(tmp_path / "made", f="x"), "jobs/a/1/adapter")
    with pytest.raises(FileNotFoundError), objects.at("jobs/a/1/adapter"):
        (tmp_path / "none" / "copy").write_text("x")


def test_a_folder_that_goes_away_while_it_is_read_is_away(folder: Objects, tmp_path: Path) -> None:
    folder.bind("ours", take=True)
    folder.put(made(tmp_path / "made", f="x"), "jobs/a/1/adapter")

    def read_on() -> None:
        with folder.at("jobs/a/1/adapter") as files:
            (tmp_path / "kept").rename(tmp_path / "away")
            (files / "f").read_text()

    with pytest.raises(Unavailable, match=r"objects\.id"):
        read_on()


def test_what_cannot_be_removed_is_not_called_gone(
    objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.put(made(tmp_path / "made", f="x"), "jobs/a/1/adapter")
    with monkeypatch.context() as patched:  # as a lock on them, or another's folder
        patched.setattr(obstore, "delete", lambda *_: None)
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(Unavailable, match="cannot be removed"):
            objects.remove("jobs/a")
    objects.remove("jobs/a")
    assert objects.within("jobs") == []


def test_of_several_keys_that_are_put_the_first_stays(objects: Objects) -> None:
    assert objects.put_secret("a", b"one") == b"one"
    assert objects.put_secret("a", b"two") == b"one", "as one would who was asleep"
    assert objects.secret("a") == b"one"
    objects.destroy_secret("a")
    objects.destroy_secret("a")
    assert objects.secret("a") is None
    with ThreadPoolExecutor(6) as threads:
        got = set(threads.map(lambda n: objects.put_secret("b", b"%d" % n), range(6)))
    assert got == {objects.secret("b")}
    assert objects.secrets() == [("b", "b")]


def test_a_key_that_is_half_put_is_seen(folder: Objects, tmp_path: Path) -> None:
    folder.put_secret("a", b"one")
    (tmp_path / "kept" / "keys" / ".b.0123").write_bytes(b"half")
    assert folder.secrets() == [("b", ".b.0123"), ("a", "a")]
    folder.destroy_secret(".b.0123")
    assert folder.secrets() == [("a", "a")]


def test_they_are_one_databases(objects: Objects) -> None:
    with pytest.raises(ConfigError, match="not where"):
        objects.bind("ours")
    taken = objects.bind("ours", take=True)
    assert {objects.bind("ours", take=True), objects.bind("ours"), objects.bind(taken)} == {taken}
    with pytest.raises(ConfigError, match="not where"):
        objects.bind("our")
    with pytest.raises(ConfigError, match="another database's"):
        objects.bind("theirs", take=True)
    with pytest.raises(ConfigError, match="not where"):
        objects.bind("theirs")
    objects.leave()
    assert objects.bind("theirs", take=True) != taken


def test_what_one_began_to_put_is_in_the_way_of_no_second_try(
    objects: Objects, tmp_path: Path
) -> None:
    objects.put(made(tmp_path / "one", f="x", more="y"), "jobs/a/1/adapter")
    objects.put(made(tmp_path / "two", f="z"), "jobs/a/1/adapter")
    assert read(objects, "jobs/a/1/adapter") == {"f": "z"}


def test_urls(tmp_path: Path) -> None:
    assert open_objects("", tmp_path).place("a") == tmp_path / "a"
    assert open_objects("file:///srv/a%20b", tmp_path).place("c") == Path("/srv/a b/c")
    for wrong in (
        "/srv",
        "file://host/srv",
        "file:///",
        "http://x/y",
        "s4://bucket",
        "s3://",
        "file://[",
        "file:///%00",
    ):
        with pytest.raises(ConfigError, match="--objects"):
            open_objects(wrong, tmp_path)
