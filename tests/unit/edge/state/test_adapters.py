"""Versions of an adapter: one in use, swapped at once, the one before still there."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest

from sottovoce.core.errors import DataLoss, InvalidInput, NotReady
from sottovoce.edge.state import adapters
from sottovoce.edge.state.adapters import KEPT, AdapterFolder


def installed(folder: AdapterFolder, data: bytes) -> str:
    version = hashlib.sha256(data).hexdigest()
    with folder.alone():
        folder.begun(version).write_bytes(data)
        folder.install(folder.begun(version), version)
        folder.prune()
    return version


def test_the_newest_is_in_use_and_the_oldest_goes(tmp_path: Path) -> None:
    folder = AdapterFolder(tmp_path / "adapters", "desk")
    assert folder.current is None
    assert folder.versions() == []
    made = [installed(folder, bytes([n])) for n in range(KEPT + 2)]
    assert folder.versions() == made[: -KEPT - 1 : -1]
    assert folder.current is not None
    assert folder.current.stem == made[-1]
    folder.check(folder.current)


def test_one_goes_back_step_by_step_and_forth_again(tmp_path: Path) -> None:
    folder = AdapterFolder(tmp_path, "desk")
    first, second, third = (installed(folder, bytes([n])) for n in range(3))
    assert [folder.roll_back(), folder.roll_back()] == [second, first]
    with pytest.raises(NotReady, match="no earlier"):
        folder.roll_back()
    assert folder.current is not None
    assert folder.current.stem == first
    assert installed(folder, bytes([2])) == third
    assert folder.current.stem == third
    assert folder.roll_back() == second


def test_a_full_disk_keeps_what_is_too_old_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = AdapterFolder(tmp_path, "desk")
    made = [installed(folder, bytes([n])) for n in range(KEPT)]
    folder.begun("ab" * 32).write_bytes(b"x")
    folder.install(folder.begun("ab" * 32), "ab" * 32)
    with monkeypatch.context() as patched:
        patched.setattr(adapters, "atomic", _full)
        folder.prune()
    assert folder.versions() == ["ab" * 32, *made[::-1]]
    folder.prune()
    assert folder.versions() == ["ab" * 32, *made[:0:-1]]
    assert not folder.file(made[0]).exists()


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "full")


def test_what_is_undone_leaves_the_one_before_in_use(tmp_path: Path) -> None:
    folder = AdapterFolder(tmp_path, "desk")
    made = [installed(folder, bytes([n])) for n in range(KEPT)]
    folder.roll_back()
    folder.begun("ab" * 32).write_bytes(b"x")
    with pytest.raises(InterruptedError), folder.undone():
        _cut_off(folder.install(folder.begun("ab" * 32), "ab" * 32))
    assert folder.versions() == made[::-1]
    assert folder.current == folder.file(made[-2])
    assert all(folder.intact(folder.file(version)) for version in made)
    assert not folder.file("ab" * 32).exists()


def _cut_off(*_: object) -> None:
    raise InterruptedError


def test_a_damaged_one_is_not_gone_back_to(tmp_path: Path) -> None:
    folder = AdapterFolder(tmp_path, "desk")
    first, second = (installed(folder, bytes([n])) for n in range(2))
    (tmp_path / "desk" / f"{first}.safetensors").write_bytes(b"x")
    with pytest.raises(DataLoss, match=first):
        folder.roll_back()
    assert folder.current is not None
    assert folder.current.stem == second


def test_only_one_changes_it_at_a_time(tmp_path: Path) -> None:
    folder = AdapterFolder(tmp_path, "desk")
    with folder.alone():
        with pytest.raises(NotReady, match="at work"), AdapterFolder(tmp_path, "desk").alone():
            pass
        with AdapterFolder(tmp_path, "another").alone():
            pass


def test_nobody_else_can_look(tmp_path: Path) -> None:
    folder = AdapterFolder(tmp_path / "adapters", "desk")
    installed(folder, b"x")
    assert (tmp_path / "adapters").stat().st_mode & 0o077 == 0
    assert (tmp_path / "adapters" / "desk").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["../desk", "a/b", "", ".", "Desk", "x" * 65])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        AdapterFolder(tmp_path, name)


def test_a_lost_list_is_an_error_unless_nothing_was_installed(tmp_path: Path) -> None:
    folder = AdapterFolder(tmp_path, "desk")
    with folder.alone():
        folder.begun("ab" * 32).write_bytes(b"x")
    assert folder.current is None
    installed(folder, b"x")
    (tmp_path / "desk" / "versions.json").unlink()
    for ask in (lambda: folder.current, folder.versions, folder.roll_back):
        with pytest.raises(DataLoss, match=r"versions\.json"):
            ask()


def test_a_crash_before_the_first_is_noted_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = AdapterFolder(tmp_path, "desk")
    with monkeypatch.context() as patched:
        patched.setattr(adapters, "sync_folder", _die)
        with pytest.raises(KeyboardInterrupt):
            installed(folder, b"x")
    assert folder.current is None
    version = installed(folder, b"x")
    assert folder.versions() == [version]


def _die(_: Path) -> None:
    raise KeyboardInterrupt


def test_an_altered_list_is_an_error_and_no_fresh_start(tmp_path: Path) -> None:
    folder = AdapterFolder(tmp_path, "desk")
    version = installed(folder, b"x")
    for altered in ("{", '{"versions": [], "in_use": "../../x"}', f'["{version}"]'):
        (tmp_path / "desk" / "versions.json").write_text(altered)
        with pytest.raises(DataLoss, match=r"versions\.json"):
            _ = folder.current
