"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import grpc

_Answer = TypeVar("_Answer")

_BUSY = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED)


def until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Waits until ``condition()`` holds, and fails if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def among_a_flood(call: Callable[[], _Answer]) -> _Answer:
    """Return the answer of ``call()``, repeated while a flood of other calls crowds it out."""
    answers: list[_Answer] = []

    def answered() -> bool:
        try:
            answers.append(call())
        except grpc.RpcError as error:
            if error.code() not in _BUSY:
                raise
        return bool(answers)

    until(answered)
    return answers[0]
