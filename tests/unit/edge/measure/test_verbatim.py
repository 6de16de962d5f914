"""Words that leave as typed are counted over all words, in agreement with releases."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import ClassLevel, Level
from sottovoce.core.privacy.policies import POLICIES, Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text.word_classes import READINGS
from sottovoce.edge.measure import drawn, verbatim

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
