"""Breaking an answer off stops it, in whatever state it is, and harms nothing of gRPC's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator

import pytest

from sottovoce.core.errors import NotFound
from sottovoce.edge.cli.common import interruptible
from sottovoce.edge.client.cloud import Stoppable


def test_all_comes_and_is_read_where_no_signal_is_raised() -> None:
    threads = set()

    def answer(_: Stoppable) -> Generator[int, None, None]:
        for number in range(3):
            threads.add(threading.current_thread())
            yield number

    assert list(interruptible(answer)) == [0, 1, 2]
    assert threading.main_thread() not in threads


def test_what_goes_wrong_is_raised_after_what_came() -> None:
    def answer(_: Stoppable) -> Generator[int, None, None]:
        yield 1
        raise NotFound("no such adapter")

    came = interruptible(answer)
    assert next(came) == 1
    with pytest.raises(NotFound, match="no such adapter"):
        next(came)


def test_an_answer_that_is_broken_off_is_stopped_and_closed() -> None:
    stopped, closed = threading.Event(), threading.Event()

    def answer(stoppable: Stoppable) -> Generator[int, None, None]:
        stoppable(stopped.set)
        try:
            yield 1
            assert stopped.wait(60)
            yield 2
        finally:
            closed.set()

    came = interruptible(answer)
    assert next(came) == 1
    came.close()
    assert stopped.is_set()
    assert closed.wait(60)


def test_one_that_had_not_begun_is_stopped_when_it_does() -> None:
    begin, stopped = threading.Event(), threading.Event()

    def answer(stoppable: Stoppable) -> Generator[int, None, None]:
        yield 1
        assert begin.wait(60)
        stop: Callable[[], None] = stopped.set
        stoppable(stop)

    came = interruptible(answer)
    assert next(came) == 1
    came.close()
    assert not stopped.is_set()
    begin.set()
    assert stopped.wait(60)
