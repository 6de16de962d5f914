"""A reader of the documents: a folder like a checkout, and a shell for the commands.

Only machine names and ports are changed in a command, because several readers share one machine. A
server runs until another of its kind starts, or the reader ends.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.live.testbed import command, free_address, serving
from tests.support.documented import Typed, read
from tests.support.paths import HELPDESK, ROOT

_SECONDS: Final = 300
"""A command may take, on a machine that has more to do."""
_LINKED: Final = ("bench", "clients", "deploy", "docs")
_LINKED_TOO: Final = ("core", "edge", "examples", "Makefile", "models", "protos")
_PROGRAMS: Final = ("sotto", "sotto-cloud", "python", "pip")
_MESSAGES: Final = 48
_WORDS: Final = 30
"""Of each."""
_LABELS: Final = {"plumbing": "heating", "billing": "billing"}
"""Two that are easily told apart, so that what is asked of few messages is reached, and what
home.md calls them."""
_TEXTS: Final = "The boiler is leaking again.\nCall Dr Marsh about the invoice.\n"


def furnish(folder: Path, bundle: Path) -> None:
    """Make a reader's folder with ``bundle`` as the built bundle."""
    for name in (*_LINKED, *_LINKED_TOO):
        (folder / name).symlink_to(ROOT / name)
    (folder / "build").mkdir()
    (folder / "build" / "bundle").symlink_to(bundle)
    (folder / "bundle").symlink_to(bundle)
    for own in (folder / ".venv" / "bin", folder / "home" / "sotto" / "bin"):
        own.mkdir(parents=True)
        for name in _PROGRAMS:
            (own / name).symlink_to(command(name))
    (folder / "run").mkdir(mode=0o700)
    header, *lines = (HELPDESK / "train.tsv").read_text(encoding="utf-8").splitlines()
    parted = [line.split("\t") for line in lines]
    lines = [
        f"{' '.join(text.split()[:_WORDS])}\t{_LABELS[label]}"
        for text, label in parted
        if label in _LABELS
    ]
    for name, some in (
        ("train.tsv", lines[:_MESSAGES]),
        ("mails.tsv", lines[:_MESSAGES]),
        ("examples.tsv", lines[:_MESSAGES]),
        ("more.tsv", lines[_MESSAGES : _MESSAGES + 12]),
        ("corrected.tsv", lines[_MESSAGES : _MESSAGES + 10]),
    ):
        (folder / name).write_text("\n".join([header, *some, ""]), encoding="utf-8")
    for name in ("notes.txt", "texts.txt", "public.txt"):
        (folder / name).write_text(_TEXTS, encoding="utf-8")
    (folder / "letters.tsv").write_text("input\toutput\nThe river\tis long\n", encoding="utf-8")
    for name in ("chain.pem", "key.pem", "clients.pem"):
        (folder / name).touch()
    shown = read("docs/tutorial_app.md")[1]
    (folder / "app.py").write_text(next(s.text for s in shown if s.language == "python"))


@dataclass(frozen=True)
class Outcome:
    """What became of a line that was typed: its exit code, and all that it said."""

    typed: Typed
    code: int
    said: str

    def __str__(self) -> str:
        return f"{self.typed.where}: `{self.typed.line}` ended with {self.code}:\n{self.said}"


@dataclass
class Reader:
    """Type the commands of pages in a folder made by `furnish`.

    ``backbone`` replaces the default model, ``upstream`` is a chat server's HOST:PORT, ``exported``
    is the shell's environment.
    """

    folder: Path
    backbone: Path
    upstream: str
    exported: dict[str, str] = field(default_factory=dict)
    _servers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Gives the machines and ports of the documents others, that are free."""
        self._cloud = free_address()
        self._elsewhere = {
            "127.0.0.1:8471": self._cloud,
            "cloud.example.org:8471": self._cloud,
            "127.0.0.1:8472": free_address(),
            "127.0.0.1:9464": free_address(),
            "127.0.0.1:8080": self.upstream,
        }
        self._provider = self.folder / "provider.toml"
        self._provider.write_text(
            f'[serve]\nlisten = "{self._cloud}"\nbackbone = "{self.backbone}"\n'
            "threads = 1\ntraining-threads = 1\n"  # others test beside
        )

    def type(self, typed: Typed) -> Outcome:
        """Runs a line as it stands; a server is left running once it answers."""
        line = self._here(typed.line)
        if (first := typed.parts[0]).program == "export":
            self.exported |= dict(word.split("=", 1) for word in map(self._here, first.words))
            return Outcome(typed, 0, "")
        if first.words[:1] == ("serve",):
            return self._serve(typed, first.program, line.rstrip("& "))
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"],
            cwd=self.folder,
            env=self._environment(first.program),
            input=b"The boiler is leaking, says Dr Marsh.\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
        )
        return Outcome(typed, done.returncode, done.stdout.decode(errors="replace"))

    def leave(self) -> None:
        """Ends what still runs."""
        for program in [*self._servers]:
            self._end(program)

    def _here(self, text: str) -> str:
        for theirs, own in self._elsewhere.items():
            text = text.replace(theirs, own)
        return text

    def _environment(self, program: str) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if not _OURS.match(name)}
        own = {"HOME": f"{self.folder}/home", "XDG_RUNTIME_DIR": f"{self.folder}/run"}
        path = f"{self.folder}/.venv/bin:{os.environ['PATH']}"
        # a provider's file is no setting of the agent's, which refuses what it does not know
        provider = {"SOTTO_CLOUD_CONFIG": str(self._provider)} if program == "sotto-cloud" else {}
        return kept | own | {"PATH": path} | self.exported | provider

    def _serve(self, typed: Typed, program: str, line: str) -> Outcome:
        self._end(program)
        log = self.folder / f"{program}.log"
        with log.open("wb") as file:
            server = subprocess.Popen(
                ["bash", "-c", f"exec {line}"],
                cwd=self.folder,
                env=self._environment(program),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self._servers[program] = server
        socket = f"unix:{self.folder}/run/sottovoce/agent.sock"
        address = self._cloud if program == "sotto-cloud" else socket
        end = time.monotonic() + _SECONDS
        while server.poll() is None and not serving(address) and time.monotonic() < end:
            time.sleep(0.1)
        said = log.read_text(encoding="utf-8", errors="replace")
        return Outcome(typed, 0 if serving(address) else server.poll() or 1, said)

    def _end(self, program: str) -> None:
        server = self._servers.pop(program, None)
        if server is not None and server.poll() is None:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


_OURS: Final = re.compile(r"SOTTO_|XDG_|OPENAI_|AWS_")
