"""A vote of teachers that is under way: who teaches what, what was voted, what was answered.

Why it is here: a vote takes thousands of calls, and its answers may be drawn once: who could draw
them again, or mix the votes of two ways to share the examples, would be told more than was paid
for. So a vote that was cut off goes on from here. Votes tell of single examples and are sealed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from sottovoce.core.errors import DataLoss, NotReady
from sottovoce.core.system.files import atomic, disk, private_folder
from sottovoce.core.system.leftovers import sweep
from sottovoce.edge.state.sealing import Seal

__all__ = ["Ballot", "Ballots"]

_FOLDER: Final = "votes"
_LOCK: Final = "lock"
_NAME: Final = re.compile(r"[0-9a-f]{32}")
_DAYS: Final = 30
"""Until a vote that nobody went on with is forgotten."""


@dataclass(slots=True)
class Ballot:
    """One vote.

    Attributes:
        shares: places of the examples that each teacher has.
        votes: of teachers that are done, the place of a label for each text; see `NOBODY`.
        answers: once they are drawn, of each text that is answered the place of its label.
        id: what the ledger knows the vote by.
    """

    shares: list[list[int]]
    votes: dict[int, list[int]] = field(default_factory=dict)
    answers: dict[int, int] | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(16))


class Ballots:
    """Votes under way, in a folder of the agent's state.

    Args:
        state: the agent's folder.
        seal: seals them.
    """

    def __init__(self, state: Path, seal: Seal) -> None:
        self._folder = state / _FOLDER
        self._seal = seal

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other processes from voting over the same state; and forgets what is old.

        Raises:
            NotReady: one does.
        """
        lock = private_folder(self._folder) / _LOCK
        with disk(lock):  # the folder's own lock is for who writes into it
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise NotReady(
                    "another vote is under way", fix="wait until it ends", subject="distill"
                ) from error
            with disk(lock):
                for file in self._all():
                    if file.stat().st_mtime < time.time() - _DAYS * 86_400:
                        file.unlink()
            sweep(self._folder)
            yield
        finally:
            os.close(descriptor)

    def find(self, what: bytes) -> Ballot | None:
        """The vote on ``what``, which names all that it depends on; None if none is under way.

        Raises:
            DataLoss: it was altered.
        """
        with disk(self._folder):
            try:
                sealed = self._file(what).read_bytes()
            except FileNotFoundError:
                return None
        try:
            kept = json.loads(self._seal.unseal(sealed, what))
        except DataLoss as error:
            raise DataLoss(
                f"the vote kept in {self._file(what)} was altered",
                fix="delete the file: the vote begins anew, and is charged again",
                subject="distill",
            ) from error
        kept["votes"] = {int(at): votes for at, votes in kept["votes"].items()}
        if kept["answers"] is not None:
            kept["answers"] = {int(at): label for at, label in kept["answers"].items()}
        return Ballot(**kept)

    def keep(self, what: bytes, ballot: Ballot) -> None:
        """Has it on disk when this returns.

        Raises:
            QuotaExceeded: the disk is full.
        """
        with atomic(self._file(what)) as file:
            file.write(self._seal.seal(json.dumps(asdict(ballot)).encode(), what))

    def forget(self, what: bytes) -> None:
        """It has ended."""
        with disk(self._folder), suppress(FileNotFoundError):
            self._file(what).unlink()

    def others(self, what: bytes) -> int:
        """How many votes on something else are under way."""
        return sum(file != self._file(what) for file in self._all())

    def _all(self) -> list[Path]:
        return [file for file in self._folder.iterdir() if _NAME.fullmatch(file.name)]

    def _file(self, what: bytes) -> Path:
        return self._folder / what.hex()[:32]
