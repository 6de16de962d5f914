"""`sotto chat` and `sotto generate`: from a pipe and a terminal, with and without the daemon."""

from __future__ import annotations

import itertools
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sottovoce.edge.state.database import Store
from sottovoce.edge.state.outbox import Outbox
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import running
from tests.support.echo import EchoingCloud, echoing_cloud, last_text
from tests.support.upstream_server import Server, event, openai_server

from .conftest import Device

CODES = {"broken off": 6, "huge": 6, "unending": 2}
TEXT = "Zelphira Quarnivel saw Jorvane and order AX-68042"


@pytest.fixture
def cloud() -> Iterator[EchoingCloud]:
    with echoing_cloud() as server:
        yield server


@pytest.fixture
def talking(new_device: Callable[..., Device], tagged_bundle: Path, cloud: EchoingCloud) -> Device:
    return new_device(tagged_bundle, SOTTO_CLOUD_ADDRESS=cloud.address)


@pytest.fixture
def server() -> Iterator[Server]:
    with openai_server() as found:
        yield found


def test_what_may_be_computed_is_named_in_one_line(talking: Device, cloud: EchoingCloud) -> None:
    cloud.answer = lambda _: ["It is 123,456."]
    result = talking.sotto("chat", "--policy", "names", stdin="What is 17 * 23?")
    assert result.stdout == "It is 123,456.\n"
    (line,) = result.stderr.splitlines()
    assert "123,456" in line


def test_each_line_is_a_turn_of_one_conversation(talking: Device, cloud: EchoingCloud) -> None:
    said = f"{TEXT}\nand {TEXT}\n"
    result = talking.sotto("chat", "--system", "Be kind to Zelphira.", stdin=said)
    assert result.stdout == said
    first, second = (request.conversation.turns for request in cloud.asked)
    assert [turn.role for turn in second] == [1, 2, 3, 2]
    assert list(second[:2]) == list(first)
    assert second[2].released_text == first[1].released_text  # the answer, as it was written
    assert "Zelphira" not in f"{first} {second}"
    with running(talking.config):
        assert talking.sotto("chat", stdin=TEXT).stdout.strip() == TEXT


def test_what_left_and_what_came_is_shown_beside(talking: Device, cloud: EchoingCloud) -> None:
    result = talking.sotto("chat", "--show", stdin=TEXT)
    assert result.stdout == f"{TEXT}\n"
    left = last_text(cloud.asked[0])
    assert f"leaves  {left}\n" in result.stderr
    assert f"came  {left}\n" in result.stderr
    assert " -> Zelphira" in result.stderr
    (told,) = talking.json("chat", "--policy", "names", stdin=TEXT)
    assert told["text"] == TEXT
    assert told["left"] == [{"role": "user", "text": told["came"]}]
    assert {each["shown"] for each in told["restored"]} >= {"Zelphira", "Quarnivel", "Jorvane"}
    assert (told["finish_reason"], told["policy"], told["doubtful"]) == ("stop", "names", [])


def test_what_leaves_is_shown_though_nothing_is_sent(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle, SOTTO_CLOUD_ADDRESS="127.0.0.1:9")
    options = ("chat", "--show", "--policy", "names")
    told = device.sotto(*options, stdin=TEXT, code=6)
    assert "leaves  " in told.stderr
    assert "Zelphira (name)" in told.stderr
    (shown,) = device.json(*options, stdin=TEXT, code=6)
    (turn,) = shown["leaves"]
    assert "Zelphira" not in turn["text"]
    words = {TEXT[word["start"] : word["end"]]: word["hides"] for word in turn["words"]}
    assert (words["Zelphira"], words["AX-68042"]) == ("name", "identifier")


def test_a_pipe_is_refused_where_the_owner_is_to_be_asked(
    talking: Device, cloud: EchoingCloud
) -> None:
    talking.environment["SOTTO_CHAT_ASK_FIRST"] = "true"
    for command in (("chat",), ("chat", "--show", "--json")):
        told = talking.sotto(*command, stdin=TEXT, code=3)
        assert "chat.ask_first false" in told.stderr
    assert cloud.asked == []


def test_addresses_that_were_kept_are_told_of(talking: Device, cloud: EchoingCloud) -> None:
    cloud.answer = lambda request: ["![x](/?q=", last_text(request).split()[0], ")"]
    shown = talking.sotto("chat", "--show", stdin=TEXT)
    assert "Zelphira" not in shown.stdout
    assert "kept  1 " in shown.stderr
    (told,) = talking.json("chat", stdin=TEXT)
    assert told["addresses_kept"] == 1


def test_options_reach_the_model(talking: Device, cloud: EchoingCloud) -> None:
    options = ("--max-tokens", "9", "--temperature", "0.5", "--seed", "3", "--stop", "Jorvane")
    assert talking.sotto("chat", *options, stdin=TEXT).stdout == "Zelphira Quarnivel saw \n"
    sampling = cloud.asked[0].sampling
    assert (sampling.max_tokens, sampling.temperature) == (9, 0.5)
    assert sampling.HasField("seed")


def test_another_server_answers_where_one_is_named(
    talking: Device, cloud: EchoingCloud, server: Server
) -> None:
    for options in (("--upstream", server.url), ("--upstream", server.url, "--model", "m:7b")):
        assert talking.sotto("chat", *options, stdin=TEXT).stdout == f"{TEXT}\n"
    assert [body["model"] for _, _, body in server.asked] == ["default", "m:7b"]
    assert "Zelphira" not in json.dumps(server.asked)
    talking.environment |= {"SOTTO_CHAT_UPSTREAM": server.url, "SOTTO_CHAT_MODEL": "mine"}
    with running(talking.config):
        assert talking.sotto("chat", stdin=TEXT).stdout == f"{TEXT}\n"
        assert talking.sotto("generate", "m", TEXT).stdout == f"{TEXT}\n"
    assert [body["model"] for _, _, body in server.asked[2:]] == ["mine", "m"]
    assert not cloud.asked
    refused = talking.sotto("chat", "--upstream", "http://example.org", stdin=TEXT, code=78)
    assert "without TLS" in refused.stderr


def test_a_terminal_is_sent_nothing_that_it_obeys(talking: Device, server: Server) -> None:
    server.answer = lambda body: [event("a\x1b]0;b\x07\tc\n\x9b\u202e", reason="stop")]
    shown = talking.sotto("chat", "--show", "--upstream", server.url, stdin=TEXT)
    assert "came  a\ufffd]0;b\ufffd\tc\ufffd\ufffd\ufffd\n" in shown.stderr  # no line of its own
    assert shown.stdout == "a\x1b]0;b\x07\tc\n\x9b\u202e\n"  # a pipe gets the bytes that came


@pytest.mark.parametrize("how", ["broken off", "huge", "unending"])
def test_a_hostile_server_is_an_error(talking: Device, server: Server, how: str) -> None:
    answers: dict[str, Callable[[dict[str, Any]], Any]] = {
        "broken off": lambda body: [event("so ")],
        "huge": lambda body: [event("x" * (2 << 20), reason="stop")],
        "unending": lambda body: itertools.repeat(event("x" * 9_000)),
    }
    server.answer = answers[how]
    with running(talking.config):
        result = talking.sotto("chat", "--upstream", server.url, stdin=f"{TEXT}\n", code=CODES[how])
    assert "standard input, line 1" in result.stderr
    assert "fix:" in result.stderr


def test_what_goes_wrong_is_told(talking: Device) -> None:
    assert "line 2" in talking.sotto("chat", stdin="a lamp\n \n", code=2).stderr
    assert "policy" in talking.sotto("chat", "--policy", "none", stdin="a lamp", code=4).stderr
    assert "give one" in talking.sotto("generate", "a", "b", "--input", "c", code=2).stderr
    assert "no such adapter" in talking.sotto("generate", "none", "a lamp", code=4).stderr


_COMMAND = """
import signal
from sottovoce.edge.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs the tests may ignore it
main()
"""


class Terminal:
    """The command as a person sees it."""

    def __init__(self, device: Device, *options: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, "chat", *options],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, **device.environment, "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ""

    def types(self, text: str) -> None:
        os.write(self._master, text.encode())

    def shows(self, wanted: str, pressed: bool = False) -> None:
        """Wait until the text is shown, and forget the text up to there.

        With ``pressed``, press Ctrl-C every five seconds: Python misses a signal between its prompt
        and its reading.
        """
        until = time.monotonic() + 60
        press = time.monotonic()
        while wanted not in self.shown:
            assert time.monotonic() < until, self.shown
            if pressed and time.monotonic() >= press:
                os.kill(self.process.pid, signal.SIGINT)
                press = time.monotonic() + 5
            if select.select([self._master], [], [], 0.2)[0]:
                self.shown += os.read(self._master, 4096).decode(errors="replace")
        self.shown = self.shown.partition(wanted)[2]

    def ends(self) -> int:
        """Press Ctrl-D every second until the program ends, because keys between two prompts are
        lost."""
        for _ in range(60):
            self.types("\x04")
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(1)
        raise AssertionError(self.shown)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(60)
        os.close(self._master)


def test_ctrl_c_ends_the_answer_and_ctrl_d_the_conversation(
    talking: Device, cloud: EchoingCloud
) -> None:
    cloud.answer = lambda request: (time.sleep(0.01) or "so " for _ in itertools.count())
    with Terminal(talking) as terminal:
        terminal.shows("> ")
        terminal.types("tell Zelphira a story\n")
        terminal.shows("so so")
        os.kill(terminal.process.pid, signal.SIGINT)
        terminal.shows("(ended")
        assert cloud.cancelled.wait(60)
        terminal.shows("> ")
        cloud.answer = lambda request: ["the \x1b]0;end"]
        terminal.types("go on\n")
        terminal.shows("the \ufffd]0;end")
        assert [turn.role for turn in cloud.asked[1].conversation.turns] == [2, 3, 2]
        terminal.shows("> ")
        terminal.shows("(Ctrl-D ends", pressed=True)
        assert terminal.ends() == 0


def test_a_person_is_asked_before_the_first_message_alone(
    talking: Device, cloud: EchoingCloud
) -> None:
    talking.environment["SOTTO_CHAT_ASK_FIRST"] = "true"
    with Terminal(talking) as terminal:
        terminal.shows("> ")
        terminal.types("tell Zelphira a story\n")
        terminal.shows("leaves  ")
        terminal.shows("Zelphira (person)")
        terminal.shows("Send it?")
        assert cloud.asked == []
        terminal.types("n\n")
        terminal.shows("> ")
        terminal.types("tell Jorvane a story\n")
        terminal.shows("Send it?")
        terminal.types("y\n")
        terminal.shows("tell Jorvane a story")
        terminal.shows("> ")
        terminal.types("go on\n")
        terminal.shows("go on")
        terminal.shows("> ")
        assert [len(each.conversation.turns) for each in cloud.asked] == [1, 3]
        assert terminal.ends() == 0


def test_lines_are_continued_in_order(
    new_device: Callable[..., Device], tagged_bundle: Path, server: Server
) -> None:
    device = new_device(tagged_bundle, SOTTO_CHAT_UPSTREAM=server.url)
    source = device.folder / "texts.txt"
    source.write_text("Zelphira saw the lamp\nMark saw Zelphira\n")
    assert device.sotto("generate", "m", "--input", str(source)).stdout == source.read_text()
    assert [path for path, _, _ in server.asked] == ["/v1/completions"] * 2
    assert "Zelphira" not in f"{server.asked}"
    told = device.json("generate", "m", stdin=source.read_bytes())
    assert [each["text"] for each in told] == source.read_text().splitlines()
    assert [each["charged"] for each in told] == [0, 0]
    result = device.sotto("generate", "m", stdin="a lamp\n\n", code=2)
    assert (result.stdout, "line 2: there is nothing" in result.stderr) == ("a lamp\n", True)
    server.status = 401
    assert "chat.key_file" in device.sotto("generate", "m", "a lamp", code=7).stderr


def test_the_name_of_an_adapter_does_not_leave(
    new_device: Callable[..., Device], tagged_bundle: Path, server: Server
) -> None:
    device = new_device(tagged_bundle, SOTTO_CHAT_UPSTREAM=server.url)
    assert device.sotto("generate", "mine", "a lamp").stdout == "a lamp\n"
    store = Store.open(device.config.agent.state)
    record, job = agent.Customization(id="one", adapter="mine"), training.CreateJobRequest()
    with store.transaction() as transaction:
        Outbox(store).insert(transaction, record, "request", job, {})
    store.close()
    assert "does not leave" in device.sotto("generate", "mine", "a lamp", code=2).stderr
    assert len(server.asked) == 1
