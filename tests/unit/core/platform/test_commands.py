"""The help of a group: headings, one line a command, names that line up."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from sottovoce.core.platform.console import LazyGroup

PROGRAMS = [("edge", "sotto"), ("cloud", "sotto-cloud"), ("models", "sotto-models")]


def _program(package: str) -> LazyGroup:
    """The program's group; its package may be absent, as on a device."""
    found = pytest.importorskip(f"sottovoce.{package}.cli", exc_type=ImportError).main
    assert isinstance(found, LazyGroup)
    return found


@pytest.mark.parametrize(("package", "name"), PROGRAMS)
def test_each_command_has_one_line_of_the_help(package: str, name: str) -> None:
    main = _program(package)
    shown = CliRunner().invoke(main, ["--help"], terminal_width=80, prog_name=name).output
    commands = main.list_commands(main.make_context(name, ["version"]))
    for command in commands:
        assert len(re.findall(rf"^  {command} +\S", shown, re.M)) == 1
    between = shown.split("Options:")[1].split("Exit codes:")[0]
    listed = [line for line in between.splitlines() if re.match(r"  [a-z]", line)]
    assert len(listed) == len(commands)  # none goes on in a second line
    assert len({line.index(line.split(maxsplit=1)[1]) for line in listed}) == 1


@pytest.mark.parametrize(
    ("package", "heading", "command"),
    [
        ("edge", "Privatise", "try"),
        ("edge", "Conversations", "chat"),
        ("edge", "Adapters", "customize"),
        ("edge", "Diagnosis", "doctor"),
        ("cloud", "Tenants", "limit"),
        ("cloud", "Diagnosis", "status"),
    ],
)
def test_a_command_stands_under_its_heading(package: str, heading: str, command: str) -> None:
    shown = CliRunner().invoke(_program(package), ["--help"]).output
    section = shown.split(f"\n{heading}:\n")[1].split("\n\n")[0]
    assert re.search(rf"^  {command} ", section, re.M)
