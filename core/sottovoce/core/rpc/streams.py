"""Streams: a bound on open ones, their order and padding, and texts that arrive in pieces.

At the limit, a new stream replaces an idle one.

An open stream holds a thread for as long as its caller likes, and some services do not authenticate
callers. If the server refused new streams at the limit, a few silent callers could keep everyone
out. So the server ends the idle streams instead.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import grpc

from sottovoce.core.errors import InvalidInput
from sottovoce.core.rpc.channels import Handler, Interceptor, host, wrapped
from sottovoce.core.rpc.limits import LARGEST_PADDING


@dataclass(eq=False)
class Stream:
    """An open stream."""

    context: grpc.ServicerContext
    listens: bool
    """Whether the caller sends several requests."""
    caller: Hashable
    moved: float = field(default_factory=time.monotonic)
    """The time of the last message in either direction."""
    unread: bool = False
    """Whether a message waits for the caller to read."""


class StreamTracker(Interceptor):
    """Keeps a list of the open streams of some services; goes inside the error interceptor.

    Args:
        concerns: whether a service's streams are listed, by its name.
        whose: the caller of a stream, called in the context of the stream's call.
    """

    def __init__(
        self,
        concerns: Callable[[str], bool],
        whose: Callable[[grpc.ServicerContext], Hashable] = lambda context: None,
    ) -> None:
        self._concerns, self._whose = concerns, whose
        self._open: set[Stream] = set()
        self._lock = threading.Lock()

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        listens, answers = bool(handler.request_streaming), bool(handler.response_streaming)
        if not self._concerns(service) or not (listens or answers):
            return handler

        def unary(answer: Callable[..., Any]) -> Callable[..., Any]:
            def call(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
                with self._held(context, listens) as stream:
                    return answer(_noted(requests, stream), context)

            return call

        def streaming(answer: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
            def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
                with self._held(context, listens) as stream:
                    asked = _noted(request, stream) if listens else request
                    for message in _noted(answer(asked, context), stream):
                        stream.unread = True
                        yield message
                        stream.unread = False  # the caller asks for the next one

            return call

        return wrapped(handler, unary, streaming)

    @contextmanager
    def _held(self, context: grpc.ServicerContext, listens: bool) -> Iterator[Stream]:
        stream = Stream(context, listens, self._whose(context))
        with self._lock:
            self._open.add(stream)
            gives_way = self._gives_way()
            if gives_way is not None:
                self._open.remove(gives_way)
        if gives_way is not None:
            gives_way.context.cancel()
        try:
            yield stream
        finally:
            with self._lock:
                self._open.discard(stream)

    def _gives_way(self) -> Stream | None:
        """Return the open stream to end, if there are too many; called with the lock."""
        return None


class OpenStreams(StreamTracker):
    """Bounds the streams of all its services together.

    Beyond the limit, the server takes the caller with the most open streams. It ends that caller's
    stream that has been idle for the longest. So a stream in use stays, however many streams others
    open.

    Args:
        most: streams open at once.
        concerns, whose: see `StreamTracker`.
    """

    def __init__(
        self,
        most: int,
        concerns: Callable[[str], bool] = lambda service: True,
        whose: Callable[[grpc.ServicerContext], Hashable] = lambda context: host(context.peer()),
    ) -> None:
        super().__init__(concerns, whose)
        self._most = most

    def _gives_way(self) -> Stream | None:
        if len(self._open) <= self._most:
            return None
        counts = Counter(stream.caller for stream in self._open)
        most = max(counts.values())
        crowd = (stream for stream in self._open if counts[stream.caller] == most)
        return min(crowd, key=lambda stream: stream.moved)


def _noted(messages: Iterable[Any], stream: Stream) -> Iterator[Any]:
    for message in messages:
        stream.moved = time.monotonic()
        yield message


Q = TypeVar("Q")
A = TypeVar("A")

_TICK = 0.5
"""Seconds after which a waiting thread checks that the caller is still there."""


def ordered(
    requests: Iterable[Q],
    begin: Callable[[Q], Callable[[], A]],
    *,
    window: int,
    active: Callable[[], bool] = lambda: True,
) -> Generator[tuple[Q, A], None, None]:
    """Yield every request with its answer, in order.

    Args:
        requests: read on a separate thread, in the caller's context; the thread ends soon after
            the stream.
        begin: starts work on a request, on that thread; the function it returns waits for the
            answer, on the caller's thread.
        window: the most requests begun and not yet answered.
        active: whether the caller's caller is still there.

    Raises:
        What ``requests``, ``begin`` or an answer raises, after all answers before it.
    """
    begun: queue.Queue[tuple[Q, Callable[[], A]] | BaseException | None] = queue.Queue(window)
    left = threading.Event()

    def offer(item: tuple[Q, Callable[[], A]] | BaseException | None) -> bool:
        while active() and not left.is_set():
            try:
                begun.put(item, timeout=_TICK)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        try:
            for request in requests:
                if not offer((request, begin(request))):
                    return
            offer(None)
        except BaseException as error:
            offer(error)

    threading.Thread(target=copy_context().run, args=(read,), name="stream", daemon=True).start()
    try:
        while active():
            try:
                item = begun.get(timeout=_TICK)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            request, answer = item
            yield request, answer()
    finally:
        left.set()


class Pieces:
    """Collects a text; true once there is any."""

    def __init__(self) -> None:
        self._collected = bytearray()

    def __bool__(self) -> bool:
        return bool(self._collected)

    def add(self, piece: str) -> None:
        """Append ``piece``."""
        self._collected += piece.encode()

    def text(self) -> str:
        """The whole text."""
        return self._collected.decode()


STEP: Final = 512
"""Bytes between two sizes, up to 4 KiB; beyond, an eighth of the power of two below."""


class Stops:
    """Cuts a stream before the first complete stop string.

    Holds back text that may be the start of one.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held = ""
        self.found = False
        """Whether a stop string has come; from then on no text is returned."""

    def feed(self, delta: str) -> str:
        """Return the text that can be shown now that ``delta`` has come."""
        if self.found:
            return ""
        text = self._held + delta
        if found := [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]:
            self.found, self._held = True, ""
            _, place = min(found)  # the first to be complete, as if characters came one by one
            return text[:place]
        held = max(map(self._beginning, [text] * len(self._stops), self._stops), default=0)
        cut = len(text) - held
        self._held = text[cut:]
        return text[:cut]

    def finish(self) -> str:
        """Return the rest."""
        rest, self._held = self._held, ""
        return rest

    @staticmethod
    def _beginning(text: str, stop: str) -> int:
        """Return how many of the last characters of ``text`` are the first of ``stop``."""
        most = min(len(stop) - 1, len(text))
        return next((n for n in range(most, 0, -1) if text.endswith(stop[:n])), 0)


def padded_size(size: int) -> int:
    """Return the smallest padded size that has room for `size` bytes.

    >>> [padded_size(size) for size in (1, 512, 513, 4097, 10_000)]
    [512, 512, 1024, 4608, 10240]
    """
    step = max(STEP, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step


def pad(message: Any) -> None:
    """Fill the field ``padding`` until the message has a `padded_size`.

    Two kinds of message go to the next size. One byte below a size there is no room for the field.
    Where the field's length takes another byte, the padding cannot fill the size exactly.
    """
    message.ClearField("padding")
    wanted = padded_size(message.ByteSize())
    while (missing := wanted - message.ByteSize()) != 0:
        filling = missing - 2
        while filling > 0 and filling + 1 + _digits(filling) > missing:
            filling -= 1
        if filling > 0 and filling + 1 + _digits(filling) == missing:
            message.padding = bytes(filling)
            return
        wanted = padded_size(wanted + 1)


def check_padding(padding: bytes, largest: int = LARGEST_PADDING) -> None:
    """Refuse padding that is too long, or that could carry information.

    Raises:
        InvalidInput: more than ``largest`` bytes, or any that is not zero.
    """
    if len(padding) > largest or padding.strip(b"\0"):
        raise InvalidInput(
            "padding is not what fills a message up",
            fix=f"send at most {largest} bytes, zeros all",
            subject="padding",
        )


def _digits(length: int) -> int:
    """Return the bytes of a length on the wire (a varint)."""
    return -(-length.bit_length() // 7)
