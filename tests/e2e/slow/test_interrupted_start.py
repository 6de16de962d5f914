"""Ctrl-C while a program is still importing ends it with 130, one word and no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.paths import ROOT

START = """
import importlib, os, signal, sys

signal.signal(signal.SIGINT, {before})  # what runs the tests may ignore it
at, target = sys.argv.pop(1), sys.argv.pop(1)
module, name = target.split(":")


def presses(event, arguments):
    if event == "import" and arguments[0] == at:
        os.kill(os.getpid(), signal.SIGINT)


start = getattr(importlib.import_module(module), name)
sys.addaudithook(presses)
start()
"""
COMMANDS = {
    "sotto": ("edge", "list", ("grpc", "sottovoce.edge.cli.views", "sottovoce.edge.config")),
    "sotto-cloud": ("cloud", "jobs", ("sqlite3", "sottovoce.cloud.job")),
    "sotto-models": ("models", "count-words", ("sottovoce.core.platform.files",)),
}
EVERYWHERE = ("click", "click.core", "sottovoce.core.errors", "sottovoce.core.platform.console")


def started(program: str, at: str, home: Path, before: str) -> subprocess.CompletedProcess[str]:
    folder, command, _ = COMMANDS[program]
    scripts = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]["scripts"]
    return subprocess.run(
        [sys.executable, "-c", START.format(before=before), at, scripts[program], command],
        env=os.environ | {"HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("program", "at"),
    [(program, at) for program, (*_, own) in COMMANDS.items() for at in (*EVERYWHERE, *own)],
)
def test_an_interrupt_while_a_module_is_imported_ends_a_program_quietly(
    program: str, at: str, tmp_path: Path
) -> None:
    ended = started(program, at, tmp_path, "signal.default_int_handler")
    assert (ended.returncode, ended.stdout) == (128 + signal.SIGINT, "")
    assert ended.stderr == "interrupted\n"


def test_a_program_in_the_background_goes_on_ignoring_interrupts(tmp_path: Path) -> None:
    ended = started("sotto", "click", tmp_path, "signal.SIG_IGN")
    assert ended.returncode != 128 + signal.SIGINT
    assert "interrupted" not in ended.stderr
