"""Pages that are generated are current, and what pages tell people to type exists."""

from __future__ import annotations

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import click
import pytest

from sottovoce.cloud.cli import main as sotto_cloud
from sottovoce.edge.cli import main as sotto
from tests.support.documented import PAGES, commands
from tests.support.paths import ROOT

TYPED = sorted({command for page in PAGES for command in commands(page)})


def test_the_page_of_commands_is_what_the_programs_say(tmp_path: Path) -> None:
    page = ROOT / "docs" / "cli.md"
    code = (
        "import runpy, sys; made = runpy.run_path('docs/generate.py');"
        "sys.stdout.buffer.write(made['page']().encode())"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    assert out.stdout.decode() == page.read_text(encoding="utf-8"), "run docs/generate.py"


def options(words: tuple[str, ...]) -> set[str]:
    return {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}


def test_the_documents_name_commands_of_every_kind() -> None:
    assert {command[0] for command in TYPED} == {"python", "make", "sotto", "sotto-cloud"}
    assert len(TYPED) > 50


def test_every_page_has_its_place_on_the_site() -> None:
    listed = re.findall(r"[a-z_]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("command", [c for c in TYPED if c[0] == "make"], ids=" ".join)
def test_what_is_made_has_a_rule(command: tuple[str, ...]) -> None:
    rules = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = {word for word in command[1:] if "=" not in word and not word.startswith("-")}
    assert asked <= rules


@pytest.mark.parametrize("command", [c for c in TYPED if c[0].startswith("sotto")], ids=" ".join)
def test_every_command_of_ours_takes_its_options(command: tuple[str, ...]) -> None:
    found: click.Command = sotto if command[0] == "sotto" else sotto_cloud
    for word in command[1:]:
        if isinstance(found, click.Group) and re.fullmatch(r"[a-z-]+", word):
            inner = found.get_command(click.Context(found), word)
            assert inner is not None, f"{found.name} has no command {word}"
            found = inner
    parameters = found.get_params(click.Context(found))
    assert options(command[1:]) <= {
        name for p in parameters for name in (*p.opts, *p.secondary_opts)
    }


MODULES = sorted({c[2] for c in TYPED if c[:2] == ("python", "-m") and c[2] != "bench.NAME"})


@pytest.mark.parametrize("module", MODULES)
def test_every_module_takes_its_options(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert importlib.util.find_spec(module) is not None
    used = set.union(*(options(c[3:]) for c in TYPED if c[:3] == ("python", "-m", module)))
    if not used:
        return
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    for name in (module, f"{module}.__main__"):  # runpy wants them fresh
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(SystemExit) as caught:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert caught.value.code == 0
    assert used <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
