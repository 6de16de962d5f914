"""A connection to the cloud: its services, its certificate, and its open calls.

A certificate is renewed while calls are open. Their connection may be closed only after the last
call has ended. A failed call must also know which certificate it showed, because the file may hold
another one by then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from sottovoce.core.rpc.interceptors import ReadingChannel
from sottovoce.edge.client.device_certificate import Held
from sottovoce.v1 import (
    bundles_pb2_grpc,
    enrollment_pb2_grpc,
    generation_pb2_grpc,
    inference_pb2_grpc,
    training_pb2_grpc,
)

__all__ = ["Connection", "Method"]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service, as gRPC calls it, and its connection."""

    over: Connection
    path: str
    call: Any


class Connection:
    """The services over one channel; their methods are `Method`.

    Args:
        channel: belongs to this connection alone.
        shown: the certificate that the channel shows, if any.
    """

    def __init__(self, channel: grpc.Channel, shown: Held | None = None) -> None:
        self.shown = shown
        self.closed = False
        self._channel = channel
        self._lock = threading.Lock()
        self._calls = 0
        made = _Methods(self, channel)
        self.bundles = bundles_pb2_grpc.BundlesServiceStub(made)  # type: ignore[no-untyped-call]
        self.enrollment = enrollment_pb2_grpc.EnrollmentServiceStub(made)  # type: ignore[no-untyped-call]
        self.training = training_pb2_grpc.TrainingServiceStub(made)  # type: ignore[no-untyped-call]
        self.inference = inference_pb2_grpc.InferenceServiceStub(made)  # type: ignore[no-untyped-call]
        self.generation = generation_pb2_grpc.GenerationServiceStub(made)  # type: ignore[no-untyped-call]

    @property
    def in_use(self) -> bool:
        """Whether a call is open on this connection."""
        return self._calls > 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """Count a call as open during the block."""
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1

    def close(self) -> None:
        """End all calls in progress, and allow no more; gRPC then raises ValueError."""
        self.closed = True
        self._channel.close()


class _Methods:
    """A stand-in for a channel in gRPC's stubs."""

    def __init__(self, over: Connection, channel: grpc.Channel) -> None:
        self._over, self._channel = over, ReadingChannel(channel)

    def __getattr__(self, shape: str) -> Callable[..., Method]:
        make = getattr(self._channel, shape)

        def made(path: str, *given: Any, **options: Any) -> Method:
            return Method(self._over, path, make(path, *given, **options))

        return made
