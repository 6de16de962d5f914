"""Invariants of an idle device and its cloud, checked from outside."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from soak.campaign.moments import FILE, PROCESS
from soak.campaign.network import World
from sottovoce.cloud.store.adapters import digest
from tests.support.leftovers import age

_ASIDE = re.compile(r"\..+\.sotto-[0-9a-f]{16}")
_WORKER = b"--parent"
TIDY: Final = 90.0
"""Seconds to remove a dead process's remains; a worker that dies often restarts more slowly."""


@dataclass(frozen=True, slots=True)
class Books:
    """The ledger's charges: its sum, its accounts' sum, and the number of recorded releases."""

    releases: int
    accounts: int
    noted: int

    @classmethod
    def of(cls, world: World) -> Books:
        """Read the present counts."""
        with _opened(world.device.folder / "state" / "agent.db") as database:
            (sums,) = database.execute(
                "SELECT releases, (SELECT sum(releases) FROM accounts),"
                " (SELECT count(*) FROM charged) FROM ledger"
            ).fetchall()
            return cls(*sums)


def faults_of_device(before: Books, now: Books, charged: int, *, rotated: bool) -> Iterator[str]:
    """Yield the ledger's inconsistencies, given ``charged`` releases since ``before``."""
    if now.releases - before.releases != charged:
        yield f"{now.releases - before.releases} charged, not {charged}"
    if now.accounts != now.releases:
        yield f"accounts of {now.accounts} releases, a ledger of {now.releases}"
    if now.noted != (0 if rotated else before.noted + charged):
        yield f"{now.noted} are noted as charged"


def faults_of_cloud(state: Path) -> Iterator[str]:
    """Yield faults: each successful job must have one complete adapter, and no other job any."""
    with _opened(state / "sottovoce.db") as database:
        jobs = database.execute("SELECT id, state FROM jobs WHERE deleted = 0").fetchall()
        adapters = database.execute("SELECT job, folder, sha256 FROM adapters").fetchall()
        kept = database.execute(
            "SELECT count(*) FROM blocks WHERE job IN (SELECT id FROM jobs WHERE state IN"
            " ('SUCCEEDED', 'FAILED', 'CANCELLED') OR deleted = 1)"
        ).fetchone()
        twice = database.execute(
            "SELECT count(*) - count(DISTINCT request_id) FROM jobs"
        ).fetchone()
    succeeded = {job for job, state in jobs if state == "SUCCEEDED"}
    for job, folder, sha256 in adapters:
        if job not in succeeded or not (state / folder).is_dir():
            yield f"a name stands for what is not there: {folder}"
        elif digest(state / folder) != sha256:
            yield f"an adapter is damaged: {folder}"
    lying: dict[str, list[str]] = {}
    for folder in (state / "jobs").glob("*/*/*"):
        lying.setdefault(folder.parts[-3], []).append(folder.name)
    for job in succeeded | lying.keys():
        wanted = ["adapter"] if job in succeeded else []
        if lying.get(job, []) != wanted:
            yield f"of job {job} there are {lying.get(job, [])}, not {wanted}"
    if left := [folder.name for folder in (state / "scratch").glob("*")]:
        yield f"a worker left {left}"
    if kept != (0,) or twice != (0,):
        yield f"{kept[0]} blocks of jobs that have ended, {twice[0]} jobs made twice"


def left_after(found: Callable[[], list[str]]) -> list[str]:
    """Return the leftovers that are found, after up to `TIDY` seconds for their removal."""
    deadline = time.monotonic() + TIDY
    while (left := found()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return left


def left_aside(world: World) -> Iterator[str]:
    """Yield the temporary files of dead processes that have not been removed."""
    for file in _aside(world):
        yield f"left aside: {'/'.join(file.parts[-3:])}"


def make_old(world: World) -> None:
    """Backdate temporary files, so that daemons may remove them."""
    age(*_aside(world))


def _aside(world: World) -> Iterator[Path]:
    for folder in (world.device.folder, world.cloud.folder):
        yield from (found for found in folder.rglob(".*") if _ASIDE.fullmatch(found.name))


def processes(file: Path) -> dict[int, str]:
    """Return the live processes that ``file`` can kill, and the role of each."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            environ = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile, or is another's
            continue
        told = dict(pair.partition(b"=")[::2] for pair in environ)
        if command and told.get(FILE.encode()) == bytes(file):
            which = told.get(PROCESS.encode(), b"").decode()
            found[int(folder.name)] = "worker" if _WORKER in command else which
    return found


def _opened(file: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30))
