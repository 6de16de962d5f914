"""The command as a whole: quick help, every command there, errors and unknown commands alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

from sottovoce.core import errors
from sottovoce.core.platform.console import EXIT_CODES
from sottovoce.edge.cli import COMMANDS, main

from .conftest import Device


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_has_json(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    inner = list(command.commands) if isinstance(command, click.Group) else []
    for path in [[name, each] for each in inner] or [[name]]:
        result = CliRunner().invoke(main, [*path, "--help"])
        assert result.exit_code == 0
        assert "--json" in result.output


def test_help_lists_the_commands_without_importing_them() -> None:
    program = (
        "import sys\n"
        "from sottovoce.edge.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'grpc', 'numpy', 'onnxruntime', 'hnswlib', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in COMMANDS)


def test_errors_name_problem_and_fix_on_standard_error(new_device: Callable[..., Device]) -> None:
    device = new_device()
    result = device.sotto("privatize", stdin="hello\n", code=3)
    assert result.stdout == ""
    assert "error: " in result.stderr
    assert "  fix: run `pip install 'sottovoce-edge[en]'`" in result.stderr
    assert "`sotto pull HOST:PORT`" in result.stderr
    result = device.sotto("privatize", "--json", stdin="hello\n", code=3)
    assert result.stdout == ""
    error = json.loads(result.stderr)["error"]
    assert error["code"] == "FAILED_PRECONDITION"
    assert error["fix"].startswith("run `pip install")
    assert error["subject"] == "bundle"


@pytest.mark.parametrize(
    "wrong",
    [
        ("no-such-command",),
        ("chat", "--temperature", "3"),
        ("privatize", "--no-such-option"),
        ("generate",),
        ("config", "no-such-command"),
        ("config", "set", "privacy.level"),
        ("completion", "no-such-shell"),
    ],
)
def test_wrong_arguments_are_json_as_well(wrong: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*wrong, "--json"])
    assert (result.exit_code, result.stdout) == (2, "")
    error = json.loads(result.stderr)["error"]
    assert error["code"] == "INVALID_ARGUMENT"
    assert error["problem"]
    assert "--help" in error["fix"]
    assert CliRunner().invoke(main, wrong).stderr.startswith("Usage: ")


def test_a_standard_stream_that_is_closed_is_no_fault(new_device: Callable[..., Device]) -> None:
    environment = os.environ | new_device().environment
    program = [sys.executable, "-m", "sottovoce.edge"]
    for said, closed in (("version", ">&-"), ("version", "2>&-"), ("version", "<&- >&- 2>&-")):
        shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *program, said]
        done = subprocess.run(shell, env=environment, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
    for said in ("privatize", "chat"):
        shell = ["sh", "-c", 'exec "$@" <&-', "sh", *program, said, "--json"]
        done = subprocess.run(shell, env=environment, capture_output=True, check=False)
        assert json.loads(done.stderr)["error"]["fix"]
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *program, "try", "hello"]
    done = subprocess.run(shell, env=environment, capture_output=True, check=False)
    assert done.stderr.startswith(b"error: ")


def test_a_wrong_configuration_has_its_own_exit_code(new_device: Callable[..., Device]) -> None:
    device = new_device(SOTTO_PRIVACY_LEVLE="light")
    result = device.sotto("status", code=78)
    assert "did you mean 'level'" in result.stderr


def test_config_option_names_the_file(device: Device) -> None:
    file = device.folder / "other.toml"
    file.write_text('[privacy]\nlevel = "light"\n')
    (status,) = device.json("--config", str(file), "status")
    assert status["default_level"] == "light"


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


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"sotto {version('sottovoce-edge')}\n"
