"""The Python, HTTP and Node clients against a real daemon. The others: `make clients`."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from clients import builds, check, wire
from clients.builds import CLIENTS
from clients.check import READINGS, SAID, Device
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.cli.client import connect
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.documented import read
from tests.support.upstream_server import openai_server


@pytest.fixture(scope="module")
def device(
    tmp_path_factory: pytest.TempPathFactory, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[Device]:
    folder = tmp_path_factory.mktemp("clients")
    with check.started(folder, small_bundle_folder, lexicon_tagger) as started:
        yield started


@pytest.fixture(autouse=True)
def _thin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client from its sources, without the stubs of `protos/`."""
    monkeypatch.setattr(check, "python", lambda: _with_client(CLIENTS / "python"))


def _with_client(folder: Path) -> list[str]:
    """Return an interpreter that finds the client in ``folder`` and none of our packages."""
    program = (
        f"import sys, runpy; sys.argv.pop(0); sys.path.insert(0, {str(folder)!r}); "
        "sys.modules['sottovoce'] = None; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    return [sys.executable, "-P", "-c", program]


def test_a_sensor_streams_and_is_told_labels(device: Device) -> None:
    told = check.asked([*check.python(), "sensor.py"], device, CLIENTS / "python")
    lines = [line.split("\t") for line in told.splitlines()]
    assert len(lines) == len(READINGS.splitlines())
    assert {label for _, label in lines} <= {"clinic", "outside"}
    with connect(device.address) as remote:  # the same bytes as any other app gets
        asked = agent.PredictRequest(adapter=check.ADAPTER, text=READINGS.splitlines()[0])
        answer = remote.agent.Predict(asked)
    assert lines[0] == [answer.released_text, answer.label]
    assert "Anna" not in told


def test_the_python_packages_own_tests_pass(device: Device) -> None:
    tests = str(CLIENTS / "python" / "tests")
    arguments = ["-q", "-p", "no:cacheprovider", "-c", str(CLIENTS / "python" / "pyproject.toml")]
    program = (
        f"import sys; sys.path.insert(0, {str(CLIENTS / 'python')!r}); "
        "sys.modules['sottovoce'] = None; "
        f"import pytest; sys.exit(pytest.main({[*arguments, tests]!r}))"
    )
    listen = {"SOTTO_AGENT_LISTEN": device.address}
    told = builds.run([sys.executable, "-P", "-c", program], CLIENTS / "python", "", listen)
    assert "skipped" not in told


def test_a_sensor_is_an_app_by_its_token_over_tcp(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    settings = {"SOTTO_AGENT_LISTEN": "127.0.0.1:0", "SOTTO_AGENT_APPS": "true"}
    with check.started(tmp_path, small_bundle_folder, lexicon_tagger, **settings) as device:
        command = [*check.python(), "sensor.py"]
        told = check.asked(command, device, CLIENTS / "python")
        assert len(told.splitlines()) == len(READINGS.splitlines())
        with pytest.raises(builds.Failed, match="UNAUTHENTICATED"):
            check.asked(command, replace(device, token=""), CLIENTS / "python")


def test_a_chat_line_and_a_conversation_over_http_are_turned_back(device: Device) -> None:
    assert check.chatted(device) == SAID
    assert check.spoken(device) == SAID


def test_a_conversation_is_remembered_by_its_last_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["conversation_agent.py"])
    monkeypatch.setenv("KEY", "any")
    with openai_server() as server:
        server.headers = {"Content-Type": "application/json"}
        server.answer = lambda _: [b'{"choices": [{"message": {"content": "yes"}}]}']
        monkeypatch.setenv("OPENAI_ADDRESS", server.url)
        client = runpy.run_path(str(CLIENTS / "http" / "conversation_agent.py"))
        turns, conversations = client["TURNS"], client["CONVERSATIONS"]
        for number in range(turns):
            client["agent"].process("kitchen", str(number))
        last = server.asked[-1][2]["messages"]
        assert [each["role"] for each in last] == ["user", "assistant"] * (turns // 2) + ["user"]
        assert last[-1]["content"] == str(turns - 1)
        for number in range(conversations):
            client["agent"].process(f"room {number}", "hello")
        client["agent"].process("kitchen", "hello")  # forgotten meanwhile
        assert len(server.asked[-1][2]["messages"]) == 1
        client["agent"].process(f"room {conversations - 1}", "again")
        assert len(server.asked[-1][2]["messages"]) == 3


def test_what_was_installed_before_its_sources_changed_is_not_new(tmp_path: Path) -> None:
    done, source = tmp_path / "done", tmp_path / "sources" / "deep" / "client.py"
    source.parent.mkdir(parents=True)
    source.touch()
    assert not builds.newer(done, tmp_path / "sources")
    done.touch()
    assert builds.newer(done, tmp_path / "sources")
    os.utime(source, (done.stat().st_mtime + 1,) * 2)
    assert not builds.newer(done, tmp_path / "sources")


def test_clients_carry_the_wire_as_it_is() -> None:
    """`python -m clients.wire` writes the copies anew."""
    files = {
        path
        for folder in wire.FOLDERS
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {path: path.read_text() for path in files} == wire.carried()


def test_the_carried_stubs_and_the_devices_live_in_one_process() -> None:
    both = "from sottovoce.v1 import edge_chat_pb2; from sottovoce_client.v1 import edge_chat_pb2"
    builds.run([sys.executable, "-c", both], CLIENTS / "python")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Copies of the clients' folders outside the checkout."""
    products = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "node_modules")
    for name in ("python", "node"):
        shutil.copytree(CLIENTS / name, tmp_path / name, symlinks=True, ignore=products)
    return tmp_path


def _example(client: str, where: Path, address: str = "") -> str:
    """The example of a client's README, as a file."""
    _, (snippet,) = read(f"clients/{client}/README.md")
    file = where / f"example.{snippet.language}"
    file.write_text(re.sub(r"unix:[^\"]*", address, snippet.text))
    return str(file)


@pytest.mark.parametrize("kind", ["folder", "wheel", "sdist"])
def test_the_python_client_installs_from(kind: str, elsewhere: Path, device: Device) -> None:
    # An older setuptools knows no licence expressions. It is not imported: see test_wheel.py.
    if int(version("setuptools").partition(".")[0]) < 77:
        pytest.skip("setuptools is older than 77: pip install -U setuptools")
    source, installed = elsewhere / "python", elsewhere / "installed"
    if kind != "folder":
        build = f"import setuptools.build_meta as b; print(b.build_{kind}('..'))"
        builds.run([sys.executable, "-c", build], source)
        (source,) = elsewhere.glob("sottovoce_client-*.*")
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--target", str(installed))
    builds.run([sys.executable, "-m", "pip", "install", "-q", *offline, str(source)], elsewhere)
    sensor = str(elsewhere / "python" / "sensor.py")
    told = check.asked([*_with_client(installed), sensor], device, elsewhere)
    assert len(told.splitlines()) == len(READINGS.splitlines())
    example, listen = _example("python", elsewhere), {"SOTTO_AGENT_LISTEN": device.address}
    said = builds.run([*_with_client(installed), example], elsewhere, "", listen)
    assert said.strip()
    assert "Anna" not in said
    shutil.rmtree(installed)  # or the sources would have answered
    with pytest.raises(builds.Failed, match="sottovoce_client"):
        check.asked([*_with_client(installed), sensor], device, elsewhere)


@pytest.mark.parametrize("kind", ["folder", "tarball"])
def test_the_node_client_installs_from(kind: str, elsewhere: Path, device: Device) -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("no Node.js: install it (Debian: nodejs npm)")
    where, what, module = elsewhere / "node", (), "./sottovoce.js"
    if kind == "tarball":
        builds.run(["npm", "pack", "--pack-destination", str(elsewhere)], where)
        what, module = tuple(map(str, elsewhere.glob("*.tgz"))), "sottovoce-client"
        sensor, where = (where / "sensor.js").read_text(), elsewhere / "app"
        where.mkdir()
        (where / "package.json").write_text('{"type": "module"}')
        (where / "sensor.js").write_text(sensor.replace("./sottovoce.js", module))
        shutil.rmtree(elsewhere / "node")
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *what]
    done = subprocess.run(install, cwd=where, text=True, capture_output=True, check=False)
    if any(each in done.stderr for each in ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT")):
        pytest.skip("npm does not reach its registry")
    assert not done.returncode, done.stderr
    if kind == "folder":
        listen = {"SOTTO_AGENT_LISTEN": device.address}
        assert "# skipped 0" in builds.run(["npm", "test", "--silent"], where, "", listen)
    told = check.asked(["node", "sensor.js"], device, where)
    assert len(told.splitlines()) == len(READINGS.splitlines())
    said = builds.run(["node", _example("node", where, device.address)], where)
    assert said.strip()
    assert "Anna" not in said
