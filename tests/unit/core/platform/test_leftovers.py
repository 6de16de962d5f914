"""What a killed process was writing aside goes, and what a living one writes stays."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sottovoce.core.platform.files import atomic, in_place_of, sweep
from tests.support.leftovers import age, left_of
from tests.support.processes import environment

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
