"""Run parts of the campaign in several processes at once, because most of a trial is waiting.

A part with independent trials is cut into pieces, each over a separate world. A trial draws from
the seed and its number, so it is the same in every piece.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Final

from soak.campaign.parts import PARTS, run
from soak.campaign.tally import Tally

_SUBREAPER: Final = 36
"""`PR_SET_CHILD_SUBREAPER`: processes that outlive a killed cloud become our children."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some trials of a part, by number or by duration.

    Attributes:
        part: name of the part.
        trials: numbers of the trials; with ``minutes``, all numbers from 0.
        minutes: duration of the piece.
    """

    part: str
    trials: range = range(0)
    minutes: float | None = None

    def numbers(self) -> Iterator[int]:
        """Yield the trials' numbers; at least one."""
        return iter(self.trials) if self.minutes is None else _for_minutes(self.minutes)


def pieces(part: str, share: float, minutes: float | None, trial: int | None) -> list[Piece]:
    """Cut a part into pieces.

    Args:
        share: share of its trials to run.
        minutes: duration to run instead.
        trial: the one trial to run.
    """
    found = PARTS[part]
    if trial is not None:
        return [Piece(part, range(trial, trial + 1))]
    if minutes is not None or found.minutes:
        return [Piece(part, minutes=minutes or found.minutes * share)]
    number = max(1, round(found.full * share))
    wanted = max(1, round(found.pieces * min(share, 1)))
    cuts = [number * place // wanted for place in range(wanted + 1)]
    return [Piece(part, range(*ends)) for ends in pairwise(cuts)]


def together(todo: list[Piece], seed: str, jobs: int) -> dict[str, Tally]:
    """The tallies of parts, by their names, in the order in which they are first named.

    Args:
        jobs: pieces at a time; what measures how long things take has the machine to itself.
    """
    found: dict[str, list[Tally]] = {piece.part: [] for piece in todo}
    alone = [piece for piece in todo if PARTS[piece.part].alone]
    others = [piece for piece in todo if not PARTS[piece.part].alone]
    # Parts with a duration begin first, because they are the longest.
    others.sort(key=lambda piece: piece.minutes is None)
    for some, most in ((alone, 1), (others, jobs)):
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(most, context, max_tasks_per_child=1) as pool:
            for piece, tally in zip(some, pool.map(tried, some, [seed] * len(some)), strict=True):
                found[piece.part].append(tally)
                print(tally.line(), flush=True)
    return {part: Tally.merged(tallies) for part, tallies in found.items()}


def tried(piece: Piece, seed: str) -> Tally:
    """Return the tally of a piece, with the time it took; call it once in a process."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        tally = run(piece.part, Path(folder), seed, piece.numbers())
    tally.seconds = time.monotonic() - began
    tally.processor = _processor()
    return tally


def _processor() -> float:
    """Return the processor seconds of this process and its descendants, and kill these."""
    while children := [*_children()]:  # their children become ours
        for child in children:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)  # a server of forks, say
                os.waitpid(child, 0)
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _children() -> Iterator[int]:
    for task in Path("/proc/self/task").iterdir():
        yield from map(int, (task / "children").read_text().split())


def _for_minutes(minutes: float) -> Iterator[int]:
    """Yield numbers of trials until the time is over; at least one."""
    end = time.monotonic() + 60 * minutes
    for number in count():
        yield number
        if time.monotonic() > end:
            return
