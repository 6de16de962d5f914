"""Ctrl-C ends every long command with 130, and says what goes on and how to come back."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from sottovoce.edge.cli import enroll as pulling
from sottovoce.edge.client.generation import OpenAIWriter
from sottovoce.edge.tasks.customize import Learner
from sottovoce.edge.tasks.distill import Distiller
from sottovoce.edge.tasks.local_inference import Home
from tests.support.agent import running
from tests.support.stub_cloud import StubCloud
from tests.support.waiting import until
from tests.unit.edge.cli.conftest import Device

PROGRAM = """
import signal, sys
from sottovoce.edge.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs the tests may ignore it
main(sys.argv[1:])
"""


@contextmanager
def typed(device: Device, *arguments: str) -> Iterator[Popen[str]]:
    """Run a command in its own process."""
    with Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=device.environment,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def interrupted(process: Popen[str]) -> str:
    """Press Ctrl-C; return the error output."""
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in told
    return told


@pytest.fixture
def table(linked: Device) -> str:
    file = linked.folder / "train.tsv"
    file.write_text("text\tlabel\n" + "the river\twet\nthe stone\tdry\n" * 10)
    return str(file)


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize("command", ["customize", "logs"])
def test_a_training_goes_on_without_who_follows_it(
    linked: Device, cloud: StubCloud, table: str, command: str, options: tuple[str, ...]
) -> None:
    cloud.may_train.clear()
    asked = ("customize", "desk", "--input", table)
    with running(linked.config):
        if command == "logs":
            linked.sotto(*asked, "--no-watch")
        follows = asked if command == "customize" else ("logs", "desk")
        with typed(linked, *follows, *options) as process:
            until(lambda: state(linked) == "training")
            assert process.stdout is not None
            if command == "logs":
                process.stdout.readline()
            told = interrupted(process)
        assert "`sotto logs desk`" in told
        assert "NAME" not in told
        if options:
            assert json.loads(told.splitlines()[-1])["error"]["code"] == "CANCELLED"
        cloud.may_train.set()
        until(lambda: state(linked) == "ready")


def state(device: Device) -> str:
    found: list[dict[str, Any]] = device.json("status")[0]["customizations"]
    return str(found[0]["state"]) if found else ""


def test_a_customisation_that_is_not_queued_says_that_the_same_command_is_safe(
    linked: Device, cloud: StubCloud, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.edge.cli.customize._requests", pressed)
    with running(linked.config):
        told = linked.sotto("customize", "desk", "--input", table, code=130).stderr
        assert "desk" in told
        assert "same command" in told
        assert not linked.json("status")[0]["customizations"]


def test_predict_says_how_many_texts_were_answered(
    linked: Device, cloud: StubCloud, table: str
) -> None:
    with running(linked.config):
        linked.sotto("customize", "desk", "--input", table)
    with typed(linked, "predict", "desk", "--where", "cloud") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(2):
            process.stdin.write("the river\n")
            process.stdin.flush()
            assert process.stdout.readline().startswith("wet")
        told = interrupted(process)
    found = re.search(r"(\d) texts? .* number (\d)", told.replace("\n", " "))
    assert found is not None
    # The second line may be shown and not yet counted.
    assert found.groups() in (("1", "2"), ("2", "3"))


def test_a_pull_that_waits_for_a_cloud_is_ended(device: Device) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with typed(device, "pull", address) as process:
            silent.accept()[0].close()
            silent.accept()[0].close()
            told = interrupted(process)
    assert "kept" in told
    assert "`sotto pull`" in told


def pressed(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("arguments", "place", "said"),
    [
        (("pull", "127.0.0.1:1"), (pulling, "pull"), "`sotto pull` again"),
        (("fetch", "desk"), (Home, "fetch"), "`sotto fetch desk` again"),
        (("learn", "desk", "--input", "TABLE"), (Learner, "learn"), "desk has not changed"),
        (
            (
                *("distill", "--input", "TABLE", "--public", "TABLE", "--output", "OUT"),
                *("--dp-epsilon", "1", "--upstream", "http://127.0.0.1:1/v1"),
            ),
            (Distiller, "distill"),
            "same command again",
        ),
    ],
)
def test_each_says_what_is_kept_and_how_to_go_on(
    linked: Device,
    table: str,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    place: tuple[Any, str],
    said: str,
) -> None:
    monkeypatch.setattr(OpenAIWriter, "check", lambda *_: None)
    monkeypatch.setattr(*place, pressed)
    words = {"TABLE": table, "OUT": str(linked.folder / "out.tsv")}
    told = linked.sotto(*(words.get(each, each) for each in arguments), code=130)
    assert said in told.stderr
    assert not told.stdout
    assert not Path(words["OUT"]).exists()
