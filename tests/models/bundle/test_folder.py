"""A folder is replaced at once or not at all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.models.bundle import folder
from sottovoce.models.bundle.folder import replacing


def _make(out: Path, content: str) -> None:
    with replacing(out, "marker") as made:
        (made / "inner").mkdir()
        (made / "inner" / "file").write_text(content)
        (made / "marker").touch()


def test_a_folder_is_made_and_replaced(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    _make(out, "first")
    (out / "stale").touch()
    _make(out, "second")

    assert (out / "inner" / "file").read_text() == "second"
    assert not (out / "stale").exists()
    assert list(out.parent.iterdir()) == [out]


def test_open_files_of_the_old_folder_stay_readable(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _make(out, "first")
    with (out / "inner" / "file").open() as file:
        _make(out, "second")
        assert file.read() == "first"


def test_an_error_leaves_the_old_folder_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _make(out, "first")

    def fail() -> None:
        with replacing(out, "marker") as half:
            (half / "half").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (out / "inner" / "file").read_text() == "first"
    assert list(tmp_path.iterdir()) == [out]


def test_other_folders_are_not_touched(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis").touch()
    file = tmp_path / "file"
    file.touch()
    for path in (precious, file):
        with pytest.raises(InvalidInput, match="holds no marker"):
            _make(path, "no")
    assert (precious / "thesis").exists()


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    _make(tmp_path / "out", "first")
    assert (tmp_path / "out" / "marker").exists()


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with replacing(tmp_path / "out", "marker"), pytest.raises(NotReady, match="another process"):
        _make(tmp_path / "out", "second")


def test_what_a_killed_run_leaves_is_swept_away(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _make(out, "first")
    script = (
        "import pathlib, runpy, sys, time\n"
        "replacing = runpy.run_path(sys.argv[2])['replacing']\n"
        "with replacing(pathlib.Path(sys.argv[1]), 'marker') as folder:\n"
        "    (folder / 'half').touch()\n"
        "    print('half', flush=True)\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(out), folder.__file__]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        run.stdout.readline()
        os.kill(run.pid, signal.SIGKILL)
    assert (out / "inner" / "file").read_text() == "first"

    _make(out, "second")
    assert (out / "inner" / "file").read_text() == "second"
    assert list(tmp_path.iterdir()) == [out]
