"""Whether a command of the documents is one: read by the very program it is for, and not run.

Subcommands, options, and the number and type of arguments are held to; in running text, where a
command is named rather than shown, arguments may lack. Paths are looked up from the working folder,
which tests make a reader's (`tests.support.reader`).
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import re
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, get_type_hints
from unittest import mock

import click
from google.protobuf import json_format

from sottovoce.cloud.cli import COMMANDS
from sottovoce.cloud.cli import main as sotto_cloud
from sottovoce.core.bundle.levels import is_target
from sottovoce.core.privacy.mechanisms import MECHANISMS
from sottovoce.core.privacy.policies import LEVELS, POLICIES
from sottovoce.edge.cli import main as sotto
from sottovoce.edge.config import Config
from sottovoce.models.cli import main as sotto_models
from sottovoce.v1 import edge_agent_pb2
from tests.support.documented import Part, Typed
from tests.support.paths import ROOT

FOREIGN: Final = {
    "apt": "Debian's",
    "apt-get": "Debian's",
    "cat": "the shell's",
    "echo": "the shell's",
    "haproxy": "HAProxy's; test_balancing.py has it read what we write",
    "kubectl": "Kubernetes'; tests/contract/deploy reads the manifests",
    "npm": "Node's; `make clients` runs it",
    "protoc": "Google's; `make clients` runs it with the plugins",
    "ssh": "OpenSSH's",
    "systemctl": "systemd's",
    "systemd-analyze": "systemd's",
    "systemd-creds": "systemd's",
    "systemd-run": "systemd's",
}
"""Programs whose options are not ours to judge, and whose they are."""

_RUN_OTHERS: Final = frozenset({"kubectl", "ssh", "systemd-run"})
"""Those of them that are told what to run: where that is ours, it is judged."""

_PLACEHOLDERS: Final = {
    "...": None,
    "HOST:PORT": "127.0.0.1:8471",
    "ADDRESS": "127.0.0.1:8471",
    "DIR": ".",
    "BUNDLE": "build/bundle",
    "CHECKOUT": ".",
    "PART": "wire",
    "S": "1",
    "N": "1",
}
"""What stands for something, and what it may stand for."""

_OWN: Final = re.compile(r"SOTTO_[A-Z_]+")

_CHOICES: Final[dict[str, Callable[[str], bool]]] = {
    "policy": POLICIES.__contains__,
    "mechanism": MECHANISMS.__contains__,
    "level": lambda value: value in LEVELS or is_target(value),
}
"""What a bundle is asked for by name, and so neither program's parser looks at."""


class Wrong(AssertionError):
    """A command that no reader could type; says where it stands."""


class _Parsed(Exception):
    """The arguments were understood."""


def judge(typed: Typed) -> None:
    """Raise Wrong unless every program of the line accepts its arguments."""
    if not typed.parts:
        raise Wrong(f"{typed.where}: no command: {typed.line}")
    for part in typed.parts:
        try:
            _judge(part, named=not typed.block)
        except (AssertionError, SystemExit, ValueError, json_format.ParseError) as error:
            raise Wrong(f"{typed.where}: `{typed.line}`: {error}") from None


def _judge(part: Part, *, named: bool) -> None:
    for name, value in part.environment:
        _is_set(name, value)
    words = [_PLACEHOLDERS.get(word, word) for word in part.words]
    given = [word for word in words if word is not None]
    if part.program in _JUDGES:
        _JUDGES[part.program](given, named)
    elif part.program in _RUN_OTHERS:
        _of_others(given, named)
    elif part.program and part.program not in FOREIGN:
        raise Wrong("no program that the docs may speak of; an output is fenced as `text`")


def _of_others(words: list[str], named: bool) -> None:
    """Return the first of our programs with its arguments."""
    for place, word in enumerate(words):
        first, *line = word.split() or [""]
        if Path(first).name in _JUDGES:
            rest = Part((), Path(first).name, tuple(words[place + 1 :]))
            for part in Typed("", word, block=not named).parts if line else [rest]:
                _judge(part, named=named)
            return


def _of_ours(program: click.Command) -> Callable[[list[str], bool], None]:
    def judged(words: list[str], named: bool) -> None:
        command, name, context, rest = program, str(program.name), None, words
        try:
            while True:
                with _arguments_may_lack(command, named), redirect_stdout(io.StringIO()):
                    context = command.make_context(name, list(rest), parent=context)
                if not isinstance(command, click.Group):
                    _are_there(context)
                    return
                left = [*context._protected_args, *context.args]
                found, inner, rest = command.resolve_command(context, left)
                assert inner is not None, f"there is no {found}"
                command, name = inner, str(found)
        except click.exceptions.NoArgsIsHelpError:
            if not named:
                raise Wrong(f"`{name}` needs a command") from None
        except click.exceptions.Exit:
            return  # --help and --version
        except click.BadOptionUsage as error:
            if not (named and "requires an argument" in error.format_message()):
                raise Wrong(error.format_message()) from None
        except click.ClickException as error:
            raise Wrong(error.format_message()) from None

    return judged


def _are_there(context: click.Context) -> None:
    """What an option or argument names, and is looked up only where a command runs."""
    given = {name: value for name, value in context.params.items() if name in _CHOICES and value}
    if context.command_path.endswith((" config get", " config set")):
        setting = context.params["name"]
        known = not setting or setting.isupper() or setting in _agent_settings()
        assert known, f"there is no setting {setting}"
        if setting and (value := context.params.get("value")):
            given[setting] = value
    for name, value in given.items():
        _is_one(name, value)


def _is_one(name: str, value: str) -> None:
    """Whether a setting's value is one of those there are; in capitals it stands for any."""
    known = _CHOICES.get(re.split(r"[._]", name)[-1])
    assert known is None or value.isupper() or known(value), f"there is no {name} {value!r}"


@contextmanager
def _arguments_may_lack(command: click.Command, may: bool) -> Iterator[None]:
    needed = [each for each in command.params if each.required] if may else []
    for each in needed:
        each.required = False
    try:
        yield
    finally:
        for each in needed:
            each.required = True


def _of_python(words: list[str], named: bool) -> None:
    if words[:1] != ["-m"]:
        assert Path(words[0]).is_file(), f"there is no {words[0]}"
        return
    module, arguments = words[1], words[2:]
    if module not in ("venv", "bench.NAME"):
        assert _found(module), f"there is no module {module}"
        _parsed(module, arguments)


def _found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _parsed(name: str, arguments: Sequence[str]) -> None:
    parse = ArgumentParser.parse_args

    def parsed(parser: ArgumentParser, *given: Any) -> Any:
        with mock.patch.object(ArgumentParser, "error", refused):
            parse(parser, *given)
        raise _Parsed

    def refused(_: ArgumentParser, message: str) -> Any:
        raise Wrong(message)

    spec = importlib.util.find_spec(name)
    package = spec is not None and spec.submodule_search_locations is not None
    main = f"{name}.__main__"
    module = importlib.import_module(main if package and _found(main) else name)
    if not hasattr(module, "main") or "argparse" not in _source(module):
        assert not arguments, f"{name} takes no arguments"
        return
    with (
        mock.patch.object(ArgumentParser, "parse_args", parsed),
        mock.patch.object(sys, "argv", [name, *arguments]),
    ):
        try:
            module.main()
        except _Parsed:
            return
    raise Wrong(f"{name} did not look at its arguments")


def _source(module: Any) -> str:
    text = Path(module.__file__).read_text(encoding="utf-8")
    return text + ("argparse" if re.search(r"bench(\.| import )console", text) else "")


def _of_make(words: list[str], named: bool) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    for word in words:
        name, _, value = word.partition("=")
        if value:
            assert re.search(rf"\$\({name}\)|^{name} \?=", makefile, re.M), f"no variable {name}"
        else:
            assert word in rules, f"the Makefile has no rule {word}"


def _of_pip(words: list[str], named: bool) -> None:
    from pip._internal.commands import create_command  # whose options change with its version
    from pip._internal.exceptions import PipError

    options, others = create_command(words[0]).parse_args(words[1:])
    files = [*options.requirements, *options.constraints]
    others += options.editables
    files += [word.partition("[")[0] for word in others if word.startswith((".", "/"))]
    for word in others:
        _has_extras(word)
    lacking = [file for file in files if not Path(file).exists()]
    assert not lacking, f"there is no {', '.join(lacking)}"
    assert others or files, PipError("nothing to install")


def _has_extras(word: str) -> None:
    """Check the extras asked for one of our packages."""
    if found := re.match(r"(?:sottovoce-|\./)(\w+)(?:\[([^]]*)\])?", word):
        file = ROOT / found[1] / "pyproject.toml"
        assert file.is_file(), f"there is no package {found[1]}"
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        asked = {extra.strip() for extra in (found[2] or "").split(",")} - {""}
        lacking = asked - project.get("optional-dependencies", {}).keys()
        assert not lacking, f"{project['name']} has no extra {', '.join(lacking)}"


def _of_git(words: list[str], named: bool) -> None:
    assert words[:2] == ["worktree", "add"], "only worktrees are spoken of"
    assert len(words) == 4, "a folder and a commit"


def _of_grpcurl(words: list[str], named: bool) -> None:
    service, _, method = words[-1].rpartition("/")
    found = edge_agent_pb2.DESCRIPTOR.services_by_name.get(service.rpartition(".")[2])
    assert found is not None, f"there is no service {service}"
    assert found.full_name == service, f"it is {found.full_name}"
    called = found.methods_by_name.get(method)
    assert called is not None, f"{service} has no method {method}"
    request = getattr(edge_agent_pb2, called.input_type.name)
    json_format.ParseDict(json.loads(words[words.index("-d") + 1]), request())


def _of_export(words: list[str], named: bool) -> None:
    for word in words:
        name, _, value = word.partition("=")
        _is_set(name, value)


def _is_set(name: str, value: str) -> None:
    if _OWN.fullmatch(name):
        assert name in _settings(), f"nobody reads {name}"
        if name.startswith("SOTTO_PRIVACY_") and value:
            _is_one(name.lower(), value)


@cache
def _settings() -> frozenset[str]:
    """What either side takes from the environment, and tests do."""
    of_agent = {f"SOTTO_{name.replace('.', '_')}".upper() for name in _agent_settings()}
    of_cloud = {
        str(option.envvar)
        for name in COMMANDS
        for option in sotto_cloud.get_command(click.Context(sotto_cloud), name).params
    }
    of_tests = {
        name
        for file in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"\bSOTTO_TEST_[A-Z]+\b", file.read_text(encoding="utf-8"))
    }
    return frozenset(of_agent | of_cloud | of_tests | {"SOTTO_CONFIG", "SOTTO_CLOUD_CONFIG"})


@cache
def _agent_settings() -> frozenset[str]:
    """As `sotto config` names them."""
    return frozenset(
        f"{section}.{field.name}"
        for section, kind in get_type_hints(Config).items()
        if is_dataclass(kind)
        for field in fields(kind)
    )


def _of_cd(words: list[str], named: bool) -> None:
    assert len(words) == 1, "one folder"


def _of_sudo(words: list[str], named: bool) -> None:
    rest = words[2:] if words[0] == "-u" else words
    _judge(Part((), Path(rest[0]).name, tuple(rest[1:])), named=named)


_JUDGES: Final[dict[str, Callable[[list[str], bool], None]]] = {
    "sotto": _of_ours(sotto),
    "sotto-cloud": _of_ours(sotto_cloud),
    "sotto-models": _of_ours(sotto_models),
    "python": _of_python,
    "python3": _of_python,
    "make": _of_make,
    "pip": _of_pip,
    "git": _of_git,
    "grpcurl": _of_grpcurl,
    "export": _of_export,
    "cd": _of_cd,
    "sudo": _of_sudo,
}
