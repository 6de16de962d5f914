"""What who comes from another tool types first works, or is answered with a command that does.

The device's own 48 of ollama, docker, kubectl, tailscale and llm are in
`tests/edge/cli/test_verbs.py`. Here both programs are there, and every command that an answer names
is looked up.
"""

from __future__ import annotations

import re
import shlex
from itertools import takewhile

import click
import pytest
from click.testing import CliRunner

from sottovoce.cloud.cli import HINTS as PROVIDERS_HINTS
from sottovoce.cloud.cli import main as sotto_cloud
from sottovoce.edge.cli import HINTS as DEVICES_HINTS
from sottovoce.edge.cli import main as sotto

PROGRAMS: dict[str, click.Group] = {"sotto": sotto, "sotto-cloud": sotto_cloud}
GUESSED = {
    "sotto": "ls ps rm delete stop start status logs pull login whoami config version upgrade "
    "doctor help train finetune tune fit ask chat run embed classify anonymize redact protect "
    "explain info inspect history cost budget serve up down cancel kill models adapters tokens "
    "keys backup setup connect test try",
    "sotto-cloud": "serve start up down stop restart status ps ls list show get describe inspect "
    "logs cancel kill rm delete jobs train finetune run pull push build models adapters users "
    "tenants tokens keys login whoami config version upgrade help doctor health metrics top "
    "dashboard history quota backup init setup",
}


def typed(program: str, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(PROGRAMS[program], arguments, prog_name=program)
    return result.exit_code, result.output


def named(said: str) -> list[list[str]]:
    """The commands that an answer names, each as words up to what stands for something else."""
    found = [shlex.split(each) for each in re.findall(r"`(sotto(?:-cloud)? [^`]+)`", said)]
    return [[*takewhile(re.compile(r"[a-z][a-z-]*").fullmatch, line)] for line in found]


def exists(command: list[str]) -> bool:
    """Whether that command explains itself, and not the group above it."""
    program, *path = command
    code, said = typed(program, *path, "--help")
    return bool(path) and code == 0 and said.startswith(f"Usage: {' '.join(command)} ")


@pytest.mark.parametrize(
    ("program", "working", "answered"), [("sotto", 37, 11), ("sotto-cloud", 16, 32)]
)
def test_48_guessed_verbs_work_or_are_answered_with_a_command_that_exists(
    program: str, working: int, answered: int
) -> None:
    verbs = GUESSED[program].split()
    assert len(set(verbs)) == len(verbs) == 48
    works, told = set(), set()
    for verb in verbs:
        code, said = typed(program, verb, "--help")
        if code == 0:
            works.add(verb)
            continue
        assert code == 2
        assert f"there is no command '{verb}'" in said
        commands = named(said)
        if commands and all(map(exists, commands)):
            told.add(verb)
    assert len(works | told) >= 40, sorted(set(verbs) - works - told)
    assert (len(works), len(told)) == (working, answered), sorted(works)


@pytest.mark.parametrize(
    "hint", [*DEVICES_HINTS.values(), *PROVIDERS_HINTS.values()], ids=lambda hint: hint[:40]
)
def test_every_command_that_a_hint_names_exists(hint: str) -> None:
    commands = named(hint)
    assert commands or "`" not in hint
    assert [command for command in commands if not exists(command)] == []


def test_a_name_that_is_none_is_not_taken_for_one() -> None:
    assert named("`sotto show NAME` and `sotto config get cloud.tenant`, or `rm`") == [
        ["sotto", "show"],
        ["sotto", "config", "get"],
    ]
    assert exists(["sotto-cloud", "jobs", "cancel"])
    for none in (["sotto", "nope"], ["sotto-cloud", "jobs", "nope"], ["sotto"]):
        assert not exists(none)
