"""Files are complete or absent, and the disk's refusals name the fix."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from sottovoce.core.errors import ConfigError, QuotaExceeded
from sottovoce.core.platform.files import (
    atomic,
    disk,
    in_place_of,
    open_to_others,
    private_folder,
    read_secret,
)


def test_atomic_replaces_in_one_step(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    with atomic(target) as file:
        file.write(b"new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert not open_to_others(target)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
@pytest.mark.parametrize(
    ("owner", "mode", "we", "private"),
    [
        (0, 0o440, 10001, True),
        (0, 0o460, 10001, False),
        (0, 0o444, 10001, False),
        (10001, 0o440, 10001, False),
        (0, 0o440, 0, False),
    ],
)
def test_the_group_may_read_what_root_hands_to_a_service(
    owner: int, mode: int, we: int, private: bool
) -> None:
    with NamedTemporaryFile() as file:  # not below pytest's folder, which is root's alone
        os.chown(file.name, owner, 10001)
        os.chmod(file.name, mode)
        os.seteuid(we)
        try:
            assert open_to_others(Path(file.name)) != private
        finally:
            os.seteuid(0)


def test_an_interrupted_write_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic(target) as file:  # noqa: PT012
        file.write(b"half")
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("name", ["", "nowhere/out.txt"])
def test_a_file_that_has_no_place_is_said_before_anything_is_done(
    tmp_path: Path, name: str
) -> None:
    begun = False
    with pytest.raises(ConfigError, match="folder") as caught, atomic(tmp_path / name):
        begun = True
    assert not begun
    assert caught.value.fix
    assert os.listdir(tmp_path) == []


def _recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is brought to the disk and renamed, in order, by name ("aside" for the passing one)."""
    found: list[tuple[str, str]] = []
    sync, rename = os.fsync, os.replace

    def name(path: str) -> str:
        return "aside" if Path(path).name.startswith(".") else Path(path).name

    def fsync(descriptor: int) -> None:
        found.append(("sync", name(os.readlink(f"/proc/self/fd/{descriptor}"))))
        sync(descriptor)

    def replace(source: Path, target: Path) -> None:
        found.append((name(str(source)), name(str(target))))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    return found


def test_a_file_is_on_the_disk_before_its_name_is_and_its_name_before_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    done = _recorded(monkeypatch)
    with atomic(tmp_path / "folder" / "file") as file:
        file.write(b"x")
    assert done == [("sync", "aside"), ("aside", "file"), ("sync", "folder")]


def test_a_folder_is_on_the_disk_with_all_it_holds_before_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    done = _recorded(monkeypatch)
    with in_place_of(tmp_path / "folder" / "made") as aside:
        (aside / "inner").mkdir(parents=True)
        (aside / "inner" / "one").write_text("1")
    assert done == [
        *(("sync", name) for name in ("one", "inner", "aside")),
        ("aside", "made"),
        ("sync", "folder"),
    ]
    assert (tmp_path / "folder" / "made" / "inner" / "one").read_text() == "1"
    assert os.listdir(tmp_path / "folder") == ["made"]


def test_a_folder_that_was_not_finished_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with in_place_of(tmp_path / "made") as aside:
            aside.mkdir()
            (aside / "one").write_text("1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert os.listdir(tmp_path) == []


def test_a_private_folder_is_private(tmp_path: Path) -> None:
    made = private_folder(tmp_path / "a" / "b")
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_folder_others_can_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match="a folder of your own"):
        private_folder(folder)


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError):
        private_folder(tmp_path / "file" / "state")


def test_a_full_disk_is_a_spent_quota(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(QuotaExceeded) as caught, disk(full), full.open("wb", buffering=0) as file:
        file.write(b"x")
    assert caught.value.subject == "disk"


def test_other_errors_pass_unchanged(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="pipe") as caught, disk(tmp_path):
        raise OSError(errno.EPIPE, "pipe")
    assert caught.value.errno == errno.EPIPE


def test_of_two_who_write_a_file_once_the_first_stays(tmp_path: Path) -> None:
    target = tmp_path / "key"
    with atomic(target, once=True) as late:
        late.write(b"two")
        with atomic(target, once=True) as file:
            file.write(b"one")
    assert target.read_text() == "one"
    assert not open_to_others(target)
    assert os.listdir(tmp_path) == ["key"]


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_secret_of_its_owner_is_read(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"secret")
    file.chmod(mode)
    assert read_secret(file) == read_secret(file, own=True) == b"secret"


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602])
def test_a_secret_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"secret")
    file.chmod(mode)
    for own in (False, True):
        with pytest.raises(ConfigError, match="other users can read the key") as refused:
            read_secret(file, own=own)
        assert "chmod 600" in str(refused.value)


def test_a_secret_of_ones_own_is_no_link(tmp_path: Path) -> None:
    file, link = tmp_path / "key", tmp_path / "link"
    file.write_bytes(b"secret")
    file.chmod(0o600)
    link.symlink_to(file)
    assert read_secret(link) == b"secret"  # as Kubernetes mounts them
    with pytest.raises(OSError, match="symbolic link"):
        read_secret(link, own=True)
