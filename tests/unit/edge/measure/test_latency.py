"""The parts of `sotto bench`: clocks add up, documents are long enough, memory is read."""

from __future__ import annotations

import os

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import STAGES, Privatizer
from sottovoce.edge import measure


def test_a_stopwatch_adds_up_what_its_clock_says() -> None:
    ticks = iter([1.0, 3.0, 10.0, 10.5])
    watch = measure.Stopwatch(lambda: next(ticks))
    for _ in range(2):
        with watch.stage("noise"):
            pass
    assert watch.seconds == {**dict.fromkeys(STAGES, 0.0), "noise": 2.5}


@pytest.mark.parametrize("words", [1, 12, 13, 500])
def test_a_document_has_the_words_asked_for_all_of_them_listed(
    small_bundle: Bundle, words: int
) -> None:
    text = measure.document(small_bundle, words)
    found = [word.strip(".").lower() for word in text.split()]
    assert len(found) == words
    assert set(found) <= {word.lower() for word in small_bundle.words}
    assert text.endswith(".")
    assert text == measure.document(small_bundle, words)


def test_every_stage_is_timed_and_they_make_up_the_whole(small_bundle: Bundle) -> None:
    watch = measure.Stopwatch()
    privatizer = Privatizer(small_bundle, stage=watch.stage)
    text = measure.document(small_bundle, 2_000)
    between: list[None] = []
    total, stages = measure.latency(
        privatizer, watch, text, Setting("strong"), 3, between=lambda: between.append(None)
    )
    assert list(stages) == list(STAGES)
    assert all(taken > 0 for taken in stages.values())
    # Medians of parts need not add up to the median of the whole, but no part is counted twice.
    assert sum(stages.values()) < 1.5 * total
    assert len(between) == 4  # one round is not counted


def test_resident_memory_is_read_from_the_kernel() -> None:
    found = measure.resident(os.getpid())
    if not os.path.exists("/proc/self/status"):
        assert found == {}
        return
    assert set(found) == {"peak", "now", "pss", "private", "files"}
    assert 5 < found["now"] <= found["peak"]
    block = bytearray(30 << 20)
    block[::4096] = b"x" * len(block[::4096])
    assert measure.resident()["now"] > found["now"] + 25
    assert measure.resident(2**31 - 1) == {}
