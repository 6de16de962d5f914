"""Measures this device: how long a text takes, stage by stage, and what the process holds.

Why it is here: nobody should have to believe figures from another board. `sotto bench` runs this on
the owner's, with nothing installed beside the agent; the fuller benches of the repository use the
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
from sottovoce.core.privacy.keyed import Key
from sottovoce.core.privacy.privatizer import STAGES, Privatizer
from sottovoce.core.privacy.setting import Setting

__all__ = ["Stopwatch", "document", "latency", "resident", "wait_until_settled"]

_SENTENCE = 12


class Stopwatch:
    """Adds up seconds by name; `Privatizer` takes `stage`.

    Args:
        clock: in seconds: `time.perf_counter`, or `time.thread_time`, which a busy machine that
            takes the processor away does not lengthen.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts the time within as that of ``name``."""
        begin = self.clock()
        try:
            yield
        finally:
            self.seconds[name] += self.clock() - begin


def document(bundle: Bundle, words: int, seed: int = 0) -> str:
    """A text of ``words`` words of the bundle's own list, with full stops and capitals.

    Where to find real text no owner should have to say; and rare words, of which this has more than
    real text, cost no less.
    """
    places = np.random.default_rng(seed).integers(len(bundle.words), size=words)
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
    """Medians over ``repeats`` releases of ``text`` under a key, after one that is not counted.

    Args:
        privatizer: made with ``watch.stage``.
        watch: is reset.
        text: to privatise.
        setting: how.
        repeats: how often.
        between: called before each, to interleave something else.

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
    """Return what a process holds in memory, in MB; empty without ``/proc``.

    Args:
        process: its number, or "self".

    Returns:
        "peak" and "now" (RSS), of that "private" and "files"; and "pss", which counts each page
        that several processes map by its share.
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


def wait_until_settled(process: int, seconds: float = 60.0) -> None:
    """Returns when a process's private memory has been the same for a second, or after a while."""
    since = time.monotonic()
    deadline = since + seconds
    before = -1.0
    while time.monotonic() < min(since + 1, deadline):
        now = resident(process).get("private", 0.0)
        if abs(now - before) > 0.1:
            before, since = now, time.monotonic()
        time.sleep(0.05)
