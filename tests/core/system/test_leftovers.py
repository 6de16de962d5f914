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

from sottovoce.core.system.files import atomic, in_place_of
from sottovoce.core.system.leftovers import sweep
from tests.support.processes import environment

_SECRET = b"swordfish"
_WRITER = """
import sys
from pathlib import Path
from sottovoce.core.system.files import atomic
with atomic(Path(sys.argv[1]), once=len(sys.argv) > 2) as file:
    file.write(b"swordfish")
    file.flush()
    print("aside", flush=True)
    sys.stdin.read()
"""
_LINKED = """
import os, signal, sys
from pathlib import Path
from sottovoce.core.system import files
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
    assert _holding_secrets(tmp_path)
    sweep(tmp_path)
    assert os.listdir(tmp_path) == []


def test_the_next_of_the_same_name_takes_it_along(tmp_path: Path) -> None:
    with _writing(tmp_path / "token"), _writing(tmp_path / "other"):
        pass
    with atomic(tmp_path / "token") as file:
        file.write(b"another")
    (left,) = _holding_secrets(tmp_path)
    assert left.startswith(".other.")


def test_a_second_name_of_what_is_in_its_place_goes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LINKED, str(tmp_path / "key")]
    assert subprocess.run(command, env=environment(), check=False).returncode < 0
    assert len(_holding_secrets(tmp_path)) == 2
    sweep(tmp_path)
    assert _holding_secrets(tmp_path) == ["key"]


def test_what_is_being_written_stays(tmp_path: Path) -> None:
    with _writing(tmp_path / "token"):
        sweep(tmp_path)
        with atomic(tmp_path / "token") as file:
            file.write(b"another")
        assert len(_holding_secrets(tmp_path)) == 1


def test_folders_and_links_go_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (tmp_path / ".folder.00c0ffee").mkdir()
    (tmp_path / ".folder.00c0ffee" / "inner").touch()
    (tmp_path / ".link.00c0ffee").symlink_to(kept)
    sweep(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["kept", "file"]


@pytest.mark.parametrize(
    "name",
    ["notes.00c0ffee", ".notes", ".notes.00c0ffe", ".notes.00C0FFEE", ".notes.00c0ffee1", "..0"],
)
def test_names_of_another_form_stay(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    sweep(tmp_path)
    assert os.listdir(tmp_path) == [name]


def test_of_a_strange_folder_only_what_is_named_goes(tmp_path: Path) -> None:
    for name in (".a[1].00c0ffee", ".a1.00c0ffee"):
        (tmp_path / name).touch()
    with atomic(tmp_path / "a[1]") as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == [".a1.00c0ffee", "a[1]"]


def test_where_other_machines_write_nothing_goes(tmp_path: Path) -> None:
    (tmp_path / ".object.00c0ffee").touch()
    with in_place_of(tmp_path / "object", alone=False) as aside:
        aside.touch()
    assert sorted(os.listdir(tmp_path)) == [".object.00c0ffee", "object"]


def test_a_stranger_that_holds_the_folder_keeps_nobody_from_writing(tmp_path: Path) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with atomic(tmp_path / "token") as file:
            file.write(b"new")
    finally:
        os.close(held)
    assert (tmp_path / "token").read_bytes() == b"new"


def test_no_folder_is_no_fault(tmp_path: Path) -> None:
    sweep(tmp_path / "nowhere")
