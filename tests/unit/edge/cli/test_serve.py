"""`sotto serve` as a process: says when it is ready, logs no text, takes up a new bundle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from sottovoce.v1 import edge_agent_pb2, edge_agent_pb2_grpc
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
