"""Messages of every kind to every method of a running daemon, and their effects."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from soak.campaign.daemons import Daemon
from soak.campaign.messages import CANARY, KINDS, made, methods
from soak.campaign.tally import Tally
from sottovoce.v1 import (  # noqa: F401 - descriptors are found by name once they are loaded
    bundles_pb2,
    edge_adapters_pb2,
    edge_agent_pb2,
    edge_chat_pb2,
    generation_pb2,
    inference_pb2,
    training_pb2,
)
from tests.support.processes import resident

CLOUD: Final = tuple(
    f"sottovoce.v1.{name}Service"
    for name in ("Bundles", "Enrollment", "Training", "Inference", "Generation")
)
DEVICE: Final = tuple(
    f"sottovoce.v1.{name}Service" for name in ("EdgeAgent", "EdgeChat", "EdgeAdapters", "EdgeOwner")
)
_EVERYBODYS: Final = (health.SERVICE_NAME, reflection.SERVICE_NAME)
_NEVER: Final = {"INTERNAL", "UNKNOWN", "UNAVAILABLE", "DEADLINE_EXCEEDED", "DATA_LOSS"}
_WARMING: Final = 400
_SECONDS: Final = 120.0
_STANDS: Final = {"WatchAdapters": 0.5}
"""Seconds after which a silent stream is ended."""
_READ: Final = 3
"""Maximum answers read from a stream, because some last as long as a job."""


def wire(
    services: tuple[str, ...],
    daemon: Daemon,
    tally: Tally,
    seed: str,
    trials: Iterable[int],
    metadata: tuple[tuple[str, str], ...] = (),
) -> None:
    """Sends one call a trial; then looks at log and memory, and has the daemon end.

    Args:
        metadata: of a tenant, which two of three calls carry.
    """
    asked = methods((*services, *_EVERYBODYS))
    memory = done = 0
    with grpc.insecure_channel(daemon.address) as channel:
        for trial in trials:
            chance = random.Random(f"{seed} {trial}")
            method = asked[trial % len(asked)]
            kind = chance.choice(KINDS)
            named = metadata if chance.random() < 2 / 3 else ()
            number = chance.choice((0, 1, 3)) if method.client_streaming else 1
            messages = [made(kind, method, chance) for _ in range(number)]
            status = called(channel, method, messages, named)
            if status in _NEVER:
                tally.fault("unexplained", trial, f"{kind} to {method.full_name}: {status}")
            else:
                tally.ended(status)
            done += 1
            if done == _WARMING:
                memory = resident(daemon.pid)
        if done > _WARMING:
            grown = resident(daemon.pid) - memory
            tally.figures[f"bytes a call, {services[0]}"] = round(grown / (done - _WARMING))
    code, log = daemon.stop(), daemon.log.read_text()
    tally.figures[f"log bytes a call, {services[0]}"] = round(len(log) / max(done, 1), 2)
    if CANARY in log:
        tally.fault("leaked", 0, "a text is in the log")
    tally.look_into(log)
    if code != 0:
        tally.fault("unexplained", 0, f"it ended with {code} when it was told to end")


def called(
    channel: grpc.Channel,
    method: MethodDescriptor,
    messages: Sequence[bytes],
    metadata: tuple[tuple[str, str], ...],
) -> str:
    """Return a call's status; "OK" if it was ended here while still open."""
    sides = (method.client_streaming, method.server_streaming)
    shape = "_".join("stream" if side else "unary" for side in sides)
    call = getattr(channel, shape)(f"/{method.containing_service.full_name}/{method.name}")
    sent: Any = iter(messages) if method.client_streaming else messages[0]
    stands = _STANDS.get(method.name)
    try:
        answers = call(sent, metadata=metadata, timeout=stands or _SECONDS)
        if method.server_streaming:
            for _, _ in zip(range(_READ), answers, strict=False):
                if method.name.startswith("Watch"):
                    break
            answers.cancel()
    except grpc.RpcError as error:
        if stands and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return "OK"
        return str(error.code().name)
    return "OK"
