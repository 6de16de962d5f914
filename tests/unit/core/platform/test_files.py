"""Files are complete or absent, and the disk's refusals name the fix."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from sottovoce.core.errors import ConfigError, QuotaExceeded
from sottovoce.core.platform.files import (
    as_owner_of,
    atomic,
    disk,
    in_place_of,
    open_to_others,
    private_folder,
    read_secret,
    sweep,
)
from tests.support.leftovers import age, left_of
from tests.support.processes import environment


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
    """Record syncs and renames in order, by name ("aside" for the temporary file)."""
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


_SECRET = b"swordfish"
_WRITER = """
import sys
from pathlib import Path
from sottovoce.core.platform.files import atomic
with atomic(Path(sys.argv[1]), once=len(sys.argv) > 2) as file:
    file.write(b"swordfish")
    file.flush()
    print("aside", flush=True)
    sys.stdin.read()
"""
_LINKED = """
import os, signal, sys
from pathlib import Path
from sottovoce.core.platform import files
files.sync_folder = lambda folder: os.kill(os.getpid(), signal.SIGKILL)
with files.atomic(Path(sys.argv[1]), once=True) as file:
    file.write(b"swordfish")
"""


@contextmanager
def _writing(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has written ``path`` aside and not put it in its place; killed at the end."""
    command = [sys.executable, "-c", _WRITER, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"aside\n"
        try:
            yield process
        finally:
            process.kill()


def _holding_secrets(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if _SECRET in file.read_bytes()]


def test_what_a_killed_process_left_goes(tmp_path: Path) -> None:
    with _writing(tmp_path / "token"):
        pass
    (left,) = _holding_secrets(tmp_path)
    age(tmp_path / left)
    sweep(tmp_path)
    assert os.listdir(tmp_path) == []


def test_within_the_hour_it_stays(tmp_path: Path) -> None:
    """Its writer may live, and have been kept from the lock."""
    left = left_of(tmp_path / "token")
    left.touch()
    for seconds, stays in ((-7200.0, True), (3000.0, True), (4000.0, False)):
        age(left, seconds=seconds)
        sweep(tmp_path)
        assert left.exists() == stays


def test_the_next_of_the_same_name_takes_it_along(tmp_path: Path) -> None:
    with _writing(tmp_path / "token"), _writing(tmp_path / "other"):
        pass
    age(*tmp_path.iterdir())
    with atomic(tmp_path / "token") as file:
        file.write(b"another")
    (left,) = _holding_secrets(tmp_path)
    assert left.startswith(".other.")


def test_a_second_name_of_what_is_in_its_place_goes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LINKED, str(tmp_path / "key")]
    assert subprocess.run(command, env=environment(), check=False).returncode < 0
    assert len(_holding_secrets(tmp_path)) == 2
    age(*tmp_path.iterdir())
    sweep(tmp_path)
    assert _holding_secrets(tmp_path) == ["key"]


def test_what_is_being_written_stays(tmp_path: Path) -> None:
    with _writing(tmp_path / "token"):
        age(*tmp_path.iterdir())
        sweep(tmp_path)
        with atomic(tmp_path / "token") as file:
            file.write(b"another")
        assert len(_holding_secrets(tmp_path)) == 1


def test_links_go_and_what_they_lead_to_and_folders_stay(tmp_path: Path) -> None:
    folder, link = left_of(tmp_path / "folder"), left_of(tmp_path / "link")
    for kept in (tmp_path / "kept", folder):
        kept.mkdir()
        (kept / "file").touch()
    link.symlink_to(tmp_path / "kept")
    age(folder, link)
    sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [folder.name, "kept"]
    assert (folder / "file").exists()
    assert (tmp_path / "kept" / "file").exists()


@pytest.mark.parametrize(
    "name",
    [
        *(".agent.toml.20261123", ".notes.deadbeef", ".notes.0123456789abcdef", ".notes"),
        *(f"notes.sotto-{'0' * 16}", f"..sotto-{'0' * 16}", f".notes.sotto-{'0' * 15}"),
        *(f".notes.sotto-{'0' * 17}", f".notes.sotto-{'F' * 16}"),
    ],
)
def test_names_of_another_form_stay(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    age(tmp_path / name)
    sweep(tmp_path)
    assert os.listdir(tmp_path) == [name]


def test_of_a_strange_folder_only_what_is_named_goes(tmp_path: Path) -> None:
    for name in ("a[1]", "a1"):
        left_of(tmp_path / name).touch()
    age(*tmp_path.iterdir())
    with atomic(tmp_path / "a[1]") as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == [left_of(tmp_path / "a1").name, "a[1]"]


def test_where_other_machines_write_nothing_goes(tmp_path: Path) -> None:
    left = left_of(tmp_path / "object")
    left.touch()
    age(left)
    with in_place_of(tmp_path / "object", alone=False) as aside:
        aside.touch()
    assert sorted(os.listdir(tmp_path)) == [left.name, "object"]


def test_a_stranger_that_holds_the_folder_keeps_nobody_from_writing(tmp_path: Path) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with atomic(tmp_path / "token") as file:
            file.write(b"new")
            fcntl.flock(held, fcntl.LOCK_UN)
            sweep(tmp_path)
    finally:
        os.close(held)
    assert (tmp_path / "token").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["n" * 255, "\N{LATIN SMALL LETTER O WITH DIAERESIS}" * 127])
def test_a_name_as_long_as_any_is_written_and_its_leftovers_go(tmp_path: Path, name: str) -> None:
    with _writing(tmp_path / name):
        pass
    age(*tmp_path.iterdir())
    with atomic(tmp_path / name) as file:
        file.write(b"new")
    assert os.listdir(tmp_path) == [name]


def test_no_folder_is_no_fault(tmp_path: Path) -> None:
    sweep(tmp_path / "nowhere")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another: run it as root")
def test_root_is_the_owner_of_the_topmost_folder_that_is_not_its_own() -> None:
    before = os.geteuid(), os.getegid(), os.getgroups()
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders let nobody else in
        theirs = Path(name, "theirs")
        for folder, owner in ((theirs, 54321), (theirs / "inner", 0), (Path(name, "ours"), 0)):
            folder.mkdir(mode=0o755)
            os.chown(folder, owner, 54322)
        Path(name).chmod(0o755)
        with as_owner_of(Path(name, "ours/file")):
            assert os.geteuid() == 0
        with as_owner_of(theirs / "none/file"):
            (theirs / "file").touch()
            assert (os.geteuid(), os.getegid(), os.getgroups()) == (54321, 54322, [54322])
        assert (theirs / "file").stat().st_uid == 54321
        with pytest.raises(PermissionError), as_owner_of(theirs / "inner/file"):
            (theirs / "inner/file").touch()
    assert (os.geteuid(), os.getegid(), os.getgroups()) == before
