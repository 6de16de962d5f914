"""Breaking an answer off stops it, in whatever state it is, and harms nothing of gRPC's."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from sottovoce.core.errors import NotFound
from sottovoce.edge.cli.common import Stream, interruptible


def test_all_comes_and_is_read_where_no_signal_is_raised() -> None:
    threads = set()

    def responses() -> Iterator[int]:
        for number in range(3):
            threads.add(threading.current_thread())
            yield number

    assert list(interruptible(lambda: Stream(responses(), int))) == [0, 1, 2]
    assert threading.main_thread() not in threads


def test_what_goes_wrong_is_raised_after_what_came() -> None:
    def responses() -> Iterator[int]:
        yield 1
        raise NotFound("no such adapter")

    came = interruptible(lambda: Stream(responses(), int))
    assert next(came) == 1
    with pytest.raises(NotFound, match="no such adapter"):
        next(came)


def test_a_call_that_cannot_be_made_is_told() -> None:
    def call() -> Stream[int]:
        raise NotFound("no such adapter")

    with pytest.raises(NotFound, match="no such adapter"):
        next(interruptible(call))


def test_an_answer_that_is_broken_off_is_cancelled() -> None:
    cancelled, ended = threading.Event(), threading.Event()

    def responses() -> Iterator[int]:
        yield 1
        assert cancelled.wait(60)
        ended.set()

    came = interruptible(lambda: Stream(responses(), cancelled.set))
    assert next(came) == 1
    came.close()
    assert cancelled.is_set()
    assert ended.wait(60)


def test_one_that_had_not_begun_is_cancelled_when_it_does() -> None:
    """Ctrl-C comes to the main thread, while another makes the call."""
    # A shell has its background jobs ignore Ctrl-C, and these tests may run in one.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    begin, cancelled = threading.Event(), threading.Event()
    main = threading.get_ident()

    def call() -> Stream[int]:
        signal.pthread_kill(main, signal.SIGINT)
        assert begin.wait(60)
        return Stream(iter(()), cancelled.set)

    try:
        with pytest.raises(KeyboardInterrupt):
            next(interruptible(call))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not cancelled.is_set()
    begin.set()
    assert cancelled.wait(60)
