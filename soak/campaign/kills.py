"""SIGKILL at random moments, or a power cut: answers stay the same, and charges match releases."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from soak.campaign.daemons import Daemon, releases
from soak.campaign.disks import SmallDisk
from soak.campaign.tally import Tally
from sottovoce.cloud.job import State
from sottovoce.v1 import edge_agent_pb2 as wire
from sottovoce.v1 import edge_agent_pb2_grpc
from tests.support.waiting import until

_PLACES: Final = ("garden", "kitchen", "river", "market", "school", "carpet", "pond", "bridge")
_TEXTS: Final = 8
_EARLIER: Final = 40
"""Texts of trials before that are asked for after each; all are in the end."""
_SECONDS: Final = 120.0
_ENOUGH, _START = 50, 10.0
"""Trials for starts to be judged, and seconds that one may take."""
_MOMENTS: Final = (
    ("step", 28),
    ("checkpoint half written", 4),
    ("checkpoint put in place", 8),
    ("checkpoint kept", 4),
    ("adapter file", 1),
    ("adapter file half written", 1),
    ("adapter put in place", 2),
    ("end of job", 1),
    ("adapter named", 1),
)
"""Calls at which a worker may die, each with its highest count; see `tests.support.kills`."""


def agent_killed(
    daemon: Daemon,
    tally: Tally,
    seed: str,
    trials: Iterable[int],
    disk: SmallDisk | None = None,
) -> None:
    """Kill the device's daemon during each trial's texts, and restart it.

    Afterwards each answered text must get the same answer, and the ledger must hold each text once.

    Args:
        disk: holds the state; in each trial it loses its power, before the daemon or with it.
    """
    answered: dict[str, bytes] = {}
    slowest = 0.0
    for trial in trials:
        chance = random.Random(f"{seed} {trial}")
        texts = [_text(trial, number) for number in range(_TEXTS)]
        after = chance.randrange(_TEXTS)
        found: dict[str, bytes] = {}
        with ThreadPoolExecutor(1) as asking:
            asked = asking.submit(_ask, daemon.address, texts, found)
            until(lambda: len(found) >= after or asked.done())  # noqa: B023 - waited for here
            if disk is not None and chance.random() < 0.5:
                disk.fail()  # later answers must not count
                until(lambda: len(found) >= after + 2 or asked.done())  # noqa: B023
            daemon.kill()
            asked.result(_SECONDS)
        if disk is not None:
            disk.cut()
        begun = time.monotonic()
        try:
            daemon.start()
        except AssertionError as error:
            tally.fault("lost", trial, f"it does not start: {error}"[:600])
            return
        slowest = max(slowest, time.monotonic() - begun)
        earlier = chance.sample([*answered], min(_EARLIER, len(answered)))
        answered |= found
        again, changed = _asked_again(daemon.address, answered, {*earlier, *texts})
        answered |= again
        charged = releases(daemon.address)
        if changed:
            tally.fault("lost", trial, f"{changed} of {len(answered)} answers are others now")
        elif charged != len(answered):
            tally.fault("lost", trial, f"{charged} charged, {len(answered)} released")
        else:
            tally.ended("as it was")
    _, changed = _asked_again(daemon.address, answered, answered)
    if changed:
        tally.fault("lost", trial, f"in the end {changed} of {len(answered)} answers are others")
    tally.figures["seconds of the slowest start"] = round(slowest, 1)
    if tally.count >= _ENOUGH and slowest > _START:
        tally.fault("unexplained", 0, f"a start took {slowest:.1f} s")


def _asked_again(
    address: str, answered: Mapping[str, bytes], texts: Iterable[str]
) -> tuple[dict[str, bytes], int]:
    """Return answers to ``texts``, and the number of changed or missing earlier answers."""
    again: dict[str, bytes] = {}
    asked = [*texts]
    _ask(address, asked, again)
    return again, sum(again.get(text) != answered[text] for text in asked if text in answered)


def _text(trial: int, number: int) -> str:
    return f"Anna was in the {_PLACES[number % len(_PLACES)]} of house {trial} {number}"


def _ask(address: str, texts: Iterable[str], found: dict[str, bytes]) -> None:
    """Add answers to ``found`` one by one, until the daemon fails."""
    with grpc.insecure_channel(address) as channel:
        stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)
        for text in texts:
            try:
                answer = stub.Privatize(wire.PrivatizeRequest(text=text), timeout=_SECONDS)
            except grpc.RpcError:
                return
            found[text] = answer.SerializeToString(deterministic=True)


def worker_killed(
    folder: Path,
    backbone: str,
    tally: Tally,
    seed: str,
    trials: Iterable[int],
    disk: SmallDisk | None = None,
) -> None:
    """Kill a worker one to three times during each trial's job.

    The job must end with the same adapter, to the bit, as an undisturbed job.

    Args:
        disk: holds the state; it loses its power at each death, and once the job is queued.
    """
    from tests.support import killed_jobs  # which imports torch

    job = killed_jobs.queue(folder / "undisturbed")
    assert killed_jobs.work(folder / "undisturbed", backbone)[0] == 0
    wanted = killed_jobs.tensors(folder / "undisturbed")
    tried: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for trial in trials:
        chance = random.Random(f"{seed} {trial}")
        state = (folder if disk is None else disk.folder) / f"trial-{trial}"
        job = killed_jobs.queue(state)
        if disk is not None:
            disk.cut()
        deaths: list[str] = []
        for _ in range(chance.randint(1, 3)):
            moment = _moment(chance, trial, first=not deaths)
            code, _ = killed_jobs.work(state, backbone, moment)
            if disk is not None:
                disk.cut()
            if moment[1] == 1 and not deaths:  # later there may be none of these
                tried[moment[0]] += 1
                reached[moment[0]] += code == -signal.SIGKILL
            deaths.append(f"{moment[0]} {moment[1]}")
            if code not in (0, -signal.SIGKILL):
                tally.fault("unexplained", trial, f"the worker ended with {code} at {deaths}")
        code, _ = killed_jobs.work(state, backbone)
        ended: Any = killed_jobs.found(state, job)
        if code != 0 or ended.state != State.SUCCEEDED:
            tally.fault("lost", trial, f"after {deaths} the job is {ended.state}")
        elif killed_jobs.tensors(state) != wanted:
            tally.fault("lost", trial, f"after {deaths} the adapter is another")
        else:
            tally.ended("the very adapter")
        shutil.rmtree(state)
    tally.came_by(tried, reached)


def _moment(chance: random.Random, trial: int, *, first: bool) -> tuple[str, int]:
    """Return the call to die at, and its count.

    A job's first death uses each call in turn, every other time at its first occurrence. Later
    deaths are random.
    """
    turn, which = divmod(trial, len(_MOMENTS))
    what, most = _MOMENTS[which] if first else chance.choice(_MOMENTS)
    return what, 1 if first and turn % 2 == 0 else chance.randint(1, most)
