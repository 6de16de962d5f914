"""Without noise an attacker reads every class; under full noise the attacker guesses blindly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.space.classes import by_class
from sottovoce.core.bundle.levels import ClassLevel, Level
from sottovoce.core.privacy.mechanisms.spherical import PCT2T, PCT2T2
from sottovoce.core.text.tagger import UPOS

WORDS = 120
DRAWS = 2_000
NOUN = UPOS.index("NOUN")
MEMBERS = np.arange(0, WORDS, 2, dtype=np.int32)


@pytest.fixture
def public() -> Any:
    """Return a language in which every second word is a noun."""
    random = np.random.default_rng(0)
    space = random.standard_normal((WORDS, 8)).astype(np.float32)
    space /= np.linalg.norm(space, axis=1, keepdims=True)
    counts = np.zeros((WORDS, len(UPOS)))
    counts[MEMBERS, NOUN] = 100 / np.arange(1, len(MEMBERS) + 1)
    counts[1::2, UPOS.index("VERB")] = 1_000.0
    loud = {"=NOUN": ClassLevel(0.01, 0.0, 1.0, 0.0), "=VERB": ClassLevel(900.0, 0.0, 1.0, 0.0)}
    v2 = {"mixed": Level(eta=900.0, classes=loud)}
    v1 = {"loud": Level(eta=0.01), "still": Level(eta=900.0)}
    manifest = SimpleNamespace(calibration={PCT2T2.name: v2, PCT2T.name: v1})
    own = {"=NOUN": MEMBERS, "=VERB": MEMBERS + 1, "=NUMBER": MEMBERS, "NOUN": MEMBERS}
    bundle = SimpleNamespace(space=space, manifest=manifest)
    return SimpleNamespace(bundle=bundle, counts=counts, classes=own)


def test_each_class_is_judged_at_its_own_eta(public: Any) -> None:
    rows = {row["class"]: row for row in by_class(public, public.counts, PCT2T2.name, DRAWS)}
    assert rows.keys() == {"=NOUN", "=VERB"}  # the third has no level of its own
    assert rows["=VERB"]["success"] == 1.0
    noun = rows["=NOUN"]
    truth = public.counts[MEMBERS, NOUN]
    assert noun["blind"] == pytest.approx(truth[0] / truth.sum())
    # Binomial: standard error .01 at most over 2,000; five of them.
    assert noun["success"] == pytest.approx(noun["blind"], abs=0.055)
    assert noun["ci"][0] < noun["success"] < noun["ci"][1]


def test_parts_of_speech_share_an_eta(public: Any) -> None:
    found = [(row["level"], row["class"]) for row in by_class(public, public.counts, PCT2T.name)]
    assert found == [("loud", "NOUN"), ("still", "NOUN")]


def test_a_class_that_is_hardly_met_is_not_judged(public: Any) -> None:
    met = public.counts.copy()
    met[MEMBERS] = 0
    met[MEMBERS[0], NOUN] = 29
    assert not [*by_class(public, met, PCT2T.name)]
