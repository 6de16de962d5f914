"""Every measurement that the docs name can be asked for as they name it."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from argparse import ArgumentParser
from typing import Any

import pytest

from tests.support.documented import PAGES, commands
from tests.support.paths import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
COMMANDS = {
    words[2:] for page in PAGES for words in commands(page) if words[:2] == ("python", "-m")
}
COMMANDS |= {(name,) for name in re.findall(r"python -m (bench\.[a-z_.]+)", MAKEFILE)}
ASKED = sorted(words for words in COMMANDS if re.match(r"bench\.[a-z]", words[0]))


class _Parsed(Exception):
    """The arguments were understood."""


@pytest.mark.parametrize("command", ASKED, ids=" ".join)
def test_a_command_of_the_docs_is_understood(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = command[0]
    parse = ArgumentParser.parse_args

    def parsed(parser: ArgumentParser, *given: Any) -> Any:
        parse(parser, *given)
        raise _Parsed

    monkeypatch.setattr(ArgumentParser, "parse_args", parsed)
    monkeypatch.setattr(sys, "argv", [*command])
    module = importlib.import_module(f"{name}.__main__" if _is_package(name) else name)
    if len(command) == 1 and not hasattr(module, "main"):
        return  # a module that is spoken of
    with pytest.raises(_Parsed):
        module.main()


def _is_package(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"there is no {name}"
    return spec.submodule_search_locations is not None


def test_the_docs_name_commands() -> None:
    named = {command[0] for command in ASKED}
    assert {"bench.attacks", "bench.utility", "bench.serving", "bench.live.wiretap"} <= named
    assert {"bench.edge_latency", "bench.report"} <= named
