"""What `sotto bench` and `calibrate` measure: latency, and words left as typed."""

from __future__ import annotations

import os

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import ClassLevel, Level
from sottovoce.core.privacy.policies import POLICIES, Setting
from sottovoce.core.privacy.privatizer import STAGES, Privatizer
from sottovoce.core.text.word_classes import READINGS
from sottovoce.edge import measure
from sottovoce.edge.measure import drawn, verbatim


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


SHARES = {"NOUN": 0.4, "GRAMMAR": 0.3, "CLITIC": 0.1, "NAME": 0.15, "UNLISTED": 0.05}
LEVEL = Level(
    20.0,
    replaced=0.9,
    classes={"=NOUN": ClassLevel(20.0, 0.75, 0.3, 0.1), "*+clitic": ClassLevel(5.0, 0.5, 0.6, 0.6)},
)


def test_words_that_pass_and_words_that_come_back_both_count() -> None:
    def share(policy: str) -> float:
        return verbatim(SHARES, LEVEL, "pct2t.v2", POLICIES[policy])

    assert share("names") == pytest.approx(0.8)
    assert share("content") == pytest.approx(0.4 * 0.25 + 0.4)
    # Function words have no figure of their own here: that of all words stands in.
    assert share("all") == pytest.approx(0.4 * 0.25 + 0.3 * 0.1 + 0.1 * 0.5)
    assert drawn(SHARES, POLICIES["names"]) == pytest.approx(0.2)


def test_it_is_what_releases_show(bundle: Bundle, privatizer: Privatizer) -> None:
    random = np.random.default_rng(0)
    manifest = bundle.manifest
    readings = [name for name in READINGS if name not in ("CLITIC", "NAME")]
    drawn_words: list[str] = []
    shares: dict[str, float] = {}
    counts = np.load(bundle.folder / "class_counts.npy")[: manifest.words]
    for name in readings:
        ids = np.flatnonzero(np.array(bundle.readings) == READINGS.index(name))
        met = counts[ids] / counts[ids].sum()
        drawn_words += [bundle.words[i] for i in random.choice(ids, 300, p=met)]
        shares[name] = 1 / len(readings)
    random.shuffle(drawn_words)
    for level in ("strong", "light"):
        setting = Setting(level, "pct2t.v2", "content")
        release = privatizer.release(" ".join(drawn_words), setting, np.random.default_rng(1))
        same = np.array([not word.replaced for word in release.words])
        stated = verbatim(
            shares, manifest.level("pct2t.v2", level), "pct2t.v2", POLICIES["content"]
        )
        # Words for which the finder sees a name, and draws that hit: two points; and 3,000 words,
        # four standard errors: alpha < 1e-4.
        assert same.mean() == pytest.approx(stated, abs=0.02 + 4 * 0.5 / len(same) ** 0.5)
