"""Which calls of the cloud are made again where it does not answer, and when.

Why it is here: a restart of the cloud, or of a balancer before it, is over in a second, and no
owner need hear of it. gRPC would do the same, but loses the end of streams with it:
`sottovoce.core.wire.calling`.
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
    "sottovoce.v1.GenerationService": {"Generate"},  # until something was written
}
"""Only calls that may be: all of these are idempotent by their ids or by their nature."""
_BUSY: Final = {"sottovoce.v1.InferenceService", "sottovoce.v1.GenerationService"}
"""Services whose RESOURCE_EXHAUSTED passes; elsewhere it is a quota, which does not."""
_ATTEMPTS: Final = 4
_FIRST: Final = 0.2
"""Seconds before the second attempt; twice that before the third, and so on."""


def pause(path: str, failed: grpc.StatusCode, attempts: int) -> float | None:
    """Seconds until a call is made again, drawn so that devices do not come all at once; None if
    it is not.

    Args:
        path: of the method, as gRPC has it: ``/package.Service/Method``.
        failed: how the last attempt ended.
        attempts: that were made.
    """
    service, _, method = path.removeprefix("/").partition("/")
    passes = failed is grpc.StatusCode.UNAVAILABLE or (
        failed is grpc.StatusCode.RESOURCE_EXHAUSTED and service in _BUSY
    )
    if not passes or attempts >= _ATTEMPTS or method not in _REPEATED.get(service, ()):
        return None
    return _FIRST * 2.0 ** (attempts - 1) * random.uniform(0.8, 1.2)


def repeated(path: str, call: Callable[..., Any], seconds: float) -> Any:
    """What a call with one answer gives, made again where `pause` says so.

    Args:
        path: as in `pause`.
        call: makes it; is told its ``timeout`` in seconds.
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
    """The answers of a stream as they come, begun again where `pause` says so and there was none.

    Args:
        path: as in `pause`.
        begin: begins it. Whoever stops reading ends the call, so that the cloud does not go on.

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
