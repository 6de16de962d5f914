"""Clocks that jump by years, forwards and back: an owner's errands must give the same results.

libfaketime sets the wall clock of the daemons, as on a board without a battery or with a wrong time
server; the monotonic clock stays correct. In a trial one side's clock jumps during an errand of
`network`. The errand is repeated after the next jump. It must give the same result, and be charged
and queued once.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from soak.campaign.network import ERRANDS, World, done, miscounted
from soak.campaign.tally import Tally

_LIBRARIES: Final = "lib/*/faketime/libfaketimeMT.so.1"
_DAY: Final = 86_400
_YEAR: Final = 365 * _DAY
_JUMPS: Final = (-20 * _YEAR, -3 * _YEAR, -31 * _DAY, -3_600, 3_600, 31 * _DAY, 3 * _YEAR)


def _library() -> Path | None:
    return next(Path("/usr").glob(_LIBRARIES), None)


def needed() -> str:
    """Return the machine's missing requirement; empty if none."""
    return "" if _library() else "clocks that jump take libfaketime (`make test-deps`)"


class Clock:
    """The clock of a daemon, set by a file.

    Attributes:
        environ: environment variables to start the daemon with.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.jump(0)
        self.environ = {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def jump(self, seconds: int) -> None:
        """Set the clock so many seconds from the true time, for all later readings."""
        half = self._file.with_suffix(".new")
        half.write_text(f"{seconds:+d}")
        half.replace(self._file)


def clocks(
    world: World, sides: dict[str, Clock], tally: Tally, seed: str, trials: Iterable[int]
) -> None:
    """Does an errand a trial while one of the clocks jumps, or both, and once more.

    Args:
        sides: the clocks of the world's daemons.
    """
    names = list(ERRANDS)
    for trial in trials:
        chance = random.Random(f"{seed} {trial}")
        kind = names[7 * trial % len(names)]
        errand, name = ERRANDS[kind], f"{kind.replace(' ', '-')}-{trial}"
        which = [side for side in sides if chance.random() < 0.6] or [*sides]
        jumps = [chance.choice(_JUMPS) for _ in range(2)]
        errand.prepare(world, name)
        before = world.counts()
        timer = threading.Timer(chance.choice((0, 0.02, 0.2, 1)), _all, (sides, which, jumps[0]))
        timer.start()
        first, said = done(errand, world, name)
        timer.join()
        _all(sides, which, jumps[1])
        second, problem = done(errand, world, name)
        seen = f"{kind}, {' and '.join(which)} by {jumps} s"
        if said is not None or problem is not None:
            tally.fault("lost", trial, f"{seen}: {said}; afterwards {problem}"[:600])
        elif first != second:
            tally.fault("crossed", trial, f"{seen}: {first} and then {second}"[:600])
        elif wrong := miscounted(world, errand, before):
            tally.fault("lost", trial, f"{seen}: {wrong}")
        else:
            tally.ended("as with a clock that goes right")


def _all(sides: dict[str, Clock], which: list[str], seconds: int) -> None:
    for side in which:
        sides[side].jump(seconds)
