"""Disks that fill under running daemons: errors name the remedy, and the daemons recover.

In a trial the disk of the device's state, of the cloud's or of both is full except for some bytes,
from the errand's start or a random moment. Then space is freed. Waiting work must continue by
itself, the repeated errand must give the same result, and all stored state must be consistent.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import closing
from typing import Any, Final

from soak.campaign.errands import ALL
from soak.campaign.network import Errand, World, differences, done, helps, soon
from soak.campaign.standing import Books, faults_of_cloud, faults_of_device, left_after
from soak.campaign.tally import Tally
from sottovoce.core.errors import Code, SottovoceError
from tests.support.full_disk import FullDisk

ERRANDS: Final = (
    *("predict", "customize", "fetch", "embed", "train", "chat", "rm", "predict many", "cancel"),
    *("generate", "rollback", "embed many"),
)
"""Errands that write to either state; `machine` covers commands without a daemon."""
_SIDES: Final = (("device",), ("cloud",), ("device", "cloud"))
_SPARE: Final = (0, 0, 0, 8_192, 50_000)
_HOLD: Final = (0.2, 1.0, 4.0)
"""Maximum seconds for which the disk stays full."""
_BEGUN: Final = (0.05, 0.3, 1.0, 2.0)
"""Seconds, at most, until it is, where an errand has begun before: what takes its time is still
under way then, and ends while there is no room."""
_FULL: Final = {"device": (Code.RESOURCE_EXHAUSTED,), "cloud": (Code.UNAVAILABLE,)}
"""Errors of the device about its disk, and about a cloud that should be asked again later."""
_TRAINING: Final = 10.0
"""Maximum seconds to wait for a job, which may wait for the disk itself."""


def full_disks(
    world: World, disks: Mapping[str, FullDisk], tally: Tally, seed: str, trials: Iterable[int]
) -> None:
    """Does an errand a trial on full disks, and once more on those that have room.

    Args:
        disks: of the state of either side, "device" and "cloud".
    """
    processes = world.device.pid, world.cloud.pid
    for trial in trials:
        chance = random.Random(f"{seed} {trial}")
        kind = ERRANDS[trial % len(ERRANDS)]
        errand, name = ALL[kind], f"{kind.replace(' ', '-')}-{trial}"
        sides = _SIDES[(trial + trial // len(ERRANDS)) % len(_SIDES)]
        errand.prepare(world, name)
        before, queued = Books.of(world), len(world.jobs())
        first, said, late = _want(world, errand, name, [disks[side] for side in sides], chance)
        second, problem = soon(errand, world, name)
        seen = f"{kind}, {' and '.join(sides)} full{' in its midst' if late else ''}"
        faults = [*faults_of_device(before, Books.of(world), errand.charged, rotated=False)]
        faults += differences(first, said, second, problem)
        if len(world.jobs()) - queued != errand.jobs:
            faults.append(f"{len(world.jobs()) - queued} jobs")
        if processes != (world.device.pid, world.cloud.pid) or _ended(world):
            faults.append("a daemon ended")
        faults += _left(world)
        if faults:
            tally.fault("lost", trial, f"{seen}: {'; '.join(faults)}"[:900])
        elif said is not None and not _explained(said, sides):
            tally.fault("unexplained", trial, f"{seen}: {said!r}")
        else:
            ended = "done" if said is None else f"said why not: {said.code.name}"
            tally.ended(f"{' and '.join(sides)}: {ended}")
    for daemon in (world.device, world.cloud):
        tally.look_into(daemon.log.read_text())


def _want(
    world: World, errand: Errand, name: str, disks: list[FullDisk], chance: random.Random
) -> tuple[list[object], Any, bool]:
    """Run `done` while the disk is full; return its result and whether the errand began before."""
    spare, hold = chance.choice(_SPARE), chance.choice(_HOLD)
    late, queued = chance.random() < 0.5, len(world.jobs())
    with ThreadPoolExecutor(1) as doing:
        asked: Future[tuple[list[object], Any]]
        try:
            if late:
                asked = doing.submit(done, errand, world, name)
                if errand.jobs == 1:  # the training's end cannot be recorded
                    _wait(asked, lambda: _state(world, queued) not in ("", "UPLOADING"))
                else:
                    wait_for([asked], chance.choice(_BEGUN))
            for disk in disks:
                disk.fill(spare)
            if not late:
                asked = doing.submit(done, errand, world, name)
            elif errand.jobs == 1:
                _wait(asked, lambda: _state(world, queued) == "SUCCEEDED")
            wait_for([asked], hold)
        finally:
            for disk in disks:
                disk.free()
        return *asked.result(), late


def _wait(asked: Future[Any], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _TRAINING
    while not (asked.done() or condition()) and time.monotonic() < deadline:
        time.sleep(0.02)


def _state(world: World, queued: int) -> str:
    """Return the state of the job made after ``queued`` jobs; empty if there is none yet."""
    return next((state for state, _ in world.jobs()[queued:]), "")


def _explained(said: object, sides: tuple[str, ...]) -> bool:
    allowed = [code for side in sides for code in _FULL[side]]
    return isinstance(said, SottovoceError) and helps(said) and said.code in allowed


def _ended(world: World) -> bool:
    daemons = (world.device.process, world.cloud.process)
    return any(process is None or process.poll() is not None for process in daemons)


def _left(world: World) -> list[str]:
    """Return unfinished work and leftovers, after a time to finish."""

    def found() -> list[str]:
        return [*_waiting(world), *faults_of_cloud(world.cloud.folder / "state")]

    return left_after(found)


def _waiting(world: World) -> Iterator[str]:
    """Return stale work in the device's database, on which no process works."""
    file = world.device.folder / "state" / "agent.db"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30)) as database:
        for what, query in (
            ("customisations have not ended", "customizations WHERE NOT finished"),
            ("examples are staged", "outbox WHERE sequence IS NULL"),
            ("examples wait", "outbox"),
        ):
            ((number,),) = database.execute(f"SELECT count(*) FROM {query}")
            if number:
                yield f"{number} {what}"
