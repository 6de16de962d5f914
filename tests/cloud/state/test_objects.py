"""Objects are whole or not there, and what reads them changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sottovoce.cloud.state.objects import FileObjects, Objects, copy_files
from sottovoce.cloud.state.opening import open_objects
from sottovoce.core.errors import ConfigError


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    """In a folder."""
    return FileObjects(tmp_path / "kept")


def made(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def read(objects: Objects, name: str) -> dict[str, str]:
    """What lies under a name."""
    with objects.at(name) as folder:
        return {f.name: f.read_text() for f in folder.iterdir()} if folder.is_dir() else {}


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


def test_who_dies_while_an_object_is_put_leaves_none(
    objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(source: Path, to: Path) -> None:
        copy_files(source, to)
        raise KeyboardInterrupt

    monkeypatch.setattr("sottovoce.cloud.state.objects.copy_files", cut)
    with pytest.raises(KeyboardInterrupt):
        objects.put(made(tmp_path / "made", f="x"), "jobs/a/1/adapter")
    assert read(objects, "jobs/a/1/adapter") == {}


def test_files_on_another_disk_are_copied(
    objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refused)
    objects.put(made(tmp_path / "made", f="x"), "jobs/a/1/adapter")
    assert read(objects, "jobs/a/1/adapter") == {"f": "x"}


def test_urls(tmp_path: Path) -> None:
    assert open_objects("", tmp_path).place("a") == tmp_path / "a"
    assert open_objects("file:///srv/a%20b", tmp_path).place("c") == Path("/srv/a b/c")
    for wrong in ("/srv", "file://host/srv", "file:///", "http://x/y", "s4://bucket"):
        with pytest.raises(ConfigError, match="--objects"):
            open_objects(wrong, tmp_path)
