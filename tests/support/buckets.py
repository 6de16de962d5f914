"""Objects of either kind, for tests that hold for both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import obstore
import pytest

from sottovoce.cloud.store.objects import Objects
from sottovoce.cloud.store.s3 import S3Objects

FILES, S3 = "files", "s3"

BOTH = (FILES, pytest.param(S3, marks=pytest.mark.server))

on_both_objects = pytest.mark.parametrize("objects_url", BOTH, indirect=True)
"""For tests whose objects lie in the state's folder, and then in a bucket."""


def contents(objects: Objects) -> bytes:
    """Every byte and every key that can be read in their bucket; nothing if they lie in files."""
    if not isinstance(objects, S3Objects):
        return b""
    store = objects._store
    keys = [each["path"] for chunk in obstore.list(store) for each in chunk]
    return b"".join(key.encode() + bytes(obstore.get(store, key).bytes()) for key in keys)


def made(folder: Path, **files: str) -> Path:
    """A folder of files that is to be put."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def read(objects: Objects, name: str) -> dict[str, str]:
    """What lies under a name."""
    with objects.at(name) as folder:
        return {f.name: f.read_text() for f in folder.iterdir()} if folder.is_dir() else {}


def uses(source: Path) -> dict[str, Callable[[Objects], object]]:
    """All that is asked of objects, by name."""
    return {
        "put": lambda objects: objects.put(source, "jobs/b/1/adapter"),
        "at": lambda objects: read(objects, "jobs/a/1/adapter"),
        "remove": lambda objects: objects.remove("jobs/a"),
        "within": lambda objects: objects.within("jobs"),
        "put_file": lambda objects: objects.put_file(source / "f", "bundles/a/f"),
        "size": lambda objects: objects.size("bundles/a/f"),
        "pieces": lambda objects: [*objects.pieces("bundles/a/f", 0)],
        "put_secret": lambda objects: objects.put_secret("b", b"key"),
        "secret": lambda objects: objects.secret("a"),
        "destroy_secret": lambda objects: objects.destroy_secret("a"),
        "secrets": lambda objects: objects.secrets(),
    }
