"""Order kept, reading ahead bounded, endings clean."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.core.rpc.streams import ordered
from tests.support.waiting import until


def _double(number: int) -> Callable[[], int]:
    return lambda: 2 * number


def test_answers_keep_the_order_and_come_with_their_requests() -> None:
    assert list(ordered(range(200), _double, window=8)) == [(n, 2 * n) for n in range(200)]
    assert list(ordered((), _double, window=8)) == []


def test_an_answer_comes_before_the_next_request() -> None:
    answered = threading.Semaphore(1)

    def requests() -> Iterator[int]:
        for number in range(20):
            assert answered.acquire(timeout=60)
            yield number

    for number, answer in ordered(requests(), _double, window=8):
        assert answer == 2 * number
        answered.release()


def test_no_more_is_begun_than_the_window_and_one_that_waits() -> None:
    begun = threading.Semaphore(0)
    count = 0

    def begin(number: int) -> Callable[[], int]:
        nonlocal count
        count += 1
        begun.release()
        return _double(number)

    answers = ordered(range(100), begin, window=4)
    next(answers)
    for _ in range(6):  # the one answered, four in the window, one waiting for a place
        assert begun.acquire(timeout=60)
    assert not begun.acquire(timeout=0.1)
    assert count == 6
    assert [number for number, _ in answers] == list(range(1, 100))


@pytest.mark.parametrize("where", ["requests", "begin", "answer"])
def test_an_error_comes_after_the_answers_before_it(where: str) -> None:
    def fail() -> int:
        raise InvalidInput("the fourth")

    def requests() -> Iterator[int]:
        yield from range(3)
        if where == "requests":
            fail()
        yield from range(3, 9)

    def begin(number: int) -> Callable[[], int]:
        if number == 3 and where == "begin":
            fail()
        return fail if number == 3 and where == "answer" else _double(number)

    answers = ordered(requests(), begin, window=2)
    assert [next(answers)[1] for _ in range(3)] == [0, 2, 4]
    with pytest.raises(InvalidInput, match="fourth"):
        next(answers)


def test_a_reader_who_leaves_ends_the_thread() -> None:
    before = set(threading.enumerate())
    answers = ordered(iter(int, 1), _double, window=2)
    next(answers)
    (reader,) = set(threading.enumerate()) - before
    answers.close()
    until(lambda: not reader.is_alive())


def test_a_caller_who_is_gone_is_not_waited_for() -> None:
    silent = threading.Event()

    def requests() -> Iterator[int]:
        yield 1
        silent.wait(10)  # a stream on which nothing more comes

    here = True
    answers = ordered(requests(), _double, window=2, active=lambda: here)
    assert next(answers) == (1, 2)
    here = False
    assert list(answers) == []
    silent.set()


def test_requests_are_read_and_begun_in_the_callers_context() -> None:
    said: ContextVar[str] = ContextVar("said", default="nobody")

    def requests() -> Iterator[str]:
        yield said.get()

    def begun() -> list[tuple[str, str]]:
        said.set("somebody")

        def begin(_: str) -> Callable[[], str]:
            found = said.get()
            return lambda: found

        return [*ordered(requests(), begin, window=1)]

    assert copy_context().run(begun) == [("somebody", "somebody")]
