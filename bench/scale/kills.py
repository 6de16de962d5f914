"""Jobs over trainers that are killed and put to sleep: what is each job's effect?

A kill comes whenever so many more jobs have ended, so that as many come on a slow machine. It is
chance what the trainer was at; `seed` draws which one it is.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.console import Figures
from bench.scale.trainers import STEPS, Place, Trainers, lines
from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import Example, Release, State, TrainingOptions
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store.adapters import digest
from sottovoce.cloud.store.database import Database, Row
from sottovoce.cloud.store.opening import open_database
from sottovoce.cloud.tenants.tenants import Tenants

__all__ = ["Load", "run"]

_TENANTS = 10
_EXAMPLES = [Upload(f"e{n}", Example(f"text {n}", "ab"[n % 2])) for n in range(8)]
_RELEASE = Release("pct2t.v1", 10.0, "balanced", "0" * 64, "content")
_PATIENCE = 600.0
"""Seconds without a job that ends, after which something is wrong."""
_NAP, _TRIES = 60.0, 100
"""Seconds that one sleeps at most; times that one is looked for who holds a job."""


@dataclass(frozen=True, slots=True)
class Load:
    """How many jobs over how many trainers, of which so many are killed and put to sleep."""

    jobs: int
    trainers: int
    kills: int
    sleeps: int
    seed: int = 0


def run(place: Place, load: Load, told: Callable[[int], None] = lambda done: None) -> Figures:
    """Does the jobs, and says what became of them.

    Raises:
        RuntimeError: no job ends any more.
    """
    database = open_database(place.state, place.store)
    try:
        _queue(database, load.jobs)
        trainers = Trainers(place, load.trainers)
        try:
            began = time.monotonic()
            _disturb(database, trainers, place, load, told)
            seconds = time.monotonic() - began
        finally:
            trainers.close()
        return {
            "jobs": load.jobs,
            "trainers": load.trainers,
            "kills": load.kills,
            "sleeps": load.sleeps,
            "seconds": round(seconds, 1),
            **_effects(database, place),
        }
    finally:
        database.close()


def _queue(database: Database, number: int) -> None:
    jobs = Jobs(database, ServerLimits(unfinished_jobs=number))
    for n in range(_TENANTS):
        Tenants(database).enroll(f"tenant-{n}")
    for n in range(number):
        tenant = f"tenant-{n % _TENANTS}"
        job = jobs.create(tenant, f"r{n}", f"adapter-{n}", TrainingOptions(), _RELEASE)
        append(jobs, job.id, tenant, 0, _EXAMPLES, 1)
        jobs.start(job.id, tenant, len(_EXAMPLES))


def _disturb(
    database: Database,
    trainers: Trainers,
    place: Place,
    load: Load,
    told: Callable[[int], None],
) -> None:
    drawn = random.Random(load.seed)
    deeds = [*["kill"] * load.kills, *["sleep"] * load.sleeps]
    drawn.shuffle(deeds)
    for number, deed in enumerate(deeds):
        _until_ended(database, load.jobs * number // len(deeds), told)
        if deed == "kill":
            trainers.kill(drawn.choice(trainers.names))
        else:
            _sleep(database, trainers, place, drawn)
    _until_ended(database, load.jobs, told)


def _until_ended(database: Database, wanted: int, told: Callable[[int], None]) -> None:
    before, since = -1, time.monotonic()
    while True:
        with database.read() as transaction:
            (row,) = transaction.rows(
                "SELECT count(*) AS n FROM jobs WHERE state IN ('SUCCEEDED', 'FAILED', 'CANCELLED')"
            )
        told(row["n"])
        if row["n"] >= wanted:
            return
        if row["n"] != before:
            before, since = row["n"], time.monotonic()
        if time.monotonic() - since > _PATIENCE:
            raise RuntimeError(f"{before} of {wanted} jobs ended, and no more do")
        time.sleep(0.01)


def _sleep(database: Database, trainers: Trainers, place: Place, drawn: random.Random) -> None:
    """Has one that holds a job sleep until another has it, and then find out."""
    met = _met(place)
    for _ in range(_TRIES):
        name = drawn.choice(trainers.names)
        with trainers.asleep(name):
            held = _jobs_of(database, name)
            # One that holds a whole file while it sleeps has to be woken before anybody gets on.
            if held:
                _within(_NAP, partial(_given_on, database, name, held))
        if held:
            _within(_NAP, lambda: _met(place) > met)
            return


def _met(place: Place) -> int:
    """Trainers that found their lease gone, or their connection: the server ends that of one who
    stands still within a transaction."""
    return len(lines(place, "refused")) + len(lines(place, "cut off"))


def _given_on(database: Database, owner: str, held: list[Row]) -> bool:
    return _jobs_of(database, owner) != held


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _jobs_of(database: Database, owner: str) -> list[Row]:
    with database.read() as transaction:
        return transaction.rows(
            "SELECT id, fence FROM jobs WHERE state = 'RUNNING' AND lease_owner = :owner",
            owner=owner,
        )


def _effects(database: Database, place: Place) -> Figures:
    """What is to be true of every job, counted; beside it how often it was given out."""
    with database.read() as transaction:
        jobs = transaction.rows("SELECT * FROM jobs")
        adapters = {row["job"]: row for row in transaction.rows("SELECT * FROM adapters")}
        (examples,) = transaction.rows("SELECT count(*) AS n FROM examples")
        (usage,) = transaction.rows("SELECT sum(seconds) AS seconds FROM usage")
    ended = lines(place, "ended")
    return {
        "succeeded": sum(row["state"] == State.SUCCEEDED for row in jobs),
        "named": sum(_named(place, row, adapters.get(row["id"])) for row in jobs),
        "ended_twice": len(ended) - len(set(ended)),
        "complaints": sorted({row["message"] for row in jobs} - {""}),
        "examples_left": examples["n"],
        "seconds_too_many": usage["seconds"] - STEPS * len(jobs),
        "claims": sum(row["fence"] for row in jobs),
        "folders_left_beside": sum(_left_beside(place, row) for row in jobs),
        "refused": len(lines(place, "refused")),
        "cut_off": len(lines(place, "cut off")),
    }


def _named(place: Place, job: Row, adapter: Row | None) -> bool:
    """Whether the adapter is the one that the newest holder of the lease made, and whole."""
    if adapter is None:
        return False
    folder = place.state / adapter["folder"]
    made = place.state / "jobs" / job["id"] / str(job["fence"]) / "adapter"
    return bool(folder == made and adapter["sha256"] == digest(folder))


def _left_beside(place: Place, job: Row) -> int:
    """Folders of earlier holders: one that slept between its claim and its first file makes its
    own when it wakes, and nobody looks at it."""
    return len([*(place.state / "jobs" / job["id"]).iterdir()]) - 1
