"""A vote of teachers in progress: shares of the examples, votes and answers.

A vote takes thousands of calls, so an interrupted vote continues from here. Its answers may be
drawn only once. A second draw would reveal more than was charged. So would a mix of votes from two
ways to share the examples. Votes depend on single examples, so they are sealed.
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
from sottovoce.core.platform.files import atomic, disk, private_folder, sweep
from sottovoce.edge.state.sealing import Seal

__all__ = ["Ballot", "Ballots"]

_FOLDER: Final = "votes"
_LOCK: Final = "lock"
_NAME: Final = re.compile(r"[0-9a-f]{32}")
_DAYS: Final = 30
"""Days until an abandoned vote is deleted."""


@dataclass(slots=True)
class Ballot:
    """One vote.

    Attributes:
        shares: for each teacher, the indices of its examples.
        votes: for each teacher that has finished, the index of a label for each text; see `NOBODY`.
        answers: once drawn, the index of the label of each answered text.
        id: the ledger's id of the vote.
    """

    shares: list[list[int]]
    votes: dict[int, list[int]] = field(default_factory=dict)
    answers: dict[int, int] | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(16))


class Ballots:
    """Votes in progress, in a folder of the agent's state.

    Args:
        state: the agent's folder.
        seal: seals the votes.
    """

    def __init__(self, state: Path, seal: Seal) -> None:
        self._folder = state / _FOLDER
        self._seal = seal

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from voting over the same state; delete old votes.

        Raises:
            NotReady: another process is voting.
        """
        lock = private_folder(self._folder) / _LOCK
        with disk(lock):  # the folder's own lock is for writers
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
        """Return the vote on ``what``, or None if none is in progress.

        Args:
            what: names everything that the vote depends on.

        Raises:
            DataLoss: the vote was altered.
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
        """Write a vote; it is on disk when this returns.

        Raises:
            QuotaExceeded: the disk is full.
        """
        with atomic(self._file(what)) as file:
            file.write(self._seal.seal(json.dumps(asdict(ballot)).encode(), what))

    def forget(self, what: bytes) -> None:
        """Delete a vote that has ended."""
        with disk(self._folder), suppress(FileNotFoundError):
            self._file(what).unlink()

    def others(self, what: bytes) -> int:
        """Return the number of votes in progress on something else."""
        return sum(file != self._file(what) for file in self._all())

    def _all(self) -> list[Path]:
        return [file for file in self._folder.iterdir() if _NAME.fullmatch(file.name)]

    def _file(self, what: bytes) -> Path:
        return self._folder / what.hex()[:32]
