"""Answers in pieces: every one in order, and no stream at the cost of another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.serving.batcher import Batcher, Step, Stream
from sottovoce.core.errors import InvalidInput, Overloaded, Unavailable

Row = tuple[str, int, int]
"""A name, the next number, the last one."""


@dataclass(eq=False)
class Counting:
    """Counts for every row, one number a step; what each step was given is noted."""

    steps: list[list[tuple[str, int]]] = field(default_factory=list)
    before: Callable[[Sequence[Row]], None] = lambda rows: None
    cost: int = 1

    def __call__(self, rows: Sequence[Row]) -> Iterator[tuple[int, Step[Row, int] | Exception]]:
        self.before(rows)
        self.steps.append([(name, number) for name, number, _ in rows])
        for place, (name, number, last) in enumerate(rows):
            if name == "odd" and number == 3:
                yield place, InvalidInput("three")
            else:
                then = None if number == last else (name, number + 1, last)
                yield place, Step(number, then, self.cost)

    def of(self, name: str) -> list[int]:
        """Numbers that were counted for a row."""
        return [number for step in self.steps for row, number in step if row == name]


@dataclass(eq=False)
class Gate:
    """Holds the thread as long as the test says."""

    entered: threading.Event = field(default_factory=threading.Event)
    open: threading.Event = field(default_factory=threading.Event)

    def __call__(self, requests: Sequence[object]) -> Iterator[tuple[int, None]]:
        self.entered.set()
        assert self.open.wait(60)
        yield from ((place, None) for place in range(len(requests)))


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    with closing(Batcher(batch=4, streams=3, streams_per_tenant=2, patience=0.05)) as batcher:
        yield batcher


def held(batcher: Batcher) -> Gate:
    """A gate that the thread stands before."""
    gate = Gate()
    batcher.submit(gate, None, tenant="gate")
    assert gate.entered.wait(60)
    return gate


def all_done(batcher: Batcher) -> None:
    """Wait until the thread has done its earlier work."""
    for _ in range(2):
        batcher.submit(enumerate, None, cost=10_000).result(60)


def test_the_pieces_come_in_order_and_end(batcher: Batcher) -> None:
    counting = Counting()
    stream = batcher.stream(counting, ("a", 0, 99))
    assert list(stream) == list(range(100))
    assert stream.ended.result(0) is None
    assert list(stream) == []  # and stay ended
    assert counting.of("a") == list(range(100))


def test_rows_join_and_leave_between_two_steps(batcher: Batcher) -> None:
    joined = threading.Event()
    counting = Counting(before=lambda rows: joined.wait(60) if rows[0][1] == 2 else None)
    first = batcher.stream(counting, ("a", 0, 5))
    assert next(first) == 0
    second = batcher.stream(counting, ("b", 2, 3), tenant="other")
    joined.set()
    assert (list(first), list(second)) == ([1, 2, 3, 4, 5], [2, 3])
    # b came while a was on its way, went along with it for two steps, and left it.
    together = [step for step in counting.steps if len(step) == 2]
    assert [sorted(name for name, _ in step) for step in together] == [["a", "b"]] * 2
    assert counting.steps[-1] == [("a", 5)]


def test_what_is_asked_meanwhile_is_answered_between_steps(batcher: Batcher) -> None:
    order: list[str] = []

    def note(requests: Sequence[str]) -> Iterator[tuple[int, str]]:
        order.extend(requests)
        return enumerate(requests)

    gate = held(batcher)
    counting = Counting(before=lambda _: order.append("step"))
    stream = batcher.stream(counting, ("a", 0, 5), tenant="streams")
    answers = [batcher.submit(note, f"p{n}", tenant="asks") for n in range(5)]
    gate.open.set()
    for answer in answers:
        answer.result(60)
    assert list(stream) == [0, 1, 2, 3, 4, 5]
    # Batches of four: three of the five go with the first step, two with the second.
    assert order[:8] == ["step", "p0", "p1", "p2", "step", "p3", "p4", "step"]


def test_a_stream_pays_for_every_step() -> None:
    order: list[str] = []

    def cheap(requests: Sequence[None]) -> Iterator[tuple[int, None]]:
        order.append("cheap")
        return enumerate(requests)

    with closing(Batcher(batch=1)) as batcher:
        gate = held(batcher)
        dear = Counting(cost=10, before=lambda _: order.append("dear"))
        stream = batcher.stream(dear, ("a", 0, 3), tenant="dear", cost=10)
        answers = [batcher.submit(cheap, None, tenant="cheap") for _ in range(40)]
        gate.open.set()
        for answer in answers:
            answer.result(60)
        assert len(list(stream)) == 4
    # One of ten, then ten of one; a tie goes to who has waited longer, so at first it is eleven.
    steps = [place for place, name in enumerate(order) if name == "dear"]
    assert [later - earlier - 1 for earlier, later in pairwise(steps)] == [11, 10, 10]


def test_a_slow_reader_holds_up_its_own_row_only() -> None:
    metrics = Metrics()
    with closing(Batcher(pieces=3, metrics=metrics)) as batcher:
        counting = Counting()
        slow, quick = (batcher.stream(counting, (name, 0, 20)) for name in ("slow", "quick"))
        assert list(quick) == list(range(21))
        all_done(batcher)
        assert counting.of("slow") == [0, 1, 2]
        assert next(slow) == 0  # room for one more
        all_done(batcher)
        assert counting.of("slow") == [0, 1, 2, 3]
        assert list(slow) == list(range(1, 21))
    value = metrics.registry.get_sample_value
    assert value("sottovoce_request_seconds_count") == 21 + 21 + 4  # every step, every request


def test_cancelling_frees_the_place_wherever_the_row_is(batcher: Batcher) -> None:
    entered, go = threading.Event(), threading.Event()

    def pause(rows: Sequence[Row]) -> None:
        if rows[0][0] == "running":
            entered.set()
            assert go.wait(60)

    counting = Counting(before=pause)
    full = batcher.stream(counting, ("full", 0, 99))  # held back by its reader
    other = batcher.stream(counting, ("other", 0, 99))
    with pytest.raises(Overloaded, match="too much to do"):
        batcher.stream(counting, ("third", 0, 99))  # of this tenant
    all_done(batcher)
    full.cancel()
    running = batcher.stream(counting, ("running", 0, 99))
    assert entered.wait(60)
    running.cancel()
    waiting = batcher.stream(counting, ("waiting", 0, 99))
    waiting.cancel()
    another = batcher.stream(counting, ("another", 0, 1))
    go.set()
    assert list(another) == [0, 1]
    all_done(batcher)
    assert counting.of("waiting") == []
    assert counting.of("running") == [0]  # nothing after the step that was being made
    assert len(counting.of("full")) == 16
    for stream in (running, waiting):
        for _ in range(2):  # the piece that came too late is not given either
            with pytest.raises(CancelledError):
                next(stream)
    assert next(other) == 0
    other.cancel()
    full.cancel()  # again, which is nothing


def test_streams_are_bounded_of_all_tenants_too(batcher: Batcher) -> None:
    counting = Counting()
    streams = [batcher.stream(counting, (t, 0, 99), tenant=t) for t in "abc"]
    with pytest.raises(Overloaded, match="too much to do"):
        batcher.stream(counting, ("d", 0, 0), tenant="d")
    opened: list[Stream[int]] = []
    late = threading.Thread(
        target=lambda: opened.append(batcher.stream(counting, ("d", 0, 0), tenant="d"))
    )
    batcher._patience = 60
    late.start()
    streams[0].cancel()
    late.join(60)
    assert list(opened[0]) == [0]


def test_one_that_ended_makes_room(batcher: Batcher) -> None:
    for _ in range(5):
        assert list(batcher.stream(Counting(), ("a", 0, 1))) == [0, 1]
    for _ in range(5):
        with pytest.raises(InvalidInput):
            list(batcher.stream(Counting(), ("odd", 3, 4)))


def test_an_exception_ends_its_own_stream_after_the_pieces_before(batcher: Batcher) -> None:
    counting = Counting()
    streams = [batcher.stream(counting, (name, 0, 5), tenant=name) for name in ("odd", "a", "b")]
    got: list[int] = []
    with pytest.raises(InvalidInput, match="three"):
        got.extend(piece for piece in streams[0])
    assert [list(stream) for stream in streams[1:]] == [[0, 1, 2, 3, 4, 5]] * 2
    assert isinstance(streams[0].ended.exception(0), InvalidInput)
    with pytest.raises(InvalidInput, match="three"):
        next(streams[0])


def test_work_that_breaks_down_ends_the_streams_of_that_step(batcher: Batcher) -> None:
    def broken(rows: Sequence[Row]) -> None:
        if rows[0][1] == 2:
            raise RuntimeError("out of memory")

    failing, counting = Counting(before=broken), Counting()
    well = batcher.stream(counting, ("a", 0, 5))
    ill = batcher.stream(failing, ("b", 0, 5))
    assert (next(ill), next(ill)) == (0, 1)
    with pytest.raises(RuntimeError, match="out of memory"):
        next(ill)
    assert list(well) == [0, 1, 2, 3, 4, 5]


def test_closing_ends_streams_wherever_they_are_and_answers_the_rest() -> None:
    batcher = Batcher(pieces=2)
    ended: list[bool] = []
    full = batcher.stream(Counting(), ("a", 0, 99))
    all_done(batcher)
    gate = held(batcher)
    counting = Counting()
    waiting = batcher.stream(counting, ("b", 0, 99))
    for stream in (full, waiting):
        stream.ended.add_done_callback(lambda future: ended.append(future.done()))
    answer = batcher.submit(enumerate, None)
    reader: list[type[BaseException]] = []

    def read() -> None:
        try:
            next(waiting)
        except Unavailable as error:
            reader.append(type(error))

    reading = threading.Thread(target=read)
    closer = threading.Thread(target=batcher.close)
    reading.start()
    closer.start()
    reading.join(60)  # told at once, while the thread is still at work
    assert reader == [Unavailable]
    assert ended == [True, True]
    gate.open.set()
    closer.join(60)
    assert answer.done()
    assert (next(full), next(full)) == (0, 1)
    with pytest.raises(Unavailable, match="stopping"):
        next(full)
    assert counting.steps == []
    with pytest.raises(Unavailable, match="stopping"):
        batcher.stream(counting, ("c", 0, 1))


def test_many_readers_of_many_streams_each_get_their_own() -> None:
    with closing(Batcher(batch=5, pieces=2, streams=6, patience=60)) as batcher:
        counting, wrong = Counting(), []

        def work(seed: int) -> None:
            for turn in range(12):
                length = (seed * 7 + turn * 5) % 9
                stream = batcher.stream(counting, (str(seed), 0, length), tenant=str(seed % 3))
                if turn % 4 == seed % 4:
                    next(stream)
                    stream.cancel()
                elif list(stream) != list(range(length + 1)):
                    wrong.append((seed, turn))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not wrong
        assert not batcher._open
        assert len(batcher._queue) == 0


def test_a_stream_is_one_token_of_nobody_where_nothing_is_said() -> None:
    with closing(Batcher(tokens=2, streams=3, streams_per_tenant=2, patience=0.05)) as batcher:
        counting, gate = Counting(), held(batcher)
        streams = [
            batcher.stream(counting, ("a", 1, 1), tenant=""),
            batcher.stream(counting, ("b", 1, 1)),
        ]
        with pytest.raises(Overloaded):
            batcher.stream(counting, ("c", 1, 1))
        gate.open.set()
        assert [list(stream) for stream in streams] == [[1], [1]]
    assert counting.steps == [[("a", 1), ("b", 1)]]
