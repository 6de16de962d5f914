"""The provider publishes, lists and deletes bundles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sottovoce.cloud.cli import main
from sottovoce.cloud.store import bundles
from sottovoce.cloud.store.objects import FileObjects
from sottovoce.core.bundle.folder import Bundle


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["bundles", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The objects' folder, of a cloud that was never started."""
    monkeypatch.setenv("SOTTO_CLOUD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SOTTO_CLOUD_OBJECTS", f"file://{tmp_path}/objects")
    return tmp_path / "objects"


def test_a_bundle_is_published_listed_and_deleted(where: Path, small_bundle: Bundle) -> None:
    code, out, _ = run("publish", small_bundle.folder, "--json")
    told = json.loads(out)
    size = sum(stored.bytes for stored in small_bundle.manifest.files.values())
    assert (code, told["id"], told["sent_bytes"]) == (0, small_bundle.id, size)
    assert json.loads(run("publish", small_bundle.folder, "--json")[1])["sent_bytes"] == 0
    assert "nothing had to be sent" in run("publish", small_bundle.folder)[1]
    (listed,) = json.loads(run("list", "--json")[1])["bundles"]
    assert {**listed, "sent_bytes": size} == told
    assert (listed["state"], listed["bytes"], listed["key"]) == ("published", size, "")
    row = run("list")[1].splitlines()[1]
    assert row.startswith(small_bundle.id)
    assert row.endswith("published  each server")
    code, out, _ = run("delete", small_bundle.id[:8], "--json")
    assert (code, json.loads(out)) == (0, {"id": small_bundle.id, "deleted": True})
    assert json.loads(run("list", "--json")[1]) == {"bundles": []}
    assert [*(where / "bundles").iterdir()] == []
    code, _, said = run("delete", small_bundle.id)
    assert code == 4
    assert "bundles publish" in said


def test_what_was_cut_off_is_listed_with_what_to_do(
    where: Path, small_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(FileObjects, "put_file", cut)
        assert run("publish", small_bundle.folder)[0] != 0
    assert "uploading" in run("list")[1]
    assert "publish it again" in run("list")[2]
    with monkeypatch.context() as patched:
        patched.setattr(bundles, "_remove", cut)
        assert run("delete", small_bundle.id)[0] != 0
    assert "deleting" in run("list")[1]
    assert "delete it again" in run("list")[2]
    assert run("delete", small_bundle.id)[:2] == (0, f"deleted {small_bundle.id}\n")


def test_without_objects_the_fix_is_named(
    where: Path, small_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOTTO_CLOUD_OBJECTS")
    code, _, said = run("publish", small_bundle.folder)
    assert code == 78
    assert "give --objects" in said
