"""Commands that do not exist point at those that do; help and completion work."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sottovoce.core import errors
from sottovoce.core.platform.console import EXIT_CODES
from sottovoce.edge.cli import main

FOREIGN = ("mount", "cordon", "commit", "swarm", "volume")
"""Of other tools, for which there is nothing here."""


def _answer(verb: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, [verb, "--help"])
    return result.exit_code, result.output


@pytest.mark.parametrize("verb", FOREIGN)
def test_what_there_is_nothing_like_points_at_the_help(verb: str) -> None:
    code, said = _answer(verb)
    assert code == 2
    assert f"there is no command {verb!r}" in said
    assert "sotto --help" in said.replace("main", "sotto")


def test_a_slip_of_the_finger_is_recognised() -> None:
    code, said = _answer("privatzie")
    assert code == 2
    assert "did you mean" in said
    assert "privatize`?" in said


def test_help_takes_the_name_of_a_command() -> None:
    said = CliRunner().invoke(main, ["help", "privatize"])
    assert said.exit_code == 0
    assert "contacts no cloud" in said.output
    assert "Exit codes:" in CliRunner().invoke(main, ["help"]).output
    assert CliRunner().invoke(main, ["help", "mount"]).exit_code == 2


def test_every_exit_code_of_an_error_is_in_the_help() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__]
    assert {kind.exit_code for kind in kinds} | {0, 130} == set(EXIT_CODES)
    shown = CliRunner().invoke(main, ["--help"]).output
    for code, meaning in EXIT_CODES.items():
        assert f"{code} " in shown
        assert meaning in shown


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_completion_script_completes_commands(shell: str) -> None:
    script = CliRunner().invoke(main, ["completion", shell]).stdout
    assert "_SOTTO_COMPLETE" in script
    (line,) = CliRunner().invoke(main, ["completion", shell, "--json"]).stdout.splitlines()
    assert json.loads(line) == {"shell": shell, "script": script.removesuffix("\n")}
    asked = {"_SOTTO_COMPLETE": "zsh_complete", "COMP_WORDS": "sotto priv", "COMP_CWORD": "1"}
    assert "privatize" in CliRunner().invoke(main, [], prog_name="sotto", env=asked).stdout


def test_a_completion_script_needs_a_shell_that_is_known() -> None:
    result = CliRunner().invoke(main, ["completion"], env={"SHELL": "/bin/tcsh"})
    assert result.exit_code == 2
    assert "bash, zsh, fish" in result.output
