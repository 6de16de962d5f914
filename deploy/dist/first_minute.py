"""A new user's first minute, walked with wheels alone: install, try, talk, learn.

The environment is new, its PATH holds no compiler, and its working folder is not the checkout.
Packages of others come from the lists in `deploy.locks`, and are downloaded before the clock runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.locks import FOLDER
from tests.support.upstream_server import openai_server

__all__ = ["Failed", "interpreters", "walk"]

PYTHONS: Final = ("3.11", "3.12", "3.13")
_NAME: Final = "Marguerite Oyelaran"
_TEXT: Final = f"{_NAME} has an appointment at the clinic on Monday."
_PRIVATE: Final = ("Marguerite", "Oyelaran")
_WAIT: Final = 60
_HIDDEN: Final = ("torch", "transformers", "sottovoce-cloud", "sottovoce-models")
_CLIENT: Final = f"""
import json, os, urllib.request
body = {{"model": "a-model", "messages": [{{"role": "user", "content": {_TEXT!r}}}]}}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
    {{"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
      "Content-Type": "application/json"}},
)
with urllib.request.urlopen(request) as answer:
    print(json.load(answer)["choices"][0]["message"]["content"])
"""


class Failed(Exception):
    """A step of the walk did not do what a new user is promised."""


def interpreters(given: Sequence[str]) -> Iterator[tuple[str, Path | None]]:
    """Return each interpreter's name and real path; None for one that does not run here.

    Args:
        given: names or paths; empty takes `PYTHONS`.
    """
    for name in given or tuple(f"python{version}" for version in PYTHONS):
        ask = [name, "-c", "import sys; print(sys.executable)"]
        try:
            done = subprocess.run(ask, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            yield name, None
            continue
        yield name, Path(done.stdout.strip()) if done.returncode == 0 else None


def walk(python: Path, wheels: Path, sources: Path) -> Iterator[tuple[str, str]]:
    """Walk the first minute with an interpreter; return each step with what it showed.

    Args:
        python: makes the environment.
        wheels: the folder of our wheels.
        sources: the checkout, which must not be used.

    Raises:
        Failed: a step failed.
    """
    with tempfile.TemporaryDirectory(prefix="sotto") as name:
        user = _User(Path(name), python)
        others = user.download()
        found = ("--no-index", "--find-links", str(wheels), "--find-links", str(others))
        yield "downloaded", f"{len(list(others.iterdir()))} wheels of others"
        started = time.monotonic()
        user.pip("install", *found, "sottovoce-edge[en]")
        installed = time.monotonic() - started
        released = user.sotto("privatize", _TEXT)
        _check(not any(word in released for word in _PRIVATE), "privatize left a name")
        taken = time.monotonic() - started
        yield "from wheels to a privatised text", f"{taken:.0f} s ({installed:.0f} s of pip)"
        yield "sotto privatize", released.strip()
        _check("balanced" in user.sotto("try", _TEXT), "try showed no level")
        yield "sotto try", "shows the levels"
        listed = user.run("python", "-m", "pip", "list", "--format=freeze")
        _check(not any(f"{each}==" in listed for each in _HIDDEN), f"installed too much: {listed}")
        where = user.run("python", "-c", "import sottovoce.edge as e; print(e.__file__)")
        _check(not Path(where.strip()).is_relative_to(sources), "the checkout was used")
        yield "nothing of the cloud, no torch", f"{len(listed.split())} packages"
        yield from _conversations(user)
        yield from _learning(user, found)
        user.pip("uninstall", "-y", "sottovoce-bundle-en", "sottovoce-bundle-en-encoder")
        told = user.sotto("try", _TEXT, code=3)
        _check("pip install 'sottovoce-edge[en]'" in told, "no bundle, and no line to type")
        yield "without a bundle", told.strip().splitlines()[-1].strip()


def _conversations(user: _User) -> Iterator[tuple[str, str]]:
    with openai_server() as server:
        options = ("--upstream", server.url, "--model", "a-model")
        answer = user.sotto("chat", *options, typed=f"{_TEXT}\n")
        _check(_NAME in answer, "chat did not restore the name")
        yield "sotto chat", "the server saw other names, the answer has yours"
        with user.serving(server.url):
            answer = user.sotto("run", "--", "python", "-c", _CLIENT)
        _check(_NAME in answer, "the answer through the OpenAI endpoint lacks the name")
        yield "sotto run", "an OpenAI client talked through the agent"
        seen = str([body for _, _, body in server.asked])
        _check(len(server.asked) >= 2, "the server was not asked")
        _check(not any(word in seen for word in _PRIVATE), "a name reached the server")


def _learning(user: _User, found: Sequence[str]) -> Iterator[tuple[str, str]]:
    examples = [("The soup was cold and the waiter rude.", "bad"), ("A lovely evening.", "good")]
    rows = [f"{text} {number}\t{label}" for number in range(8) for text, label in examples]
    table = user.home / "examples.tsv"
    table.write_text("\n".join(("text\tlabel", *rows, "")), encoding="utf-8")
    told = user.sotto("learn", "mood", "--input", str(table), code=3)
    _check("pip install sottovoce-bundle-en-encoder" in told, "no encoder, and no line to type")
    user.pip("install", *found, "sottovoce-edge[en-encoder]")
    user.sotto("learn", "mood", "--input", str(table))
    label = user.sotto("predict", "mood", "The soup was cold.")
    _check("bad" in label, f"the adapter said {label}")
    yield "sotto learn, sotto predict", "after pip install 'sottovoce-edge[en-encoder]'"


class _User:
    """A new user with a home, an environment and nothing else.

    Args:
        folder: an empty folder.
        python: makes the environment.

    Raises:
        Failed: the environment could not be made.
    """

    def __init__(self, folder: Path, python: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self._others = folder / "others"
        self._bin = folder / "venv" / "bin"
        kept = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
        # A compiler is on no PATH here, and the one that builds would name is none.
        self._environment = kept | {
            "HOME": str(self.home),
            "PATH": str(self._bin),
            "CC": "/nonexistent",
            "CXX": "/nonexistent",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        self._run([str(python), "-m", "venv", str(folder / "venv")])

    def download(self) -> Path:
        """Download what the lock of devices names, for this interpreter; return the folder."""
        chosen = ("--only-binary", ":all:", "--no-deps", "--require-hashes")
        to = ("--requirement", str(FOLDER / "edge.txt"), "--dest", str(self._others))
        self.pip("download", *chosen, *to)
        return self._others

    def pip(self, *arguments: str) -> str:
        """Run pip; return its output."""
        return self.run("python", "-m", "pip", "--quiet", *arguments)

    def sotto(self, *arguments: str, typed: str = "", code: int = 0) -> str:
        """Run ``sotto``; return its output, with the errors if it is to fail."""
        return self.run("sotto", *arguments, typed=typed, code=code)

    def run(self, name: str, *arguments: str, typed: str = "", code: int = 0) -> str:
        """Run a program of the environment; return its output."""
        return self._run([str(self._bin / name), *arguments], typed, code)

    def _run(self, command: Sequence[str], typed: str = "", code: int = 0) -> str:
        done = subprocess.run(
            command,
            input=typed,
            capture_output=True,
            text=True,
            cwd=self.home,
            env=self._environment,
            check=False,
        )
        if done.returncode != code:
            shown = " ".join(command[:4])
            raise Failed(f"{shown} ended with {done.returncode}, not {code}\n{done.stderr}")
        return done.stderr if code else done.stdout

    @contextmanager
    def serving(self, upstream: str) -> Iterator[None]:
        """Run the agent with its OpenAI endpoint open while the block lasts."""
        command = [str(self._bin / "sotto"), "serve", "--openai", "127.0.0.1:0", "--json"]
        environment = self._environment | {"SOTTO_CHAT_UPSTREAM": upstream}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        ) as agent:
            try:
                _check(bool(agent.stdout and agent.stdout.readline()), "the agent did not start")
                yield
            finally:
                agent.send_signal(signal.SIGTERM)
                agent.wait(_WAIT)


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Failed(otherwise)
