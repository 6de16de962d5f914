"""Which calls are retried when the cloud does not answer, and when.

A restart of the cloud, or of its load balancer, is over in a second. The owner need not notice it.
The retries of gRPC itself would lose the ends of streams: see `sottovoce.core.rpc.channels`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from typing import Any, Final

import grpc

__all__ = ["pause", "repeated", "streamed"]

_REPEATED: Final = {
    "sottovoce.v1.BundlesService": {"GetManifest"},
    "sottovoce.v1.EnrollmentService": {"RedeemCode", "IssueCertificate"},
    "sottovoce.v1.TrainingService": {
        "CreateJob",
        "StartJob",
        "GetJob",
        "CancelJob",
        "ListJobs",
        "ReinstateAdapter",
        "DeleteJob",
    },
    "sottovoce.v1.InferenceService": {"Predict", "Encode"},
    "sottovoce.v1.GenerationService": {"Generate"},  # only before the first piece
}
"""Calls that are safe to retry: all are idempotent, by their ids or by nature."""
_BUSY: Final = {"sottovoce.v1.InferenceService", "sottovoce.v1.GenerationService"}
"""Services whose RESOURCE_EXHAUSTED is temporary; elsewhere it is a quota."""
_ATTEMPTS: Final = 4
_FIRST: Final = 0.2
"""Seconds before the second attempt; each further wait is twice as long."""


def pause(path: str, failed: grpc.StatusCode, attempts: int) -> float | None:
    """Return the seconds until a call is retried; None if it is not.

    The time is random, so that devices do not retry at the same moment.

    Args:
        path: the method's, as gRPC writes it: ``/package.Service/Method``.
        failed: how the last attempt ended.
        attempts: the number of attempts so far.
    """
    service, _, method = path.removeprefix("/").partition("/")
    passes = failed is grpc.StatusCode.UNAVAILABLE or (
        failed is grpc.StatusCode.RESOURCE_EXHAUSTED and service in _BUSY
    )
    if not passes or attempts >= _ATTEMPTS or method not in _REPEATED.get(service, ()):
        return None
    return _FIRST * 2.0 ** (attempts - 1) * random.uniform(0.8, 1.2)


def repeated(path: str, call: Callable[..., Any], seconds: float) -> Any:
    """Call a unary method, with the retries of `pause`.

    Args:
        path: as in `pause`.
        call: makes the call; gets its ``timeout`` in seconds.
        seconds: for all attempts together.

    Raises:
        grpc.RpcError: how the last attempt ended.
    """
    end = time.monotonic() + seconds
    attempts = 0
    while True:
        attempts += 1
        try:
            return call(timeout=end - time.monotonic())
        except grpc.RpcError as error:
            wait = pause(path, error.code(), attempts)
            if wait is None or time.monotonic() + wait >= end:
                raise
            time.sleep(wait)


def streamed(path: str, begin: Callable[[], Any]) -> Generator[Any, None, None]:
    """Yield the responses of a stream, with the retries of `pause`.

    A stream is retried only before its first response.

    Args:
        path: as in `pause`.
        begin: begins the stream. When the reader stops, the call is cancelled, so that the cloud
            does not continue.

    Raises:
        grpc.RpcError: how the last attempt ended.
    """
    attempts, answered = 0, False
    while True:
        attempts += 1
        call = begin()
        try:
            for response in call:
                answered = True
                yield response
            return
        except grpc.RpcError as error:
            wait = None if answered else pause(path, error.code(), attempts)
            if wait is None:
                raise
        finally:
            call.cancel()
        time.sleep(wait)
