"""`sotto serve` as a process; `sotto run` and `sotto ui` find it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.config import Config
from sottovoce.edge.http.endpoints import read_key
from sottovoce.v1 import edge_agent_pb2, edge_agent_pb2_grpc
from tests.support.agent import configured, running
from tests.support.openai_endpoint import Door
from tests.support.stub_cloud import StubCloud

from .conftest import Device


@contextmanager
def _served(device: Device, *arguments: str, first: str = "") -> Iterator[subprocess.Popen[str]]:
    program = (
        f"{first}from sottovoce.edge.cli import main; main({['serve', '--json', *arguments]!r})"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**device.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def test_a_bundle_pulled_while_it_runs_is_used(
    new_device: Callable[..., Device], cloud: StubCloud
) -> None:
    device = new_device()
    text = "Zyxglorp has seen the doctor"
    with _served(device) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready == {"serving": device.environment["SOTTO_AGENT_LISTEN"]}
        assert "sotto pull" in device.sotto("privatize", stdin=text, code=3).stderr
        device.sotto("pull", cloud.address)
        assert "Zyxglorp" not in device.sotto("privatize", stdin=text).stdout
        process.terminate()
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Zyxglorp" not in log
    assert "doctor" not in log


QUOTING = """
import logging
from sottovoce.edge import server
serve = server.serve
def quoting(*given, **named):
    logging.getLogger("asyncio").error("Task exception was never retrieved: %s", "Zyxglorp")
    serve(*given, **named)
server.serve = quoting
"""


def test_what_a_library_says_of_a_text_is_not_quoted(device: Device) -> None:
    with _served(device, first=QUOTING) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        _, log = process.communicate(timeout=60)
    assert "asyncio at " in log
    assert "Zyxglorp" not in log


def test_listen_overrides_the_configuration(device: Device, tmp_path: Path) -> None:
    with _served(device, "--listen", "127.0.0.1:0") as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["serving"]
        device.environment["SOTTO_AGENT_LISTEN"] = address
        (status,) = device.json("status")
        assert status["running"] is True
        process.terminate()
        process.communicate(timeout=60)


def test_it_ends_while_a_text_is_still_being_privatised(device: Device) -> None:
    endless = (
        "import threading\nfrom sottovoce.edge.tasks.privatize import Releases\n"
        "Releases.release = lambda *_: print(1, flush=True) or threading.Event().wait()\n"
    )
    with _served(device, first=endless) as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["serving"]
        with grpc.insecure_channel(address) as channel:
            stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)
            waiting = stub.Privatize.future(edge_agent_pb2.PrivatizeRequest(text="the river"))
            assert process.stdout.readline() == "1\n"
            process.terminate()
            process.communicate(timeout=60)
            assert process.returncode == 0
            assert waiting.exception() is not None


def sotto_run(config: Config, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    program = f"from sottovoce.edge.cli import main; main({['run', *command]!r})"
    settings = {
        "HOME": str(config.agent.state.parents[2]),
        "SOTTO_AGENT_LISTEN": config.agent.listen,
        "SOTTO_AGENT_STATE": str(config.agent.state),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **settings, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_program_gets_address_and_key_and_keeps_its_exit_code(tmp_path: Path) -> None:
    config = configured(tmp_path, SOTTO_OPENAI_ADDRESS="127.0.0.1:0")
    code = (
        "import json, os, sys;"
        "print(json.dumps({n: v for n, v in os.environ.items() if 'OPENAI' in n or 'PROXY' in n}));"
        "print(sys.argv[1:]); sys.exit(7)"
    )
    with running(config):
        done = sotto_run(
            config, "--", sys.executable, "-c", code, "--model", "x", NO_PROXY="example.org"
        )
        key = read_key(config.agent.state)
        (told,) = sotto_run(config, "--json", NO_PROXY="*").stdout.splitlines()
    assert json.loads(told)["OPENAI_API_KEY"] == key
    assert json.loads(told)["NO_PROXY"] == "*"
    assert done.returncode == 7, done.stderr
    environment, arguments = done.stdout.splitlines()
    assert arguments == "['--model', 'x']"
    found = json.loads(environment)
    assert found["OPENAI_API_KEY"] == key
    assert found["OPENAI_BASE_URL"] == found["OPENAI_API_BASE"]
    assert found["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")
    assert found["OPENAI_BASE_URL"].endswith("/v1")
    assert found["NO_PROXY"] == "example.org,127.0.0.1,localhost,::1"


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    config = configured(tmp_path)
    assert sotto_run(config).returncode == 2
    alone = sotto_run(config, "true")
    assert (alone.returncode, "sotto serve" in alone.stderr) == (3, True)
    with running(config):
        closed = sotto_run(config, "true")
    assert (closed.returncode, "--openai" in closed.stderr) == (3, True)


def test_a_program_that_is_not_there_is_not_run(tmp_path: Path) -> None:
    config = configured(tmp_path, SOTTO_OPENAI_ADDRESS="127.0.0.1:0")
    with running(config):
        missing = sotto_run(config, "no-such-program-anywhere")
    assert missing.returncode == 4
    assert "no-such-program-anywhere" in missing.stderr


def test_it_gives_a_link_that_is_answered(
    new_device: Callable[..., Device], small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    device = new_device(small_bundle_folder)
    with running(device.config, lexicon_tagger):
        (told,) = device.json("ui")
        parts = urlsplit(told["url"])
        page = Door(parts.netloc, "").ask("/", Authorization="")
        assert b"<title>Sottovoce on this device</title>" in page.body
        assert device.sotto("ui", "--no-open").stdout.startswith("http://127.0.0.1:")


def test_a_browser_is_opened_where_there_is_a_desktop(
    new_device: Callable[..., Device],
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    device = new_device(small_bundle_folder)
    device.environment |= {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
    with running(device.config, lexicon_tagger):
        device.sotto("ui")
        assert opened == []
        shown = device.sotto("ui", "--open").stdout
    assert opened == [shown.strip()]


def test_without_an_agent_it_says_how_to_start_one(device: Device) -> None:
    assert "sotto serve" in device.sotto("ui", code=3).stderr
