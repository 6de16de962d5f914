"""SIGKILL for any process that takes part in an errand, at a named moment or at a random one.

A trial runs an owner's errand and kills the device's daemon, a command, the cloud or its worker. It
restarts the killed daemon and repeats the errand. The repetition must give the same result, and all
stored state must be consistent.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from soak.campaign.errands import ALL
from soak.campaign.moments import MOMENTS, Death, Moment
from soak.campaign.network import Errand, World, differences, done, soon
from soak.campaign.standing import (
    TIDY,
    Books,
    faults_of_cloud,
    faults_of_device,
    left_after,
    left_aside,
    make_old,
    processes,
)
from soak.campaign.tally import Tally
from sottovoce.v1 import edge_agent_pb2 as wire

_PROBES: Final = ("The doctor was in the garden with Anna", "A letter from the market, 4711")
_START: Final = 10.0
"""Maximum processor seconds of the next start."""
_PLACES: Final = ("device", "command", "cloud", "worker")


@dataclass
class _Fate:
    """The process to kill in one trial, at a moment or after ``seconds``."""

    process: str
    moment: Moment | None
    seconds: float
    killed: bool = False


@dataclass
class _Watch:
    """State that lasts over all trials."""

    world: World
    death: Death
    file: Path
    seconds: dict[str, float] = field(default_factory=dict)
    probes: list[bytes] = field(default_factory=list)
    starts: Counter[str] = field(default_factory=Counter)

    def probe(self) -> list[bytes]:
        """Return the device's answers to two texts that earlier trials also sent."""
        answers = (
            self.world.agent.Privatize(wire.PrivatizeRequest(text=text), timeout=60)
            for text in _PROBES
        )
        return [answer.SerializeToString(deterministic=True) for answer in answers]

    def started_again(self) -> None:
        """Restart the dead daemons."""
        for name, daemon in (("device", self.world.device), ("cloud", self.world.cloud)):
            if daemon.process is not None and daemon.process.poll() is not None:
                make_old(self.world)
                daemon.start()
                self.starts[name] = max(self.starts[name], round(_processor(daemon.pid)))
                if name == "device":
                    self.world.close()
                    self.world.connect()

    def look(self, fate: _Fate) -> None:
        """Note that the moment was reached, and wait for the process that announced it to end."""
        if fate.moment is not None and not fate.killed and self.death.reached:
            fate.killed = True
            self._gone(fate.process)

    def _gone(self, process: str) -> None:
        """Wait for a dying daemon to end.

        Until then it counts as running, and would not be restarted.
        """
        daemon = {"device": self.world.device, "cloud": self.world.cloud}.get(process)
        if daemon is not None and daemon.process is not None:
            daemon.process.wait(TIDY)

    def kill(self, process: str) -> bool:
        """Kill one such process, if there is any; return whether one was killed."""
        for pid, which in processes(self.file).items():
            if which == process:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self._gone(process)
                    return True
        return False


def anywhere(
    world: World, death: Death, file: Path, tally: Tally, seed: str, trials: Iterable[int]
) -> None:
    """Kill one process in each trial, at the named moments and at random ones in turn.

    Args:
        world: its daemons were started with ``death.environment``.
        file: the file of ``death``.
    """
    watch = _Watch(world, death, file)
    tried: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    instead: dict[str, str] = {}
    for trial in trials:
        chance = random.Random(f"{seed} {trial}")
        turn, at_any = divmod(trial, 2)
        moment = None if at_any else MOMENTS[7 * turn % len(MOMENTS)]
        kind = chance.choice([*ALL]) if moment is None else moment.errand
        errand, name = ALL[kind], f"{kind.replace(' ', '-')}-{trial}"
        fate = _fate(watch, chance, kind, moment)
        errand.prepare(world, name)
        watch.probes = watch.probes or watch.probe()
        before, queued = Books.of(world), len(world.jobs())
        call = chance.randint(1, moment.calls) if moment and turn // len(MOMENTS) % 2 else 1
        if moment is not None:
            death.arm(moment, call)
        begun = time.monotonic()
        first, said = _disturbed(watch, errand, name, fate)
        if moment is not None and call == 1:  # later calls there may be, or not
            tried[moment.name] += 1
            reached[moment.name] += fate.killed
            instead[moment.name] = f"trial {trial}: {first} and {said!r}"
        if not fate.killed:
            watch.seconds[kind] = time.monotonic() - begun
        death.disarm()
        watch.started_again()
        make_old(world)
        second, problem = soon(errand, world, name)
        where = moment.name if moment is not None else f"at {fate.seconds:.2f} s"
        seen = f"{kind}, {fate.process} killed {where}"
        now = Books.of(world)
        rotated = kind == "rotate"
        faults = [*faults_of_device(before, now, errand.charged, rotated=rotated)]
        faults += differences(first, said, second, problem)
        if len(world.jobs()) - queued != errand.jobs:
            faults.append(f"{len(world.jobs()) - queued} jobs")
        if not rotated and watch.probe() != watch.probes:
            faults.append("earlier texts are answered otherwise")
        watch.probes = [] if rotated else watch.probes
        faults += _left(watch)
        if faults:
            tally.fault("lost", trial, f"{seen}: {'; '.join(faults)}"[:900])
        else:
            tally.ended(f"{fate.process} killed" if fate.killed else "ended before it was killed")
    for name, seconds in watch.starts.items():
        tally.figures[f"processor's seconds of the slowest start: {name}"] = seconds
        if seconds > _START:
            tally.fault("unexplained", 0, f"a start of the {name} took {seconds} s")
    tally.came_by(tried, reached, instead)


def _fate(watch: _Watch, chance: random.Random, kind: str, moment: Moment | None) -> _Fate:
    """Choose the process and moment; a random moment lies within the errand's last duration."""
    if moment is not None:
        return _Fate(moment.process, moment, 0.0)
    return _Fate(chance.choice(_PLACES), None, chance.uniform(0, watch.seconds.get(kind, 1.0)))


def _disturbed(watch: _Watch, errand: Errand, name: str, fate: _Fate) -> tuple[list[object], Any]:
    """Run `done` while the process is killed and restarted, and return its result."""
    begun = time.monotonic()
    with ThreadPoolExecutor(1) as doing:
        asked: Future[tuple[list[object], Any]] = doing.submit(done, errand, watch.world, name)
        while not asked.done():
            if fate.moment is None and not fate.killed and time.monotonic() - begun > fate.seconds:
                fate.killed = watch.kill(fate.process)
            watch.look(fate)
            watch.started_again()
            time.sleep(0.02)
        watch.look(fate)
        return asked.result()


def _left(watch: _Watch) -> list[str]:
    """Return leftover processes and files, after up to `_TIDY` seconds for their removal."""
    state = watch.world.cloud.folder / "state"

    def found() -> list[str]:
        alive = processes(watch.file)
        orphans = Counter(alive.values()) - Counter(_PLACES[:1] + _PLACES[2:])
        lost = [f"{number} {name} too many" for name, number in orphans.items()]
        return [*lost, *faults_of_cloud(state), *left_aside(watch.world)]

    return left_after(found)


def _processor(pid: int) -> float:
    """Return the processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
