"""Mixed use for a chosen time: answers stay right, and memory, files and tables do not grow.

A round is every errand of `network` once, over an intact line, then a text of 30,000 words, then
four of these at once. Texts repeat after `_CYCLE` rounds, so only later rounds count. Growth is the
median slope between any two of them (Theil and Sen), times their number. It may be at most
`_MAY_GROW`; tables may not grow at all. With fewer than `ENOUGH` rounds the tally says that growth
is unknown.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

from scipy import stats

from bench.data import document
from soak.campaign.daemons import Daemon
from soak.campaign.network import ERRANDS, World, done
from soak.campaign.tally import Tally
from sottovoce.v1 import edge_agent_pb2 as agent

MOST_RESIDENT: Final = 96 * 10**6
"""Maximum resident bytes of the device's daemon."""
_WORDS: Final = 30_000
_AT_ONCE: Final = 4
_SECONDS: Final = 600.0
_CYCLE: Final = 4
ENOUGH: Final = 12
"""Minimum number of rounds, `_CYCLE` included, for a meaningful slope."""
_MAY_GROW: Final = {"device bytes": 3e6, "cloud bytes": 40e6, "descriptors": 3, "threads": 3}
"""Allowed growth over all rounds; all other figures may not grow."""
_BOUNDED: Final = {"jobs": "past_jobs", "usage": "an hour each", "sqlite_sequence": "one a table"}
"""Tables of the cloud that keep past records, up to limits that other tests check."""
_LASTING: Final = ("charged", "labelled", "accounts")
"""Tables of the device's ledger: they record charges, and grow with each training."""

Figures = dict[str, float]


def soak(world: World, tally: Tally, _: str, trials: Iterable[int]) -> None:
    """Run a round in each trial, and record both daemons' figures after each."""
    seen: list[Figures] = []
    for trial in trials:
        said = _round(world, trial)
        if said:
            tally.fault("unexplained", trial, "; ".join(said)[:600])
        else:
            tally.ended("as it should")
        seen.append(_figures(world))
    peak = _status(world.device, "VmHWM") << 10
    tally.figures |= {f"{name}, last": value for name, value in seen[-1].items()}
    tally.figures["device bytes, peak"] = peak
    if peak > MOST_RESIDENT:
        tally.fault("unexplained", 0, f"the device's daemon held {peak / 1e6:.1f} MB")
    tally.figures["rounds that growth was judged over"] = len(seen) if len(seen) >= ENOUGH else 0
    for name, grew in growth(seen).items():
        tally.figures[f"{name}, growth"] = round(grew, 1)
        if name.endswith(_LASTING):
            continue
        if grew > _MAY_GROW.get(name.partition(", ")[2] or name, 0):
            tally.fault("unexplained", 0, f"{name} grew by {grew:.1f} in {len(seen)} rounds")


def _round(world: World, trial: int) -> list[str]:
    """Run one round, and return the faults."""
    wrong = []
    for kind, errand in ERRANDS.items():
        # Each training is new and is deleted again; texts repeat.
        trains = kind in ("customize", "cancel", "rm")
        name = f"{kind.replace(' ', '-')}-{trial if trains else trial % _CYCLE}"
        errand.prepare(world, name)
        came, said = done(errand, world, name)
        if said is not None or not came:
            wrong.append(f"{kind}: {said}")
        if trains:
            done(ERRANDS["rm"], world, name)
    texts = [document(_WORDS, start=(trial + number) % _CYCLE) for number in range(_AT_ONCE)]
    asked = [agent.PrivatizeRequest(text=text) for text in texts]
    first = world.agent.Privatize(asked[0], timeout=_SECONDS)
    answers = [world.agent.Privatize.future(each, timeout=_SECONDS) for each in asked]
    if answers[0].result().text != first.text:
        wrong.append("a text came out otherwise beside others")
    if len({answer.result().text for answer in answers}) != _AT_ONCE:
        wrong.append("two texts came out alike")
    return wrong


def _figures(world: World) -> Figures:
    found: Figures = {}
    for side, daemon, file in (
        ("device", world.device, "agent.db"),
        ("cloud", world.cloud, "sottovoce.db"),
    ):
        found[f"{side} bytes"] = _status(daemon, "VmRSS") << 10
        found[f"{side}, threads"] = _status(daemon, "Threads")
        found[f"{side}, descriptors"] = len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))
        tables = _rows(daemon.folder / "state" / file)
        found |= {f"rows of {side}'s {name}": rows for name, rows in tables.items()}
    return found


def _status(daemon: Daemon, key: str) -> int:
    for line in Path(f"/proc/{daemon.pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    raise ProcessLookupError(daemon.pid)


def _rows(file: Path) -> dict[str, int]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        named = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return {
            name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for (name,) in named
            if name not in _BOUNDED
        }


def growth(seen: list[Figures]) -> Figures:
    """Return each figure's growth after the first `_CYCLE` rounds; empty with too few rounds.

    The slope is a median, so a single unusual round does not move it.
    """
    if len(seen) < ENOUGH:
        return {}
    later = seen[_CYCLE:]
    return {
        name: float(stats.theilslopes([each[name] for each in later]).slope) * len(later)
        for name in later[0]
    }
