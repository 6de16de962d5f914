"""A device's errands with its cloud over a faulty line: done once, or refused with a reason.

A trial runs one errand over a line with one faulty frame, then the same errand over an intact line.
The second run must succeed. The first run's output must be the same, or the beginning of the same
and an error with its remedy. Both together must be charged once and queue one job.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import grpc

from soak.campaign.daemons import PROGRAM, Daemon
from soak.campaign.faulty_line import KINDS, WAYS, Fault, FaultyLine
from soak.campaign.tally import Tally
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import Code, NotFound, SottovoceError, Unavailable
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.edge.state.adapters import ADAPTERS
from sottovoce.v1 import edge_adapters_pb2 as changes
from sottovoce.v1 import edge_adapters_pb2_grpc as changes_grpc
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc as agent_grpc
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import edge_chat_pb2_grpc as chats_grpc
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import wanted
from tests.support.processes import environment
from tests.support.waiting import until

_SECONDS: Final = 400.0
"""Timeout of any call: longer than all the device's deadlines, so that its own error appears."""
_MINUTES: Final = 100.0
"""Seconds of a stall that keepalive must notice; one trial in `_RARELY` has it."""
_RARELY: Final = 61
_STALLS: Final = (0.05, 0.5, 2.0)
_TOPICS: Final = "topics"
_EXAMPLES: Final = 24
_STREAMED: Final = 12


class World:
    """A device's daemon, a line, and a cloud with two versions of the device's adapter.

    Args:
        device, line, cloud: all running.

    Attributes:
        environ: environment of commands, beside the device's.
    """

    environ: Mapping[str, str] = MappingProxyType({})

    def __init__(self, device: Daemon, line: FaultyLine, cloud: Daemon) -> None:
        self.device, self.line, self.cloud = device, line, cloud
        self.connect()
        self.versions = [customized(self, _TOPICS, f"version {number}").id for number in range(2)]

    def connect(self) -> None:
        """Open calls to the device's daemon, which may have been restarted."""
        self._channel = grpc.insecure_channel(self.device.address)
        self.agent: Any = agent_grpc.EdgeAgentServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self.chats: Any = chats_grpc.EdgeChatServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self.changes: Any = changes_grpc.EdgeAdaptersServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Close the calls; the daemons go on."""
        self._channel.close()

    def releases(self) -> int:
        """Return the number of releases charged so far."""
        status = self.agent.GetStatus(agent.GetStatusRequest(), timeout=_SECONDS)
        return int(status.ledger.releases)

    def counts(self) -> tuple[int, int]:
        """Return the numbers of releases charged and of jobs in the cloud."""
        return self.releases(), len(self.jobs())

    def jobs(self) -> list[tuple[str, int]]:
        """Return state and number of examples of each job in the cloud."""
        place = self.cloud.folder / "state" / "sottovoce.db"
        with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as database:
            found = "SELECT state, next_sequence FROM jobs WHERE deleted = 0 ORDER BY number"
            return database.execute(found).fetchall()

    def command(self, *arguments: str, **environ: str) -> dict[str, Any]:
        """Run a command of the device and return its JSON output.

        Raises:
            SottovoceError: the command's error on its standard error.
            AssertionError: it was killed.
        """
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format("edge"), *arguments, "--json"],
            env=environment() | self.device.environ | self.environ | environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        if done.returncode == 0:
            found: dict[str, Any] = json.loads(done.stdout)
            return found
        assert done.returncode > 0, f"`sotto {arguments[0]}` ended with {done.returncode}"
        told = json.loads(done.stderr.splitlines()[-1])["error"]
        error = SottovoceError(told["problem"], fix=told["fix"])
        error.code = Code[told["code"]]  # type: ignore[misc]
        raise error


@dataclass(frozen=True, slots=True)
class Errand:
    """An action of an owner.

    Attributes:
        do: yields the results piece by piece; calls with the same name are the same errand.
        frames: approximate number of frames each way, over a new connection.
        charged: releases charged by the first run.
        jobs: jobs queued by the first run.
        prepare: sets up the preconditions.
    """

    do: Callable[[World, str], Iterator[object]]
    frames: int
    charged: int = 0
    jobs: int = 0
    prepare: Callable[[World, str], object] = lambda world, name: None


def _text(name: str, number: int = 0) -> str:
    return f"The doctor was in the garden with Anna, {name} {number}"


def _score(answer: agent.PredictResponse) -> tuple[object, ...]:
    scores = sorted((score.label, round(score.score, 2)) for score in answer.scores)
    return answer.released_text, *scores


def _predicted(world: World, name: str) -> Iterator[object]:
    asked = agent.PredictRequest(text=_text(name), adapter=_TOPICS, where=agent.WHERE_CLOUD)
    yield _score(world.agent.Predict(asked, timeout=_SECONDS))


def _predicted_many(world: World, name: str) -> Iterator[object]:
    asked = (
        agent.PredictStreamRequest(
            request_id=str(number),
            request=agent.PredictRequest(
                text=_text(name, number), adapter=_TOPICS, where=agent.WHERE_CLOUD
            ),
        )
        for number in range(_STREAMED)
    )
    for answer in world.agent.PredictStream(asked, timeout=_SECONDS):
        yield answer.request_id, _score(answer.response)


def _vector(answer: agent.EmbedResponse) -> tuple[object, ...]:
    return answer.tokens, *(round(value, 2) for value in answer.embedding[:8])


def _embedded(world: World, name: str) -> Iterator[object]:
    yield _vector(world.agent.Embed(agent.EmbedRequest(text=_text(name)), timeout=_SECONDS))


def _embedded_many(world: World, name: str) -> Iterator[object]:
    asked = (
        agent.EmbedStreamRequest(
            request_id=str(number), request=agent.EmbedRequest(text=_text(name, number))
        )
        for number in range(_STREAMED)
    )
    for answer in world.agent.EmbedStream(asked, timeout=_SECONDS):
        yield answer.request_id, _vector(answer.response)


def _written(answers: Iterable[Any]) -> Iterator[object]:
    for answer in answers:
        yield from answer.delta_text
        if answer.HasField("answered"):
            yield answer.answered.finish_reason, answer.answered.completion_tokens


def _generated(world: World, name: str) -> Iterator[object]:
    sampling = chats.Sampling(max_tokens=24)
    asked = chats.CompleteRequest(text=_text(name), sampling=sampling)
    yield from _written(world.chats.Complete(asked, timeout=_SECONDS))


def _talked(world: World, name: str) -> Iterator[object]:
    turns = [chats.ChatTurn(role=2, text=_text(name))]  # type: ignore[arg-type]
    asked = chats.ChatRequest(turns=turns, sampling=chats.Sampling(max_tokens=24))
    yield from _written(world.chats.Chat(asked, timeout=_SECONDS))


def customized(world: World, adapter: str, name: str, epochs: int = 1) -> agent.Customization:
    """A customisation, known again by ``name``: trained, or, if it is a long one, taken in."""
    settings = wanted(
        adapter=adapter,
        epochs=epochs,
        request_id=name,
        method=training.METHOD_HEAD if epochs == 1 else training.METHOD_LORA,
        replace=True,
    )
    examples = [
        agent.LabelledText(text=_text(name, number), label=("outside", "clinic")[number % 2])
        for number in range(_EXAMPLES)
    ]
    parts = (
        agent.CustomizeRequest(settings=settings),
        agent.CustomizeRequest(examples=agent.LabelledTexts(examples=examples)),
    )
    taken: agent.Customization = world.agent.Customize(iter(parts), timeout=_SECONDS).customization
    if epochs == 1:
        list(watched(world, taken.id))
    return taken


def watched(world: World, identity: str) -> Iterator[agent.Customization]:
    """Yield a customisation at every change, until it ends."""
    asked = agent.WatchCustomizationRequest(id=identity)
    for answer in world.agent.WatchCustomization(asked, timeout=_SECONDS):
        yield answer.customization


def trained(world: World, name: str, epochs: int = 1) -> Iterator[object]:
    """Train to the end; more than one epoch writes checkpoints."""
    taken = customized(world, name, name, epochs)
    (*_, ended) = watched(world, taken.id)
    assert ended.state == agent.CUSTOMIZATION_STATE_SUCCEEDED, ended.message
    yield taken.id, ended.examples, ended.uploaded


def _prepare_running(world: World, name: str) -> None:
    taken = customized(world, name, name, epochs=200)
    for seen in watched(world, taken.id):
        if seen.state == agent.CUSTOMIZATION_STATE_TRAINING:
            return


def _cancelled(world: World, name: str) -> Iterator[object]:
    asked = changes.CancelCustomizationRequest(adapter=name)
    yield world.changes.CancelCustomization(asked, timeout=_SECONDS).customization.state
    until(lambda: world.jobs()[-1][0] == "CANCELLED")


def _rolled_back(world: World, name: str) -> Iterator[object]:
    version = world.versions[sum(map(ord, name)) % 2]
    asked = changes.RollBackAdapterRequest(adapter=_TOPICS, id=version)
    yield world.changes.RollBackAdapter(asked, timeout=_SECONDS).customization.id


def _deleted(world: World, name: str) -> Iterator[object]:
    try:
        world.changes.DeleteAdapter(changes.DeleteAdapterRequest(adapter=name), timeout=_SECONDS)
    except grpc.RpcError as error:
        if not isinstance(from_rpc_error(error, peer="the agent"), NotFound):
            raise
    yield "gone"


def _pulled(world: World, name: str) -> Iterator[object]:
    folder = world.device.folder / name
    found = world.command("pull", SOTTO_BUNDLE_PATH=str(folder))
    Bundle.open(folder / "current", expected=found["bundle_id"])
    yield found["bundle_id"]


def _fetched(world: World, name: str) -> Iterator[object]:
    yield world.command("fetch", _TOPICS)["version"]


def _forget_fetched(world: World, name: str) -> None:
    shutil.rmtree(world.device.folder / "state" / ADAPTERS, ignore_errors=True)


ERRANDS: Final = {
    "predict": Errand(_predicted, 6, charged=1),
    "predict many": Errand(_predicted_many, 20, charged=_STREAMED),
    "embed": Errand(_embedded, 6, charged=1),
    "embed many": Errand(_embedded_many, 20, charged=_STREAMED),
    "generate": Errand(_generated, 20, charged=1),
    "chat": Errand(_talked, 20, charged=1),
    "customize": Errand(trained, 25, charged=_EXAMPLES, jobs=1),
    "cancel": Errand(_cancelled, 6, prepare=_prepare_running),
    "rollback": Errand(_rolled_back, 6),
    "rm": Errand(_deleted, 6, jobs=-1, prepare=lambda world, name: customized(world, name, name)),
    "pull": Errand(_pulled, 40),
    "fetch": Errand(_fetched, 12, prepare=_forget_fetched),
}


def network(world: World, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    """Run one errand in each trial, with a fault in one frame, and repeat it without."""
    names = list(ERRANDS)
    for trial in trials:
        chance = random.Random(f"{seed} {trial}")
        # Neighbours are unlike, so that a few trials have more than the first errands.
        kind = names[7 * trial % len(names)]
        errand = ERRANDS[kind]
        fault = Fault(
            chance.choice(KINDS),
            chance.choice(WAYS),
            chance.randrange(errand.frames),
            _MINUTES if trial % _RARELY == _RARELY - 1 else chance.choice(_STALLS),
        )
        name = f"{kind.replace(' ', '-')}-{trial}"
        errand.prepare(world, name)
        before = world.counts()
        if chance.random() < 0.5:
            world.line.cut()
        world.line.arm(fault)
        first, said = done(errand, world, name)
        world.line.arm(None)
        second, problem = soon(errand, world, name)
        seen = f"{kind}, {fault.kind} at frame {fault.place} {fault.way}"
        if problem is not None:
            tally.fault("lost", trial, f"{seen}: afterwards {problem}")
        elif first != second[: len(first)] or (said is None and first != second):
            tally.fault("crossed", trial, f"{seen}: {first} and then {second}"[:600])
        elif said is not None and not helps(said):
            tally.fault("unexplained", trial, f"{seen}: {said}")
        elif wrong := miscounted(world, errand, before):
            tally.fault("lost", trial, f"{seen}: {wrong}")
        else:
            ended = "done" if said is None else f"said why not: {said.code.name}"
            tally.ended(f"{ended}, {fault.kind}" if fault.met else "met no fault")


def done(
    errand: Errand, world: World, name: str
) -> tuple[list[object], SottovoceError | AssertionError | None]:
    """Return all results, and the error in place of missing ones."""
    came = []
    try:
        for piece in errand.do(world, name):
            came.append(piece)  # noqa: PERF402 - results before an error count
    except grpc.RpcError as error:
        return came, from_rpc_error(error, peer="the agent")
    except (SottovoceError, AssertionError) as error:
        return came, error
    return came, None


def soon(
    errand: Errand, world: World, name: str
) -> tuple[list[object], SottovoceError | AssertionError | None]:
    """Run `done` again once gRPC has found the line intact; a broken line needs a short wait."""
    deadline = time.monotonic() + 60
    while True:
        came, problem = done(errand, world, name)
        if not isinstance(problem, Unavailable) or time.monotonic() > deadline:
            return came, problem
        time.sleep(0.5)


def differences(
    first: list[object], said: object, second: list[object], problem: object
) -> Iterator[str]:
    """Yield the faults of an errand's second run, after a first one that a fault disturbed."""
    if problem is not None:
        yield f"afterwards {problem}"
    if first != second[: len(first)] or (said is None and first != second):
        yield f"{first} and then {second}"


def miscounted(world: World, errand: Errand, before: tuple[int, int]) -> str:
    """Return what an errand charged and queued since ``before``; empty if it is as expected."""
    charged, jobs = (now - then for now, then in zip(world.counts(), before, strict=True))
    expected = (charged, jobs) == (errand.charged, errand.jobs)
    return "" if expected else f"{charged} charged, {jobs} jobs"


def helps(said: BaseException) -> bool:
    """Return whether an error says what to do."""
    return isinstance(said, SottovoceError) and bool(said.fix) and said.code != Code.INTERNAL
