"""Run jobs over trainers that are killed and suspended, and count each job's effects.

A kill comes after a fixed number of ended jobs, so a slow machine gets as many kills. ``seed``
chooses the trainer; the trainer's step at that moment is left to chance.
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
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store import open_database
from sottovoce.cloud.store.adapters import digest
from sottovoce.cloud.store.database import Database, Row
from sottovoce.cloud.tenants import Tenants

__all__ = ["Load", "run"]

_TENANTS = 10
_EXAMPLES = [Upload(f"e{n}", Example(f"text {n}", "ab"[n % 2])) for n in range(8)]
_RELEASE = Release("pct2t.v1", 10.0, "balanced", "0" * 64, "content")
_PATIENCE = 600.0
"""Seconds without an ended job, after which the run fails."""
_NAP, _TRIES = 60.0, 100
"""Longest suspension, in seconds; attempts to find a trainer with a job."""


@dataclass(frozen=True, slots=True)
class Load:
    """Numbers of jobs and trainers, and of kills and suspensions."""

    jobs: int
    trainers: int
    kills: int
    sleeps: int
    seed: int = 0


def run(place: Place, load: Load, told: Callable[[int], None] = lambda done: None) -> Figures:
    """Run the jobs and return the counts of their effects.

    Raises:
        RuntimeError: no job has ended for ten minutes.
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
    """Suspend a trainer with a job until another trainer has the job, then wake it."""
    met = _met(place)
    for _ in range(_TRIES):
        name = drawn.choice(trainers.names)
        with trainers.asleep(name):
            held = _jobs_of(database, name)
            # A suspended trainer with a file lock blocks all others until it is woken.
            if held:
                _within(_NAP, partial(_given_on, database, name, held))
        if held:
            _within(_NAP, lambda: _met(place) > met)
            return


def _met(place: Place) -> int:
    """Count the trainers that lost their lease or their connection.

    PostgreSQL ends the connection of a trainer that is suspended within a transaction.
    """
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
    """Count the jobs with each required effect, and the claims of all jobs."""
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
    """Return whether the adapter is complete and from the newest holder of the lease."""
    if adapter is None:
        return False
    folder = place.state / adapter["folder"]
    made = place.state / "jobs" / job["id"] / str(job["fence"]) / "adapter"
    return bool(folder == made and adapter["sha256"] == digest(folder))


def _left_beside(place: Place, job: Row) -> int:
    """Count the folders of earlier lease holders, which nothing reads.

    A trainer that was suspended between its claim and its first file makes its folder when it
    wakes.
    """
    return len([*(place.state / "jobs" / job["id"]).iterdir()]) - 1
