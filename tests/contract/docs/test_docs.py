"""Generated pages are current, and each program reads the commands that pages show."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import click
import pytest
from google.protobuf.descriptor import FieldDescriptor

from sottovoce.cloud import cli
from sottovoce.cloud.cli import main as sotto_cloud
from sottovoce.edge import config
from sottovoce.models.corpus import Language
from sottovoce.v1 import edge_agent_pb2
from tests.support.documented import PAGES, Snippet, Typed, read
from tests.support.judged import Wrong, judge
from tests.support.not_typed import NOT_TYPED, reason
from tests.support.paths import ROOT
from tests.support.reader import furnish

SHOWN = {page: read(page) for page in PAGES}
LINES = [typed for lines, _ in SHOWN.values() for typed in lines]
SNIPPETS = [snippet for _, snippets in SHOWN.values() for snippet in snippets]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, bundle_folder: Path) -> Path:
    made = tmp_path_factory.mktemp("reader")
    furnish(made, bundle_folder)
    return made


@pytest.mark.parametrize(("file", "made"), [("cli.md", "page"), ("settings.md", "settings_page")])
def test_generated_pages_are_what_the_code_says(file: str, made: str) -> None:
    page = ROOT / "docs" / file
    code = (
        "import runpy, sys; made = runpy.run_path('docs/generate.py');"
        f"sys.stdout.buffer.write(made['{made}']().encode())"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    assert out.stdout.decode() == page.read_text(encoding="utf-8"), "run docs/generate.py"


def test_every_page_has_its_place_on_the_site() -> None:
    listed = re.findall(r"[a-z_]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_a_page_loads_nothing_from_outside(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)
    assert not re.search(r"!\[[^\]]*\]\((https?:)?//|<(img|script|iframe)\b", shown)


@pytest.mark.parametrize("word", ["docker", "telemetry", "windows", "latency", "phone"])
def test_a_heading_answers_what_people_search_for(word: str) -> None:
    headings = re.findall(r"^#+ (.*)$", (ROOT / "docs" / "faq.md").read_text("utf-8"), re.M)
    assert any(word in heading.lower() for heading in headings)


def test_the_documents_name_commands_of_every_kind() -> None:
    programs = {part.program for typed in LINES for part in typed.parts}
    assert {"python", "make", "sotto", "sotto-cloud", "pip"} <= programs
    assert len({typed.parts for typed in LINES}) > 200


@pytest.mark.parametrize("page", [page for page, (lines, _) in SHOWN.items() if lines])
def test_programs_read_what_a_page_has_people_type(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    wrong = []
    for typed in SHOWN[page][0]:
        try:
            judge(typed)
        except Wrong as error:
            wrong.append(str(error))
        for part in typed.parts:  # a page's settings hold for the rest of it
            if part.program == "export":
                for word in part.words:
                    monkeypatch.setenv(*word.split("=", 1))
        if (pattern := reason(typed)) and typed.block:
            print(f"{typed.where}: {typed.line}\n    is not typed: {NOT_TYPED[pattern]}")
    assert "\n".join(wrong) == ""


def stale(lines: Iterable[Typed]) -> list[str]:
    met = {reason(typed) for typed in lines}
    return [pattern for pattern in NOT_TYPED if pattern not in met]


def test_no_reason_is_given_for_what_nobody_shows() -> None:
    assert stale(LINES) == []
    assert stale(t for t in LINES if "systemd" not in t.line and "service" not in t.line) == [
        r"sotto service "
    ]


def test_the_doctor_that_is_shown_sees_what_enrolling_wrote() -> None:
    lines, shown = SHOWN["docs/tutorial_pi.md"]
    enrolled = next(
        words for t in lines for words in [t.parts[0].words] if words[:1] == ("enroll",)
    )
    (said,) = (snippet.text for snippet in shown if snippet.text.startswith("OK"))
    found = dict(line.split(maxsplit=2)[1:] for line in said.splitlines())
    assert found["config"].endswith("/.config/sottovoce/agent.toml")  # a user's own
    assert found["cloud"].split()[0] == enrolled[enrolled.index("--address") + 1]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda s: f"{s.where} {s.language}")
def test_a_snippet_is_taken_by_what_it_is_for(
    snippet: Snippet, folder: Path, tmp_path: Path
) -> None:
    match snippet.language:
        case "text":
            return  # what a program said
        case "python" if snippet.text == (folder / "app.py").read_text():
            return  # `sotto run` starts it, in test_docs_typed.py
        case "python" | "js" if snippet.where.startswith("clients/"):
            return  # test_clients.py runs it
        case "python":
            code = [sys.executable, "-c", snippet.text]
            subprocess.run(code, cwd=folder, check=True, capture_output=True)
        case "json":
            Language.from_dict(json.loads(snippet.text))
        case "toml":
            _settings(snippet, tmp_path / "settings.toml")
        case "go":
            _names_of_go(snippet.text)
        case other:
            pytest.fail(f"{snippet.where}: nobody reads {other}")


def _settings(snippet: Snippet, file: Path) -> None:
    """The agent's, or the provider's, which names commands."""
    file.write_text(snippet.text, encoding="utf-8")
    tables = {key for key, value in tomllib.loads(snippet.text).items() if isinstance(value, dict)}
    if tables <= {"agent", "bundle", "tagger", "privacy", "cloud", "openai", "chat", "ui"}:
        config.load(file, {"HOME": str(file.parent)})
        return
    document = cli.read(file, cli.COMMANDS)
    for name in tables:
        command = sotto_cloud.get_command(click.Context(sotto_cloud), name)
        assert command is not None
        cli.defaults(command, name, document)


def _names_of_go(text: str) -> None:
    """`make clients` compiles the Go client; here its names are looked up in the protos."""
    services = edge_agent_pb2.DESCRIPTOR.services_by_name
    messages = edge_agent_pb2.DESCRIPTOR.message_types_by_name
    for name in re.findall(r"pb\.New(\w+)Client", text):
        assert name in services
    for name, fields in re.findall(r"&pb\.(\w+)\{([^}]*)\}", text):
        known_fields: list[FieldDescriptor] = list(messages[name].fields)
        written = {each.name.replace("_", "").lower() for each in known_fields}
        assert {field.lower() for field in re.findall(r"(\w+):", fields)} <= written
