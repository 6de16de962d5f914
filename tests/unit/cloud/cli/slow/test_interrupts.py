"""Ctrl-C ends the provider's long commands with 130, SIGTERM with 0."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sottovoce.cloud.cli import main
from tests.support.backbones import tiny_bert
from tests.support.processes import environment
from tests.support.tiny_bundle import tiny_bundle

PROGRAM = """
import signal, sys
from sottovoce.cloud.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs the tests may ignore it
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A backbone and its bundle."""
    root = tmp_path_factory.mktemp("cloud")
    model = tiny_bert(root / "bert")
    return {"MODEL": str(model), "BUNDLE": str(tiny_bundle(root / "bundle", model))}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.parametrize(
    "command",
    [
        ("front", "--bundle", "BUNDLE", "--listen", "127.0.0.1:0", "--json"),
        (
            *("serve", "--bundle", "BUNDLE", "--listen", "127.0.0.1:0", "--json"),
            *("--backbone", "MODEL", "--no-trainer"),
        ),
        ("trainer", "--backbone", "MODEL", "--json"),
        ("ui", "--json"),
    ],
    ids=lambda command: command[0],
)
def test_a_daemon_ends_in_order(
    tmp_path: Path, words: dict[str, str], command: tuple[str, ...], number: int, code: int
) -> None:
    state = str(tmp_path / "state")
    if command[0] == "ui":
        CliRunner().invoke(main, ["enroll", "acme", "--state", state], catch_exceptions=False)
    typed = [words.get(each, each) for each in command]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *typed, "--state", state],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.send_signal(number)
            _, told = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == code
    assert "Traceback" not in told
    assert ("CANCELLED" in told) == (number == signal.SIGINT)


def pressed(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt


def test_a_build_that_is_interrupted_says_what_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("sottovoce.models.bundle"), "build", pressed)
    out = tmp_path / "bundle"
    done = CliRunner().invoke(main, ["build-bundle", "--out", str(out)])
    assert done.exit_code == 130
    assert str(out) in done.stderr


def test_an_audit_that_is_interrupted_claims_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.cloud.training.dp_sgd.audit.audit", pressed)
    table = tmp_path / "table.tsv"
    table.write_text("text\tlabel\nriver\twet\n")
    done = CliRunner().invoke(main, ["audit", "--input", str(table), "--dp-epsilon", "8"])
    assert done.exit_code == 130, done.output
    assert "nothing was shown" in done.stderr
    assert not done.stdout
