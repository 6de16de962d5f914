"""Retries of calls and streams to the cloud, with backoff.

A restart of the cloud, or of its load balancer, is over in a second. The owner need not notice it.
There are four kinds:

- `call_with_retry`: a unary call, for at most a given time.
- `download_with_retry`: a file, which goes on where it stopped.
- `stream_with_retry`: a stream of responses, until the first response has come.
- `ReconnectingStream`: queries and answers in both directions. A query without an answer is sent
  again in the next stream.

All wait as `backoff` says. The retries of gRPC itself would lose the ends of streams: see
`sottovoce.core.rpc.channels`.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

import grpc

from sottovoce.core.errors import Unavailable

WINDOW: Final = 32
"""Largest number of queries without an answer in one `ReconnectingStream`."""

_RETRYABLE: Final = {
    "sottovoce.v1.BundlesService": {"GetManifest"},
    "sottovoce.v1.EnrollmentService": {"RedeemCode"},
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
_T = TypeVar("_T")
PAUSE: Final = 1.0
"""Seconds to wait after a download broke."""
_BREAKS: Final = 5
_ATTEMPTS: Final = 4
_FIRST: Final = 0.2
"""Seconds before the second attempt; each further wait is twice as long."""
_AGAIN: Final = "try again; what was released is not charged a second time"


def backoff(attempts: int) -> float | None:
    """Return the seconds until the next attempt; None if there have been enough.

    The time is random, so that devices do not retry at the same moment.
    """
    if attempts >= _ATTEMPTS:
        return None
    return _FIRST * 2.0 ** (attempts - 1) * random.uniform(0.8, 1.2)


def is_retryable(path: str, failed: grpc.StatusCode) -> bool:
    """Return whether a call may be made again.

    Args:
        path: the method's, as gRPC writes it: ``/package.Service/Method``.
        failed: how the last attempt ended.
    """
    service, _, method = path.removeprefix("/").partition("/")
    passes = failed is grpc.StatusCode.UNAVAILABLE or (
        failed is grpc.StatusCode.RESOURCE_EXHAUSTED and service in _BUSY
    )
    return passes and method in _RETRYABLE.get(service, ())


def call_with_retry(path: str, call: Callable[..., Any], seconds: float) -> Any:
    """Call a unary method; retry where `is_retryable` allows it.

    Args:
        path: as in `is_retryable`.
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
            wait = backoff(attempts) if is_retryable(path, error.code()) else None
            if wait is None or time.monotonic() + wait >= end:
                raise
            time.sleep(wait)


def stream_with_retry(path: str, begin: Callable[[], Any]) -> Generator[Any, None, None]:
    """Yield the responses of a stream; retry only before the first response.

    Args:
        path: as in `is_retryable`.
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
            again = not answered and is_retryable(path, error.code())
            wait = backoff(attempts) if again else None
            if wait is None:
                raise
        finally:
            call.cancel()
        time.sleep(wait)


def download_with_retry(receive: Callable[[], _T], size: Callable[[], int]) -> _T:
    """Return what ``receive`` does; call it again after a break, to go on where it stopped.

    Args:
        size: returns how many bytes have arrived.

    Raises:
        Unavailable: the connection broke five times in a row, and nothing arrived.
    """
    breaks = 0
    while True:
        before = size()
        try:
            return receive()
        except Unavailable:
            breaks = 0 if size() > before else breaks + 1
            if breaks >= _BREAKS:
                raise
            time.sleep(PAUSE)


class _Numbered(Protocol):
    """A query or its answer."""

    @property
    def request_id(self) -> str:
        """The device's id of the query; the answer has the same."""


_Q = TypeVar("_Q", bound=_Numbered)
_A = TypeVar("_A", bound=_Numbered)


class ReconnectingStream(Generic[_Q, _A]):
    """Sends queries and receives their answers in the same order.

    One thread may send while another receives. The caller limits the number of queries without an
    answer.

    Args:
        start: begins one stream, as `Cloud.encode_stream` and `Cloud.predict_stream` do.
        wanted: whether the answers are still wanted; if not, a stream that ends is not restarted.
    """

    def __init__(
        self,
        start: Callable[[Iterator[_Q]], Generator[_A, None, None]],
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._start = start
        self._wanted = wanted
        self._lock = threading.Lock()
        self._unanswered: deque[_Q] = deque()
        self._sending: queue.SimpleQueue[_Q | None] = queue.SimpleQueue()
        self._answers: Generator[_A, None, None] | None = None

    def send(self, request: _Q) -> None:
        """Queue a query; never waits."""
        with self._lock:
            self._unanswered.append(request)
            self._sending.put(request)

    def receive(self) -> _A:
        """Return the answer to the oldest unanswered query.

        Raises:
            Unavailable: the cloud cannot be reached or answers another query, in every attempt.
            SottovoceError: the cloud refused the query.
        """
        attempts = 0
        while True:
            attempts += 1
            try:
                return self._next()
            except (Unavailable, StopIteration) as error:
                if self._answers is not None:
                    self._answers.close()
                    self._answers = None
                wait = backoff(attempts) if self._wanted() else None
                if wait is None:
                    if isinstance(error, Unavailable):
                        raise
                    raise Unavailable("the cloud ended the stream", fix=_AGAIN) from error
                time.sleep(wait)

    def _next(self) -> _A:
        """Return the next answer if it is for the oldest query; duplicates are refused."""
        answer = next(self._stream())
        with self._lock:
            if answer.request_id != self._unanswered[0].request_id:
                raise Unavailable("the cloud answered out of order", fix=_AGAIN)
            self._unanswered.popleft()
        return answer

    def close(self) -> None:
        with self._lock:
            self._sending.put(None)
        if self._answers is not None:
            self._answers.close()

    def _stream(self) -> Generator[_A, None, None]:
        if self._answers is None:
            with self._lock:
                self._sending.put(None)  # ends the thread that fed the stream before
                self._sending = queue.SimpleQueue()
                for request in self._unanswered:
                    self._sending.put(request)
                feed = iter(self._sending.get, None)
            self._answers = self._start(feed)
        return self._answers
