"""Measure the device's time for a text, by stage, and the process's memory.

Owners can measure their own device instead of trusting figures from another board. `sotto bench`
runs this and needs nothing installed beside the agent. The repository's fuller benchmarks use the
same parts.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.privatizer import STAGES, Privatizer
from sottovoce.core.privacy.setting import Setting

__all__ = ["Stopwatch", "document", "latency", "resident", "wait_until_settled"]

_SENTENCE = 12


class Stopwatch:
    """Adds up seconds by name; `Privatizer` takes `stage`.

    Args:
        clock: in seconds: `time.perf_counter`, or `time.thread_time`, which does not count the time
            that other processes take on a busy machine.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time within the block to ``name``."""
        begin = self.clock()
        try:
            yield
        finally:
            self.seconds[name] += self.clock() - begin


def document(bundle: Bundle, words: int) -> str:
    """Return a text of ``words`` words from the bundle's own list.

    It has full stops and capitals. The owner need not supply real text. Rare words are more
    frequent here than in real text, and they cost no less.
    """
    places = np.random.default_rng(0).integers(len(bundle.words), size=words)
    listed = [bundle.words[place] for place in places.tolist()]
    sentences = (listed[start : start + _SENTENCE] for start in range(0, words, _SENTENCE))
    return " ".join(" ".join(sentence).capitalize() + "." for sentence in sentences)


def latency(
    privatizer: Privatizer,
    watch: Stopwatch,
    text: str,
    setting: Setting,
    repeats: int,
    between: Callable[[], object] = lambda: None,
) -> tuple[float, dict[str, float]]:
    """Measure median times over ``repeats`` releases of ``text`` under a key.

    One release before them is not counted.

    Args:
        privatizer: made with ``watch.stage``.
        watch: is reset.
        text: to privatise.
        setting: how to privatise it.
        repeats: number of releases.
        between: called before each release, to interleave something else.

    Returns:
        Milliseconds from text to text, and those of each stage.
    """
    key = Key(os.urandom(32))
    totals: list[float] = []
    stages: dict[str, list[float]] = {name: [] for name in STAGES}
    for repeat in range(repeats + 1):
        between()
        watch.seconds = dict.fromkeys(STAGES, 0.0)
        begin = watch.clock()
        privatizer.release(text, setting, key=key)
        total = watch.clock() - begin
        if repeat:
            totals.append(total * 1e3)
            for name, seconds in watch.seconds.items():
                stages[name].append(seconds * 1e3)
    return statistics.median(totals), {n: statistics.median(each) for n, each in stages.items()}


def resident(process: int | str = "self") -> dict[str, float]:
    """Return a process's memory in MB; empty without ``/proc``.

    Args:
        process: its number, or "self".

    Returns:
        "peak" and "now" (RSS); the parts "private" and "files" of "now"; and "pss", which counts
            each shared page by the process's share.
    """
    kinds = {"VmHWM": "peak", "VmRSS": "now", "RssAnon": "private", "RssFile": "files"}
    kinds |= {"Pss": "pss"}
    found: dict[str, float] = {}
    for file in ("status", "smaps_rollup"):
        with suppress(OSError), open(f"/proc/{process}/{file}", encoding="ascii") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name in kinds:
                    found[kinds[name]] = round(int(value.split()[0]) * 1024 / 1e6, 1)
    return found


def wait_until_settled(process: int) -> None:
    """Wait until a process's private memory is constant for a second, a minute at most."""
    since = time.monotonic()
    deadline = since + 60
    before = -1.0
    while time.monotonic() < min(since + 1, deadline):
        now = resident(process).get("private", 0.0)
        if abs(now - before) > 0.1:
            before, since = now, time.monotonic()
        time.sleep(0.05)
