"""A temporary PostgreSQL server: its files in a temporary folder, reached by a socket."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

__all__ = ["HINT", "PostgresServer", "found", "running"]

HINT = "no PostgreSQL server can be run here: see `make test-deps`"
_USER = "postgres"
_STARTING = 120.0
"""Maximum seconds of a start."""
_CLUSTER = ("-U", _USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    # The data need not survive the server.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "autovacuum": "off",
}


class PostgresServer:
    """A server that runs in ``folder``."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._places = ("-D", folder / "data", "-k", folder)
        self._schemas = 0
        if os.getuid() == 0:
            shutil.chown(folder, _USER, _USER)
        subprocess.run(
            [*_as_user(), programs / "initdb", "-D", folder / "data", *_CLUSTER],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.start()

    def start(self) -> None:
        """Start the server, for the first time or again, and wait until it takes connections."""
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_as_user(), self._programs / "postgres", *self._places, *settings],
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + _STARTING
        try:
            while not self._answers():
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError((self._folder / "log").read_text())
                time.sleep(0.05)
        except BaseException:
            self.throw_away()
            raise

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url()).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """Shut the server down in order, and close open connections."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait()

    def throw_away(self) -> None:
        """Stop the server without keeping data. A newly started server may miss a signal."""
        while self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)

    def url(self, schema: str = "public") -> str:
        """Return the URL of a schema."""
        search = f"options=-csearch_path%3D{schema}"
        return f"postgresql://{_USER}@/postgres?host={self._folder}&{search}"

    def on_disk(self) -> bytes:
        """Return the content of all the server's files, its log included."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        files = [f for f in (self._folder / "data").rglob("*") if f.is_file()]
        return b"".join(f.read_bytes() for f in files)

    def new(self) -> str:
        """Return the URL of a new empty schema."""
        self._schemas += 1
        name = f"s{self._schemas}"
        with psycopg.connect(self.url()) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return self.url(name)


def _as_user() -> list[str]:
    """Start a command that ends with this process; run it as another user than root.

    PostgreSQL refuses to run as root.
    """
    user = [f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"] if os.getuid() == 0 else []
    return ["setpriv", "--pdeathsig", "QUIT", *user]


def found() -> Path | None:
    """Return the folder of the newest server's programs; None if none can run.

    Debian's folders are searched first, then PATH. The programs must run as an unprivileged user.
    """
    versions = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    newest = max(versions, key=lambda file: int(file.parts[-3]), default=None)
    on_path = shutil.which("postgres")
    if newest is None and on_path is None:
        return None
    programs = (newest or Path(str(on_path)).resolve()).parent
    try:
        tried = subprocess.run(
            [*_as_user(), programs / "initdb", "--version"], check=False, capture_output=True
        )
    except OSError:
        return None
    return programs if tried.returncode == 0 else None


@contextmanager
def running(programs: Path) -> Iterator[PostgresServer]:
    """Run a server while the block lasts."""
    # Not below pytest's folder, which other users cannot enter; and a socket's path is short.
    with tempfile.TemporaryDirectory(prefix="sotto-pg-") as folder:
        server = PostgresServer(programs, Path(folder))
        try:
            yield server
        finally:
            server.throw_away()
