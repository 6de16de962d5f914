"""Every measurement that the docs name can be asked for as they name it."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.paths import ROOT

BENCH = ROOT / "bench" / "README.md"
RETIRED = {
    **dict.fromkeys(("bench.reconstruction", "bench.privacy_space", "bench.snd"), "bench-2026-11"),
    "bench.embed_wire": "ablations",
    "bench.embedding": "ablations",
    "bench.embedding.outputs": "ablations",
    "bench.keying": "ablations",
    "bench.names": "ablations",
    "bench.padding": "ablations",
    "bench.search": "ablations",
    "bench.space": "ablations",
    "bench.tagger": "ablations",
}
"""Commands that are run from a tag, and which."""


class _Parsed(Exception):
    """The arguments were understood."""


def _commands() -> Iterator[tuple[str, str]]:
    """Page and command, of lines of code and of code within lines."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("models/*/*.md")]
    for page in (*pages, BENCH, ROOT / "Makefile"):
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        code = [line for line in text.splitlines() if line.startswith(("    ", "\t", ".venv"))]
        code += [span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", text)]
        for line in code:
            if found := re.search(r"python -m (bench\.[a-z].*)", line):
                yield str(page.relative_to(ROOT)), found[1]
    for command in re.findall(r"^\| .* \| `(bench\.[^`]+)`", BENCH.read_text("utf-8"), re.M):
        yield "bench/README.md", command


COMMANDS = sorted(set(_commands()))


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_of_the_docs_is_understood(
    page: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, *arguments = shlex.split(command, comments=True)
    if name in RETIRED:
        assert RETIRED[name] in (ROOT / page).read_text(encoding="utf-8")
        return
    if "$" in command:  # of the Makefile
        arguments = []
    parse = ArgumentParser.parse_args

    def parsed(parser: ArgumentParser, *given: Any) -> Any:
        parse(parser, *given)
        raise _Parsed

    monkeypatch.setattr(ArgumentParser, "parse_args", parsed)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    module = importlib.import_module(f"{name}.__main__" if _is_package(name) else name)
    with pytest.raises(_Parsed):
        module.main()


def _is_package(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"there is no {name}"
    return spec.submodule_search_locations is not None


def test_the_docs_name_commands() -> None:
    named = {shlex.split(command, comments=True)[0] for _, command in COMMANDS}
    assert {"bench.attacks", "bench.utility", "bench.serving", "bench.live.wiretap"} <= named
    assert named >= RETIRED.keys()
