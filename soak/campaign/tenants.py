"""Four tenants attack one: its answers stay the same, and tenants never see each other's data.

A trial runs a tenant's usual calls twice, first undisturbed and then under an attack. The tenant
classifies texts, singly and by a stream. It creates a job, uploads examples, cancels it, and lists
its jobs. Each call must give the same answer under attack. The latency of single texts, usually the
99th percentile, is compared over all trials.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import IO, Any, Final

import grpc

from soak.campaign.daemons import Daemon
from soak.campaign.malice import KINDS, asked
from soak.campaign.tally import Tally
from sottovoce.cloud.job import State, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from sottovoce.core.bundle.folder import Bundle
from sottovoce.v1 import inference_pb2 as inference
from sottovoce.v1 import training_pb2 as training
from tests.support.caller import Caller, credentials
from tests.support.examples import RELEASE, WORDS, examples
from tests.support.processes import environment
from tests.support.waiting import until

_VICTIM: Final = "one"
_OTHERS: Final = ("two", "three", "four", "five")
_OPTIONS: Final = TrainingOptions(epochs=2, batch_size=8)
_SECONDS: Final = 120.0
_TEXTS: Final = 12
_TIMES_AS_LONG: Final = 3.0
"""Maximum factor of the 99th percentile under attack."""
_ENOUGH: Final = 1_000
"""Minimum number of undisturbed texts for this judgement."""
_OVER: Final = (training.JOB_STATE_SUCCEEDED, training.JOB_STATE_CANCELLED)


@dataclass(frozen=True, slots=True)
class Town:
    """A cloud's state before it starts.

    Attributes:
        tokens: tokens of every tenant; the first tenant is the victim.
        bundle: id of the cloud's bundle.
        job: job of the victim's adapter.
    """

    tokens: dict[str, str]
    bundle: str
    job: str


def settled(state: Path, backbone: str, bundle: Path) -> Town:
    """Set up five tenants, each with an adapter "topics" whose labels name the tenant."""
    from sottovoce.cloud.training.worker import Worker  # which imports torch

    identity = Bundle.open(bundle).id
    worker = Worker(state, backbone)
    known, jobs = Tenants(worker.database), Jobs(worker.database)
    tokens = {name: known.enroll(name) for name in (_VICTIM, *_OTHERS)}
    made = {}
    for name in tokens:
        job = jobs.create(name, "r", "topics", _OPTIONS, replace(RELEASE, bundle_id=identity))
        whose = "" if name == _VICTIM else f"{name}s "
        rows = [
            Upload(f"e{place}", replace(row, label=f"{whose}{row.label}"))
            for place, row in enumerate(examples(24))
        ]
        append(jobs, job.id, name, 0, rows, len(WORDS))
        made[name] = jobs.start(job.id, name, len(rows)).id
    while worker.run_next():
        pass
    assert jobs.get(made[_VICTIM]).state == State.SUCCEEDED
    worker.database.close()
    return Town(tokens, identity, made[_VICTIM])


@contextmanager
def apart() -> Iterator[Collection[int]]:
    """Restrict this process and its children to half of the processors, and yield the other half.

    The attackers use the other half, as real attackers use other machines. A single processor is
    shared.
    """
    every = sorted(os.sched_getaffinity(0))
    half = len(every) // 2
    os.sched_setaffinity(0, every[:half] or every)
    try:
        yield every[half:]
    finally:
        os.sched_setaffinity(0, every)


def tenants(
    cloud: Daemon,
    town: Town,
    tally: Tally,
    seed: str,
    trials: Iterable[int],
    processors: Collection[int],
) -> None:
    """Attacks the one in a way a trial, with a process of the others'.

    Args:
        cloud: runs in the town.
        processors: of the attackers.
    """
    bundle = town.bundle
    tokens = {name: town.tokens[name] for name in _OTHERS}
    quiet: list[float] = []
    attacked: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with (
        closing(SqliteDatabase(cloud.folder / "state")) as database,
        grpc.insecure_channel(cloud.address) as line,
        _attackers(cloud, processors) as (ask, hear),
    ):
        one = Caller(line, credentials(_VICTIM, town.tokens[_VICTIM]))
        expected = dict(_answers(one, bundle))
        for trial in trials:
            kind = [*KINDS][trial % len(KINDS)]
            wrong = _day(one, bundle, expected, town.job, quiet)
            told = {"kind": kind, "seed": f"{seed} {trial}", "tokens": tokens}
            told |= {"bundle": bundle, "victim": _VICTIM, "job": town.job}
            print(json.dumps(told), file=ask, flush=True)
            assert hear.readline() == "begun\n"
            wrong += _day(one, bundle, expected, town.job, attacked[kind])
            crossed = []
            if kind.startswith("tokens"):
                chance = random.Random(f"{seed} {trial}")
                crossed = _renewed(Tenants(database), line, bundle, tokens, chance)
            print("end", file=ask, flush=True)
            met = json.loads(hear.readline())
            _tidied(line, tokens)
            if crossed or met["crossed"]:
                seen = "; ".join([*crossed, *met["crossed"]])
                tally.fault("crossed", trial, f"{kind}: {seen}"[:600])
            elif wrong:
                tally.fault("lost", trial, f"{kind}: {'; '.join(wrong)}"[:600])
            else:
                tally.ended(kind)
    if code := cloud.stop():
        tally.fault("unexplained", 0, f"it ended with {code} when it was told to end")
    _compared(tally, quiet, attacked)


@contextmanager
def _attackers(cloud: Daemon, processors: Collection[int]) -> Iterator[tuple[IO[str], IO[str]]]:
    """Run the attackers' process, and yield its input and output."""
    command = [sys.executable, "-m", "soak.campaign.malice", cloud.address, *map(str, processors)]
    with subprocess.Popen(
        command,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdin, process.stdout
        finally:
            process.kill()


def _texts() -> list[str]:
    chance = random.Random(0)
    return [" ".join(chance.choices(WORDS, k=12)) for _ in range(_TEXTS)]


def _scores(answer: inference.InferenceServicePredictResponse) -> tuple[object, ...]:
    return tuple(sorted((score.label, round(score.probability, 2)) for score in answer.scores))


def _answers(one: Caller, bundle: str) -> Iterator[tuple[str, tuple[object, ...]]]:
    for text in _texts():
        answer = one.inference.Predict(asked(text, bundle), metadata=one.metadata, timeout=_SECONDS)
        yield text, _scores(answer)


def _day(
    one: Caller, bundle: str, expected: dict[str, Any], job: str, times: list[float]
) -> list[str]:
    """Run the victim's calls and return the faults; add each text's seconds to ``times``."""
    wrong = []
    try:
        begun = time.perf_counter()
        for text, scores in _answers(one, bundle):
            times.append(time.perf_counter() - begun)
            if scores != expected[text]:
                wrong.append(f"{scores} for {expected[text]}")
            begun = time.perf_counter()
        wrong += _rest_of_day(one, bundle, expected, job)
    except grpc.RpcError as error:
        wrong.append(f"{error.code().name}: {error.details()}")  # type: ignore[attr-defined]
    return wrong


def _rest_of_day(one: Caller, bundle: str, expected: dict[str, Any], job: str) -> Iterator[str]:
    known = {"metadata": one.metadata, "timeout": _SECONDS}
    requests = (
        inference.InferenceServicePredictStreamRequest(request_id=text, request=asked(text, bundle))
        for text in expected
    )
    answered = {
        answer.request_id: _scores(answer.response)
        for answer in one.inference.PredictStream(requests, **known)
    }
    if answered != expected:
        yield "a stream was answered otherwise"
    own = one.create(bundle, adapter="given-up").id
    if one.upload(own, examples(3)) != 3:
        yield "an upload was not taken"
    listed = one.training.ListJobs(training.ListJobsRequest(page_size=100), **known).jobs
    if {each.id for each in listed if each.state not in _OVER} != {own}:
        yield "the list of jobs is another"
    if one.get(job).state != training.JOB_STATE_SUCCEEDED:
        yield "its adapter's job is another"
    one.training.CancelJob(training.CancelJobRequest(job_id=own), **known)
    one.training.DeleteJob(training.DeleteJobRequest(job_id=own), **known)


def _renewed(
    known: Tenants, line: grpc.Channel, bundle: str, tokens: dict[str, str], chance: random.Random
) -> list[str]:
    """Renew a hostile tenant's token during its flood, and return the faults found.

    The old token must open nothing.
    """
    name = chance.choice(_OTHERS)
    old = Caller(line, credentials(name, tokens[name]))
    tokens[name] = known.renew(name)
    found = []
    try:
        old.inference.Predict(asked("the oven", bundle), metadata=old.metadata, timeout=_SECONDS)
        found.append("a token that was renewed opened a call")
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.UNAUTHENTICATED:  # type: ignore[attr-defined]
            found.append(f"a token that was renewed met {error.code()}")  # type: ignore[attr-defined]
    return found


def _tidied(line: grpc.Channel, tokens: dict[str, str]) -> None:
    """Cancel the attackers' jobs, so that the next trial starts with an idle cloud."""
    for name, token in tokens.items():
        until(partial(_without_jobs, Caller(line, credentials(name, token))))


def _without_jobs(caller: Caller) -> bool:
    """Cancel all jobs, and return whether there were none; a late request may create another."""
    asked = training.ListJobsRequest(page_size=1_000)
    jobs = caller.training.ListJobs(asked, metadata=caller.metadata).jobs
    left = [job.id for job in jobs if job.state <= training.JOB_STATE_RUNNING]
    for job in left:
        with suppress(grpc.RpcError):  # it has ended meanwhile
            caller.training.CancelJob(
                training.CancelJobRequest(job_id=job), metadata=caller.metadata
            )
    return not left


def _compared(tally: Tally, quiet: list[float], attacked: dict[str, list[float]]) -> None:
    """Record the 99th percentiles in milliseconds, and a fault if they differ too much."""
    everything = [each for times in attacked.values() for each in times]
    found = {"quiet": quiet, "attacked": everything, **attacked}
    p99 = {
        name: quantiles(times, n=100, method="inclusive")[98]
        for name, times in found.items()
        if len(times) > 1
    }
    tally.figures |= {f"p99 ms, {name}": round(1000 * each, 1) for name, each in p99.items()}
    if "attacked" in p99:
        tally.figures["p99, times as long"] = times = round(p99["attacked"] / p99["quiet"], 2)
        if len(quiet) >= _ENOUGH and times > _TIMES_AS_LONG:
            tally.fault("unexplained", 0, f"under attack a text takes {times} times as long")
