"""The command as a whole: quick help, every command there, errors alike."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

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


def test_an_unknown_command_is_a_usage_error() -> None:
    assert CliRunner().invoke(main, ["privatise"]).exit_code == 2


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"sotto {version('sottovoce-edge')}\n"


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


def test_a_wrong_configuration_has_its_own_exit_code(new_device: Callable[..., Device]) -> None:
    device = new_device(SOTTO_PRIVACY_LEVLE="light")
    result = device.sotto("status", code=78)
    assert "did you mean 'level'" in result.stderr


def test_config_option_names_the_file(device: Device) -> None:
    file = device.folder / "other.toml"
    file.write_text('[privacy]\nlevel = "light"\n')
    (status,) = device.json("--config", str(file), "status")
    assert status["default_level"] == "light"
