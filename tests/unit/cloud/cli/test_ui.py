"""`sotto-cloud ui`: a page until its program ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.live.testbed import free_address
from sottovoce.cloud.cli import main, status
from tests.support.jobs import create, opened
from tests.support.openai_endpoint import entered
from tests.support.processes import environment
from tests.support.stores import FileStore

COMMAND = [sys.executable, "-c", "from sottovoce.cloud.cli import main; main()"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    with opened(tmp_path, FileStore()) as jobs:
        create(jobs)
    return tmp_path


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["ui", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_a_process_answers_its_link_until_it_is_told_to_end(state: Path) -> None:
    nobody = free_address()
    file = state / "cloud.toml"
    file.write_text(f'state = "{state}"\n[ui]\nhealth = ["{nobody}"]\n')
    command = [*COMMAND, "--config", str(file), "ui", "--json"]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            page = entered(told["url"])
            assert told["pid"] == process.pid
            assert len(page.ask("/api/jobs").json["jobs"]) == 1
            assert [e["address"] for e in page.ask("/api/processes").json["health"]] == [nobody]
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate()
    assert (process.returncode, said) == (0, "")


@pytest.mark.parametrize(
    ("given", "desktop", "opens"),
    [
        ([], "", False),
        ([], ":0", True),
        (["--open"], "", True),
        (["--no-open"], ":0", False),
        (["--no-browser"], ":0", False),
        (["--json"], ":0", False),
    ],
)
def test_a_browser_is_opened_where_there_is_a_desktop(
    state: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], desktop: str, opens: bool
) -> None:
    class AtOnce:
        """Does not touch this process's signals."""

        def wait(self) -> None:
            pass

    seen: list[str] = []
    monkeypatch.setattr(status, "Ending", AtOnce)
    monkeypatch.setattr(webbrowser, "open", seen.append)
    monkeypatch.setenv("DISPLAY", desktop)
    monkeypatch.setenv("WAYLAND_DISPLAY", "")
    code, out, _ = run("--state", state, *given)
    assert code == 0
    assert seen == ([out.strip()] if opens else [])


def test_what_cannot_be_shown_is_told(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "Ending", object)
    code, _, said = run("--state", state / "typo")
    assert (code, "sotto-cloud serve" in said) == (4, True)
    code, _, said = run("--state", state, "--listen", "0.0.0.0:8080")
    assert (code, "ssh -L" in said) == (78, True)
