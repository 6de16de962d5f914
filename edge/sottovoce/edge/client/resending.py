"""A stream of queries to the cloud that survives lost connections.

The noise of a query is drawn once, so a lost query must not get noise again. Every query without an
answer is kept, and sent again with the same id and bytes. Embeddings and predictions both use this
stream.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Final, Generic, Protocol, TypeVar

from sottovoce.core.errors import Unavailable

__all__ = ["WINDOW", "ReconnectingStream"]

WINDOW: Final = 32
"""Largest number of queries without an answer in one stream."""

_ATTEMPTS = 4
_SECONDS = 0.2
"""Seconds before the second attempt; each further wait is twice as long."""

_AGAIN = "try again; what was released is not charged a second time"


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
        for attempt in range(_ATTEMPTS):
            try:
                return self._next()
            except (Unavailable, StopIteration) as error:
                if self._answers is not None:
                    self._answers.close()
                    self._answers = None
                if attempt == _ATTEMPTS - 1 or not self._wanted():
                    if isinstance(error, Unavailable):
                        raise
                    raise Unavailable("the cloud ended the stream", fix=_AGAIN) from error
                time.sleep(_SECONDS * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _next(self) -> _A:
        """Return the next answer if it is for the oldest query; duplicates are refused."""
        answer = next(self._stream())
        with self._lock:
            if answer.request_id != self._unanswered[0].request_id:
                raise Unavailable("the cloud answered out of order", fix=_AGAIN)
            self._unanswered.popleft()
        return answer

    def close(self) -> None:
        """End the stream."""
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
