"""All pages and commands beside a running daemon, which is then killed.

The daemon and the commands share one database. POSIX drops a process's locks on a file when the
process closes any descriptor of that file. A daemon without its locks loses its write-ahead log to
the next command. After such a loss and the daemon's death, the ledger has lost charges, a removed
app gets answers, and a destroyed key is still in use.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner

from soak.campaign.daemons import PROGRAM, Daemon, device
from soak.campaign.everything import ENDPOINT, PAGE, requests
from soak.campaign.tally import Tally
from sottovoce.edge.cli import main
from sottovoce.edge.cli.client import connect
from sottovoce.edge.http.endpoints import read_key
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_owner_pb2
from tests.support.agent import TOKEN, labelled
from tests.support.openai_endpoint import Door, entered
from tests.support.paths import BUNDLE
from tests.support.processes import environment
from tests.support.stub_cloud import stub_cloud
from tests.support.upstream_server import openai_server

_LIGHT: Final = ("--level", "light")
_FIRST: Final = ("customize", "share")
"""Commands that others depend on."""
_LAST: Final = "rm"
_LONG: Final = ("bench", "bugreport", "doctor", "enroll", "serve")
"""Slow commands, which take seconds each; a trial runs one of them, in turn."""
COMMANDS: Final[dict[str, tuple[tuple[str, ...], int]]] = {
    "serve": ((), 3),  # one runs already
    "enroll": (("AAAA-AAAA", "--address", "127.0.0.1:9"), 6),
    "pull": (("--bundle", "0" * 16), 4),
    "privatize": (("{text}",), 0),
    "try": (("{text}",), 0),
    "predict": (("{name}", "{text}", "--where", "cloud", *_LIGHT), 0),
    "correct": (("{name}", "{text}", "clinic"), 0),
    "corrections": (("{name}", "--show"), 0),
    "fetch": (("{name}",), 3),  # the bundle has no encoder
    "learn": (("own", "--input", "{table}"), 3),  # the bundle has no encoder
    "share": (("{name}", "--output", "{shared}"), 0),
    "join": (("{shared}",), 3),  # it is here
    "chat": ((), 0),
    "run": ((), 0),
    "generate": (("a-model", "{text}"), 0),
    "embed": (("{text}",), 0),
    "customize": (("{name}", "--input", "{table}", *_LIGHT), 0),
    "distill": (
        ("--input", "{table}", "--public", "{table}", "--output", "{public}", "--dp-epsilon", "8"),
        2,  # the examples are too few
    ),
    "list": ((), 0),
    "show": (("{name}",), 0),
    "logs": (("{name}",), 0),
    "cancel": (("{name}",), 3),  # it has ended
    "rollback": (("{name}",), 3),  # it is the first version
    "rm": (("{name}", "--yes"), 0),
    "calibrate": (("--text", "{text}"), 0),
    "bench": (("--most", "10", "--repeats", "1"), 0),
    "ledger": ((), 0),
    "apps": (("list",), 0),
    "ui": ((), 0),
    "status": ((), 0),
    "rotate-key": ((), 0),
    "move-key": (("credential",), 3),  # an agent runs
    "doctor": ((), 0),
    "bugreport": ((), 0),
    "config": (("list",), 0),
    "words": (("list",), 0),
    "service": (("install", "--print"), 0),
    "licences": ((), 0),
    "completion": (("bash",), 0),
    "version": ((), 0),
}
"""The device's commands, each with arguments and the expected exit code."""


class Fault(Exception):
    """A violation, of a kind of `tally.FAULTS`."""

    def __init__(self, kind: str, seen: str) -> None:
        super().__init__(seen)
        self.kind = kind


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Daemon]:
    """Run a daemon with an OpenAI endpoint, a cloud and an upstream."""
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(f"{TOKEN}\n")
    with (
        stub_cloud(BUNDLE) as cloud,
        openai_server() as upstream,
        device(
            folder,
            BUNDLE,
            SOTTO_CLOUD_ADDRESS=cloud.address,
            SOTTO_CLOUD_TENANT="t",
            SOTTO_CLOUD_TOKEN_FILE=str(token),
            SOTTO_CHAT_UPSTREAM=upstream.url,
            SOTTO_CHAT_MODEL="a-model",
            SOTTO_OPENAI_ADDRESS="127.0.0.1:0",
            SOTTO_UI_RECORD="true",
        ) as daemon,
    ):
        yield daemon


@dataclass
class _Trial:
    """One life of the daemon, and the state that it must keep."""

    daemon: Daemon
    number: int
    token: str = ""
    """The token of an app."""
    removed: bool = False
    spent: tuple[float, ...] = ()
    """The last known state of the ledger."""
    released: dict[str, str] = field(default_factory=dict)
    """Releases by text, under the key in use."""

    @property
    def text(self) -> str:
        return f"Anna was in the garden of house {self.number} with 4 of 7 doctors"

    def sotto(self, name: str, *arguments: str, code: int = 0) -> str:
        """Return a command's output; the command runs in this process, not in the daemon's."""
        done = CliRunner().invoke(
            main, [name, *arguments, "--json"], input=self.text, env=self.daemon.environ
        )
        if done.exit_code != code:
            told = repr(done.exception) if done.exit_code == 1 else done.output
            raise Fault("unexplained", f"`sotto {name}` ended with {done.exit_code}: {told[:300]}")
        return done.stdout

    def command(self, name: str) -> None:
        """Run one of `COMMANDS`."""
        arguments, code = COMMANDS[name]
        folder = self.daemon.folder
        places = {each: str(folder / each) for each in ("table", "public", "shared")}
        filled = [
            each.format(text=self.text, name=f"adapter-{self.number}", **places)
            for each in arguments
        ]
        if name == "serve":  # takes signals over, so not here
            program = [sys.executable, "-c", PROGRAM.format("edge"), name]
            ended = subprocess.run(
                program, env=environment() | self.daemon.environ, capture_output=True, check=False
            )
            if ended.returncode != code:
                raise Fault("unexplained", f"a second daemon ended with {ended.returncode}")
            return
        self.sotto(name, *filled, code=code)
        if name == "rotate-key":
            self._rotated()

    def page(self, path: str) -> None:
        """Open the owner's page and request a path."""
        with connect(self.daemon.address) as owner:
            door = entered(owner.owner.OpenPage(edge_owner_pb2.OpenPageRequest()).url)
        for _, status in requests(door, {path: PAGE[path]}):
            expected = (200, 401)  # of the link, which was used to enter
            if path == "/api/waiting/allow":
                expected = (404,)  # nothing waits
            if status not in expected:
                raise Fault("unexplained", f"the page's {path} answers {status}")

    def endpoint(self, path: str) -> None:
        """Request a path of the OpenAI endpoint, as the owner."""
        door = Door(self._address(), read_key(self.daemon.folder / "state"))
        for _, status in requests(door, {path: ENDPOINT[path]}):
            if status != 200:
                raise Fault("unexplained", f"the OpenAI endpoint's {path} answers {status}")

    def let_in(self) -> None:
        """Create the app."""
        name = f"app-{self.number}"
        self.token = json.loads(self.sotto("apps", "new", name))["token"]
        if self._asked() != 200:
            raise Fault("unexplained", f"a new app is answered {self._asked()}")

    def remove(self) -> None:
        """Remove the app."""
        self.sotto("apps", "rm", f"app-{self.number}")
        self.removed = True

    def check(self) -> None:
        """What must hold at any moment.

        Raises:
            Fault: something does not.
        """
        if self.removed and (status := self._asked()) != 401:
            raise Fault("crossed", f"a removed app is answered {status}")
        spent = self._spent()
        if any(now < before for now, before in zip(spent, self.spent, strict=False)):
            raise Fault("lost", f"the ledger fell from {self.spent} to {spent}")
        self.spent = spent
        for text, before in self.released.items():
            if self._privatized(text) != before:
                raise Fault("lost", "a text is released otherwise under the same key")

    def release(self) -> None:
        """Release the trial's text under the key in use."""
        self.released[self.text] = self._privatized(self.text)
        self.spent = self._spent()

    def _rotated(self) -> None:
        before, self.released = self.released, {}
        self.release()
        if self.released == before:
            raise Fault("leaked", "the key that was destroyed is in use")

    def _privatized(self, text: str) -> str:
        with connect(self.daemon.address) as owner:
            return owner.agent.Privatize(agent.PrivatizeRequest(text=text)).text

    def _spent(self) -> tuple[float, ...]:
        with connect(self.daemon.address) as owner:
            ledger = owner.agent.GetStatus(agent.GetStatusRequest()).ledger
        return ledger.spent, ledger.releases, ledger.labels_as_they_are

    def _address(self) -> str:
        with connect(self.daemon.address) as owner:
            return str(owner.agent.GetStatus(agent.GetStatusRequest()).openai_address)

    def _asked(self) -> int:
        return Door(self._address(), self.token).chat(self.text).status


def beside(daemon: Daemon, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    """In each trial, open all pages and run the commands in random order, then kill the daemon.

    After a restart, the recorded state must be unchanged.
    """
    table = [f"{each.text}\t{each.label}" for each in labelled()]
    (daemon.folder / "table").write_text("\n".join(["text\tlabel", *table, ""]))
    short = [name for name in COMMANDS if name not in (*_FIRST, _LAST, *_LONG)]
    for number in trials:
        trial = _Trial(daemon, number)
        acts: list[tuple[str, Callable[[str], Any]]] = [
            *((path, trial.page) for path in PAGE),
            *((path, trial.endpoint) for path in ENDPOINT),
            *((name, trial.command) for name in (*short, _LONG[number % len(_LONG)])),
            ("remove the app", lambda _, trial=trial: trial.remove()),  # type: ignore[misc]
        ]
        random.Random(f"{seed} {number}").shuffle(acts)
        done = ""
        try:
            trial.let_in()
            trial.release()
            for name in _FIRST:
                trial.command(name)
            for done, act in acts:
                act(done)
                trial.check()
            trial.command(_LAST)
            done = "the kill"
            daemon.kill()
            daemon.start()
            trial.check()
        except Fault as fault:
            tally.fault(fault.kind, number, f"after {done}: {fault}")
            daemon.kill()
            daemon.start()
        except AssertionError as error:
            tally.fault("lost", number, f"it does not start: {error}"[:600])
            return
        else:
            tally.ended("as it was promised")
    tally.look_into(daemon.log.read_text())
