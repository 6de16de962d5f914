"""Callers that send predictions through agents without pause, and record the results."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import grpc
import numpy as np

from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc

__all__ = ["Callers"]

_PATIENCE = 60.0
"""Timeout of a call, in seconds."""
_AHEAD = 4
"""Unanswered requests of a stream."""


@dataclass(frozen=True, slots=True)
class _Call:
    began: float
    ended: float
    failed: str = ""


class Callers:
    """For each device, several callers with one open call each, and one endless stream.

    Args:
        devices: addresses of agents; each agent retries failed calls itself.
        adapter: name of the adapter, the same for all devices.
        texts: the texts to classify, in turn.
        each: number of callers for each device.
    """

    def __init__(
        self, devices: Sequence[str], adapter: str, texts: Sequence[str], each: int
    ) -> None:
        self._adapter, self._texts = adapter, texts
        self._calls: list[_Call] = []
        self._answers: list[_Call] = []
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=work, args=(device,), name="caller")
            for device in devices
            for work in [self._ask] * each + [self._stream]
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _requests(self) -> Iterator[agent.PredictRequest]:
        for text in itertools.cycle(self._texts):
            if self._ending.is_set():
                return
            yield agent.PredictRequest(text=text, adapter=self._adapter)

    def _ask(self, device: str) -> None:
        with grpc.insecure_channel(device, (("grpc.use_local_subchannel_pool", 1),)) as channel:
            stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
            for request in self._requests():
                began, failed = time.monotonic(), ""
                try:
                    stub.Predict(request, timeout=_PATIENCE)
                except grpc.RpcError as error:
                    failed = error.code().name
                self._calls.append(_Call(began, time.monotonic(), failed))

    def _stream(self, device: str) -> None:
        room = threading.Semaphore(_AHEAD)
        sent: list[float] = []

        def ask() -> Iterator[agent.PredictStreamRequest]:
            for number, request in enumerate(self._requests()):
                room.acquire()
                sent.append(time.monotonic())
                yield agent.PredictStreamRequest(request_id=str(number), request=request)

        with grpc.insecure_channel(device, (("grpc.use_local_subchannel_pool", 1),)) as channel:
            stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
            try:
                for number, answer in enumerate(stub.PredictStream(ask())):
                    failed = "" if answer.request_id == str(number) else "OUT_OF_ORDER"
                    self._answers.append(_Call(sent[number], time.monotonic(), failed))
                    room.release()
            except grpc.RpcError as error:
                now = time.monotonic()
                self._answers.append(_Call(now, now, error.code().name))
                room.release()

    @staticmethod
    def now() -> float:
        """Return the present moment, for `since`."""
        return time.monotonic()

    def measured(self, seconds: float) -> dict[str, float]:
        """Return the figures of `since` for the next ``seconds``."""
        began = time.monotonic()
        time.sleep(seconds)
        return self.since(began)

    def since(self, began: float) -> dict[str, float]:
        """Summarise the calls ended after ``began``: calls a second, milliseconds, lost calls."""
        now = time.monotonic()
        calls = [call for call in [*self._calls] if call.ended > began]
        streamed = [call for call in [*self._answers] if call.ended > began]
        took = [1000 * (call.ended - call.began) for call in calls] or [0.0]
        p50, p99 = np.percentile(took, [50, 99])
        return {
            "calls": len(calls),
            "a_second": round(len(calls) / (now - began), 1),
            "p50_ms": round(float(p50), 1),
            "p99_ms": round(float(p99), 1),
            "longest_ms": round(max(took)),
            "lost": sum(bool(call.failed) for call in calls),
            "streamed": len(streamed),
            "streams_lost": sum(bool(call.failed) for call in streamed),
            "longest_streamed_ms": round(
                max((1000 * (call.ended - call.began) for call in streamed), default=0.0)
            ),
        }
