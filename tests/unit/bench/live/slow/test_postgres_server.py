"""A throw-away server leaves nothing, even when it does not come up."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bench.live import postgres_server
from bench.live.postgres_server import PostgresServer


@pytest.fixture
def programs() -> Path:
    """Of a server that can be run."""
    found = postgres_server.found()
    if found is None:
        pytest.skip(postgres_server.HINT)
    return found


def test_what_cannot_be_run_is_not_found(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (programs / "initdb").exists()
    monkeypatch.setattr(postgres_server, "_as_user", lambda: ["false"])
    assert postgres_server.found() is None
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))  # without setpriv
    assert postgres_server.found() is None


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("_CLUSTER", ("--no-such-option",)),
        ("_SETTINGS", {"shared_buffers": "nonsense"}),
        ("_STARTING", -1.0),
    ],
)
def test_a_start_that_fails_leaves_no_process_and_no_file(
    programs: Path, monkeypatch: pytest.MonkeyPatch, part: str, changed: object
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="sotto-"))  # not pytest's, which others cannot enter
    folder.chmod(0o755)
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def popen(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(real(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(PostgresServer, "_answers", lambda _: False)
    monkeypatch.setattr(postgres_server, part, changed)
    try:
        with (
            pytest.raises((RuntimeError, subprocess.CalledProcessError)),
            postgres_server.running(programs),
        ):
            pytest.fail("it cannot have started")
        assert started
        assert all(process.returncode is not None for process in started)
        assert list(folder.iterdir()) == []
    finally:
        shutil.rmtree(folder)
