"""A device's daemon that can start no more threads: it answers, or names the reason, and continues.

In each trial a control group limits the daemon to a few more threads than it has, while many
clients ask at once. Then the limit is lifted. Answers must come again unchanged, each text must be
charged once, and the daemon must be the same process. In one trial of four it restarts under a
limit that is too low: it serves, or ends with an error.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import grpc

from soak.campaign.daemons import OWN_CONNECTION, Daemon, releases
from soak.campaign.tally import Tally
from sottovoce.core.errors import Code, SottovoceError
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.v1 import edge_agent_pb2 as wire
from sottovoce.v1 import edge_agent_pb2_grpc

_SECONDS: Final = 60.0
_AT_ONCE: Final = 12
_ANEW: Final = 4
_GROUPS: Final = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
"""Folders for groups that count threads, in version 1 and version 2 of control groups."""
_SAID: Final = ("error:", "pthread_create failed")
"""Errors of a failed start; gRPC's library reports its own threads in its own words."""


def needed() -> str:
    """Return the machine's missing requirement; empty if none."""
    with suppress(OSError), _group():
        return ""
    return "too few threads take root and a group of processes (cgroups) that counts them"


@contextmanager
def _group() -> Iterator[Path]:
    """A new one, gone afterwards; its processes must have ended.

    Raises:
        OSError: it cannot be made here, or counts no threads.
    """
    parent = next(folder for folder in _GROUPS if folder.is_dir())
    group = parent / f"campaign-{secrets.token_hex(4)}"
    group.mkdir()
    try:
        os.stat(group / "pids.max")
        yield group
    finally:
        group.rmdir()


class _Room:
    """The limit on a daemon's threads."""

    def __init__(self, group: Path) -> None:
        self._group = group

    def of(self, most: int | str) -> None:
        """Set the limit on threads from now on."""
        (self._group / "pids.max").write_text(str(most))

    def hold(self, process: int) -> None:
        """Add a process to the group."""
        (self._group / "cgroup.procs").write_text(str(process))

    def used(self) -> int:
        """Return the number of threads."""
        return int((self._group / "pids.current").read_text())

    def before(self) -> list[str]:
        """Return the prefix of a command that starts within the group."""
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self._group)]


def threads(daemon: Daemon, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    """Has the daemon want for threads, a trial each.

    Args:
        daemon: runs; it is killed before this returns.
    """
    answered: dict[str, str] = {}
    with _group() as group:
        room = _Room(group)
        room.hold(daemon.pid)
        try:
            for trial in trials:
                chance = random.Random(f"{seed} {trial}")
                if trial % _ANEW == _ANEW - 1:
                    wrong = _begun(daemon, room, chance)
                else:
                    wrong = _held(daemon, room, chance, trial, answered)
                if wrong:
                    tally.fault("unexplained", trial, wrong[:600])
                else:
                    tally.ended("as it may")
        finally:
            room.of("max")
            daemon.kill()


def _held(
    daemon: Daemon, room: _Room, chance: random.Random, trial: int, answered: dict[str, str]
) -> str:
    """Return the faults during the limit and afterwards."""
    process = daemon.pid
    texts = [f"Anna was in the garden of house {trial} {number}" for number in range(_AT_ONCE)]
    room.of(room.used() + chance.choice((0, 0, 1, 3)))
    said = _asked(daemon.address, texts)
    room.of("max")
    again = _asked(daemon.address, texts)
    if daemon.process is None or daemon.process.poll() is not None:
        return f"the daemon ended with {daemon.process and daemon.process.returncode}"
    for text, first, second in zip(texts, said, again, strict=True):
        if isinstance(second, SottovoceError):
            return f"afterwards: {second}"
        if isinstance(first, SottovoceError):
            if first.code in (Code.INTERNAL, Code.UNKNOWN) or not first.fix:
                return f"no remedy: {first!r}"
        elif first != second:
            return f"answered otherwise afterwards, process {process}"
        answered[text] = second
    charged = releases(daemon.address)
    return "" if charged == len(answered) else f"{charged} charged, {len(answered)} released"


def _begun(daemon: Daemon, room: _Room, chance: random.Random) -> str:
    """Return the faults of a start under a low limit."""
    daemon.stop()
    plain = daemon.arguments
    before = len(daemon.log.read_text())
    room.of(chance.randint(1, 24))
    daemon.arguments = [*room.before(), *plain]
    wrong = ""
    try:
        daemon.start()
    except AssertionError:
        told = daemon.log.read_text()[before:]
        if "Traceback" in told or not any(why in told for why in _SAID):
            code = daemon.process.returncode if daemon.process else None
            wrong = f"at the start, which ended with {code}: {told[-500:]}"
        daemon.kill()
    finally:
        room.of("max")
        daemon.arguments = plain
    if daemon.process is None:
        daemon.start()
        room.hold(daemon.pid)
    return wrong


def _asked(address: str, texts: list[str]) -> list[str | SottovoceError]:
    """Send all requests at once, each on a separate connection."""

    def ask(text: str) -> str | SottovoceError:
        with grpc.insecure_channel(address, OWN_CONNECTION) as channel:
            stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)
            try:
                return str(stub.Privatize(wire.PrivatizeRequest(text=text), timeout=_SECONDS).text)
            except grpc.RpcError as error:
                return from_rpc_error(error, peer="the agent")

    with ThreadPoolExecutor(len(texts)) as asking:
        return list(asking.map(ask, texts))
