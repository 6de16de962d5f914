"""A new user: a home, an environment made of wheels alone, and the commands typed there.

The PATH of the user holds no compiler, and the working folder is not the checkout.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.locks import FOLDER

_WAIT: Final = 60


class User:
    """A new user with a home, an environment and nothing else.

    Args:
        folder: an empty folder.
        python: makes the environment.

    Raises:
        AssertionError: the environment could not be made.
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

    def megabytes(self) -> float:
        """Return the environment's size on disk."""
        files = (file for file in self._bin.parent.rglob("*") if file.is_file())
        return sum(file.lstat().st_size for file in files) / 1e6

    def download(self) -> Path:
        """Download the packages of the devices' lock, for this interpreter; return the folder."""
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
            said = f"{done.stdout}{done.stderr}"
            raise AssertionError(f"{shown} ended with {done.returncode}, not {code}\n{said}")
        return done.stderr if code else done.stdout

    def set(self, **variables: str) -> None:
        """Export variables to all later commands."""
        self._environment |= variables

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Run the agent with its OpenAI endpoint open while the block lasts."""
        command = [str(self._bin / "sotto"), "serve", "--openai", "127.0.0.1:0", "--json"]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.home,
            env=self._environment,
        ) as agent:
            try:
                assert agent.stdout is not None
                assert agent.stdout.readline(), "the agent did not start"
                yield
            finally:
                agent.send_signal(signal.SIGTERM)
                agent.wait(_WAIT)
