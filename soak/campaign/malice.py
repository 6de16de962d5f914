"""Four hostile tenants in a separate process, controlled by `tenants`.

The process reads a line of JSON for each attack. It prints "begun" once all attackers run. At the
next line it stops them and prints their results.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from soak.campaign.daemons import OWN_CONNECTION
from sottovoce.core.rpc import limits
from sottovoce.v1 import inference_pb2 as inference
from sottovoce.v1 import training_pb2 as training
from tests.support.caller import Caller, credentials, message
from tests.support.examples import TOPICS, WORDS, examples

_SECONDS: Final = 30.0
"""Timeout of an attacker's calls, in seconds."""
_AT_ONCE: Final = 2
"""Threads of each tenant."""
_HELD: Final = 20
"""Streams of each kind that an attacker tries to hold: together more than a tenant's limit."""
_STREAMED: Final = 16


def asked(text: str, bundle: str) -> inference.InferenceServicePredictRequest:
    """Return a request for a tenant's adapter."""
    return inference.InferenceServicePredictRequest(
        adapter="topics", released_text=text, bundle_id=bundle
    )


@dataclass
class Attacker:
    """One thread of a hostile tenant during one attack.

    Attributes:
        caller: the connection, with the tenant's name and token.
        bundle: id of the cloud's bundle.
        victim: the attacked tenant.
        job: the victim's finished job.
        end: set when the attacker must stop.
        ends: number of calls by status.
        crossed: answers that the attacker should not have received.
        held: open calls.
    """

    caller: Caller
    bundle: str
    victim: str
    job: str
    chance: random.Random
    end: threading.Event
    ends: Counter[str] = field(default_factory=Counter)
    crossed: list[str] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)

    def call(self, method: Callable[..., Any], request: object, who: object = None) -> Any:
        """Return the answer, for a stream the first one; None without any."""
        try:
            answer = method(request, metadata=who or self.caller.metadata, timeout=_SECONDS)
            if isinstance(answer, grpc.Call):
                first = next(answer, None)
                answer.cancel()
                answer = first
        except grpc.RpcError as error:
            self.ends[error.code().name] += 1  # type: ignore[attr-defined]
            return None
        self.ends["OK"] += 1
        return answer

    def asked(self, text: str) -> inference.InferenceServicePredictRequest:
        """Return a request for the attacker's adapter, which has the name of the victim's."""
        return asked(text, self.bundle)

    def text(self, words: int) -> str:
        """Return a text of words that all adapters know."""
        return " ".join(self.chance.choices(WORDS, k=words))

    def then_nothing(self, *messages: object) -> Iterator[object]:
        """Yield the messages, then keep the stream open."""
        yield from messages
        self.end.wait()

    def created(self, **settings: object) -> str:
        """Create a job of this tenant, and return its id; empty on failure."""
        try:
            job = self.caller.create(self.bundle, adapter="more", training=settings)
        except grpc.RpcError as error:
            self.ends[error.code().name] += 1  # type: ignore[attr-defined]
            return ""
        self.ends["OK"] += 1
        return str(job.id)


def _idle_streams(me: Attacker) -> None:
    """Hold as many idle streams of every kind as possible, with at most one message on each."""
    if me.held:
        me.end.wait(0.1)
        return
    job = me.created()
    upload = message(job, 0, examples(3))
    first = inference.InferenceServicePredictStreamRequest(
        request_id="1", request=me.asked("the oven")
    )
    known = {"metadata": me.caller.metadata}
    calls = me.caller
    for _ in range(_HELD):
        me.held += [
            calls.inference.PredictStream(me.then_nothing(first), **known),
            calls.inference.PredictStream(me.then_nothing(), **known),
            calls.training.UploadExamples.future(me.then_nothing(upload), **known),
            calls.training.WatchJob(training.WatchJobRequest(job_id=job), **known),
            calls.training.WatchAdapters(training.WatchAdaptersRequest(), **known),
        ]


def _flood(me: Attacker) -> None:
    """Send texts of all lengths, singly and by streams."""
    me.call(me.caller.inference.Predict, me.asked(me.text(me.chance.choice((3, 30, 300, 3_000)))))
    requests = (
        inference.InferenceServicePredictStreamRequest(
            request_id=str(n), request=me.asked(me.text(60))
        )
        for n in range(_STREAMED)
    )
    with suppress(grpc.RpcError):
        for answer in me.caller.inference.PredictStream(
            requests, metadata=me.caller.metadata, timeout=_SECONDS
        ):
            me.ends["OK"] += 1
            _judge(me, answer.response)


def _dead_jobs(me: Attacker) -> None:
    """Create jobs and cancel them; some have half an upload, some are deleted."""
    job = me.created()
    if job and me.chance.random() < 0.5:
        with suppress(grpc.RpcError):
            me.caller.upload(job, examples(3))
    me.call(me.caller.training.CancelJob, training.CancelJobRequest(job_id=job))
    if me.chance.random() < 0.5:
        me.call(me.caller.training.DeleteJob, training.DeleteJobRequest(job_id=job))
    me.call(me.caller.training.ListJobs, training.ListJobsRequest(page_size=1_000))


def _huge(me: Attacker) -> None:
    """Send the largest allowed uploads and larger ones, and train the largest adapters."""
    job = me.created(method=training.METHOD_FULL_FINE_TUNING, epochs=100)
    rows = examples(40)
    for place in range(0, 40, 8):
        asked = message(job, place, rows[place : place + 8])
        for example in asked.examples:
            example.released_text = (f"{example.released_text} " * 2_000)[: limits.LARGEST_TEXT]
        with suppress(grpc.RpcError):
            me.caller.training.UploadExamples(
                iter([asked]), metadata=me.caller.metadata, timeout=_SECONDS
            )
    me.call(me.caller.training.StartJob, training.StartJobRequest(job_id=job, total_examples=40))
    too_large = me.asked("a " * (limits.LARGEST_MESSAGE // 2 - me.chance.randrange(4_000)))
    me.call(me.caller.inference.Predict, too_large)


def _names_of_others(me: Attacker) -> None:
    """Try the victim's name with a wrong token, its jobs by their ids, and its adapters."""
    calls = me.caller
    mine = dict(me.caller.metadata)["authorization"].removeprefix("Bearer ")
    for token in (mine, "", mine[:-1], f"{me.chance.getrandbits(256):064x}"):
        who = credentials(me.victim, token)
        for method, request in (
            (calls.inference.Predict, me.asked("the oven")),
            (calls.training.ListJobs, training.ListJobsRequest()),
            (calls.training.DeleteJob, training.DeleteJobRequest(job_id=me.job)),
        ):
            if me.call(method, request, who) is not None:
                me.crossed.append("another's name was enough")
    upload = message(me.job, 0, examples(3))
    for method, request in (
        (calls.training.GetJob, training.GetJobRequest(job_id=me.job)),
        (calls.training.WatchJob, training.WatchJobRequest(job_id=me.job)),
        (calls.training.CancelJob, training.CancelJobRequest(job_id=me.job)),
        (calls.training.DeleteJob, training.DeleteJobRequest(job_id=me.job)),
        (calls.training.StartJob, training.StartJobRequest(job_id=me.job, total_examples=3)),
        (calls.training.ReinstateAdapter, training.ReinstateAdapterRequest(job_id=me.job)),
        (calls.training.GetAdapter, training.GetAdapterRequest(adapter=me.job)),
        (calls.training.UploadExamples, iter([upload])),
    ):
        if me.call(method, request) is not None:
            me.crossed.append(f"another's job was answered: {type(request).__name__}")
    answer = me.call(calls.inference.Predict, me.asked("the oven was very salt"))
    if answer is not None:
        _judge(me, answer)


def _judge(me: Attacker, answer: inference.InferenceServicePredictResponse) -> None:
    if any(score.label in TOPICS for score in answer.scores):
        me.crossed.append("another's adapter answered")


KINDS: Final[dict[str, Callable[[Attacker], None]]] = {
    "idle streams": _idle_streams,
    "floods": _flood,
    "dead jobs": _dead_jobs,
    "huge uploads and adapters": _huge,
    "names of others": _names_of_others,
    "tokens renewed and revoked": _flood,
}
"""One step of each attack; attackers repeat it until the end."""


def _attack(told: dict[str, Any], address: str, end: threading.Event) -> dict[str, Any]:
    """Run all attackers until ``end`` is set."""
    step, attackers = KINDS[told["kind"]], []
    for name, token in told["tokens"].items():
        for number in range(_AT_ONCE):
            channel = grpc.insecure_channel(address, OWN_CONNECTION)
            chance = random.Random(f"{told['seed']} {name} {number}")
            given = (told["bundle"], told["victim"], told["job"], chance, end)
            attackers.append(Attacker(Caller(channel, credentials(name, token)), *given))
    begun = threading.Barrier(len(attackers) + 1)
    with ThreadPoolExecutor(len(attackers)) as threads:
        ended = [threads.submit(_go_on, step, each, begun) for each in attackers]
        begun.wait()
        print("begun", flush=True)
        end.wait()
        for attacker in attackers:
            attacker.caller.channel.close()  # ends the open calls
    for each in ended:
        each.result()
    found = sum((attacker.ends for attacker in attackers), Counter[str]())
    crossed = {seen for attacker in attackers for seen in attacker.crossed}
    return {"ends": found, "crossed": sorted(crossed)}


def _go_on(step: Callable[[Attacker], None], me: Attacker, begun: threading.Barrier) -> None:
    try:
        step(me)
    finally:
        begun.wait()
    while not me.end.is_set():
        try:
            step(me)
        except ValueError:  # its channel was closed
            if not me.end.is_set():
                raise


def main() -> None:
    """Run the attacks that standard input names, until it ends."""
    address, *processors = sys.argv[1:]
    os.sched_setaffinity(0, map(int, processors))
    for line in sys.stdin:
        end = threading.Event()
        waits = threading.Thread(target=lambda end=end: (sys.stdin.readline(), end.set()))
        waits.start()
        found = _attack(json.loads(line), address, end)
        waits.join()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
