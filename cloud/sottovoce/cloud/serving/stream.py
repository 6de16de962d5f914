"""An answer that comes in pieces, as its reader holds it.

Why it is here: a generated text is wanted word by word. Between the model's thread, which finds the
pieces, and the reader lies a buffer of bounded size; who reads slowly, or no more, is not waited
for by anyone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

__all__ = ["Step", "Stream"]

P = TypeVar("P")
Q = TypeVar("Q")

_END: Final = object()


@dataclass(frozen=True, slots=True)
class Step(Generic[Q, P]):
    """What one step of the model gives a row of a stream.

    Attributes:
        piece: for the reader; None where there is nothing to be read yet.
        then: the request of the row's next step; None after the last piece.
        cost: of that step, in tokens.
    """

    piece: P | None
    then: Q | None
    cost: int = 1


class Stream(Generic[P]):
    """Iterates over the pieces, in order, as they become known; for one thread.

    After the last piece it ends, or raises what ended it: what the work raised, Unavailable as the
    server stops, CancelledError after `cancel`.

    Args:
        size: pieces that may wait to be read.
        taken: called after each that is read.

    Attributes:
        ended: is done once nothing more will be found, however that came about. For what must be
            given back then; it is when the reader sees the end.
    """

    def __init__(self, size: int, taken: Callable[[], None]) -> None:
        self._size, self._taken = size, taken
        self._pieces: SimpleQueue[Any] = SimpleQueue()
        self._over = False  # the end was read
        self.ended: Future[None] = Future()

    def __iter__(self) -> Iterator[P]:
        return self

    def __next__(self) -> P:
        if not self._over:
            piece: P = self._pieces.get()
            if piece is not _END:
                self._taken()
                return piece
            self._over = True
        self.ended.result()
        raise StopIteration

    @property
    def full(self) -> bool:
        """Whether the reader must read before there is room for more."""
        return self._pieces.qsize() >= self._size

    def cancel(self) -> None:
        """Ends it: the reader wants no more."""
        if self.ended.cancel():
            self._pieces.put(_END)

    def put(self, piece: P) -> None:
        """Gives the reader a piece; for the model's thread."""
        self._pieces.put(piece)

    def end(self, error: Exception | None = None) -> None:
        """Ends it, with an error or well; one that has ended stays as it is."""
        with suppress(InvalidStateError):  # its reader may cancel at any moment
            if error is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(error)
            self._pieces.put(_END)
