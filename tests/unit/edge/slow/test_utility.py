"""The stand-in classifier learns the signal alone, and never more from more noise."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import Level, name_of
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.policies import PrivacyLimits
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.edge import measure
from sottovoce.edge.measure import Point, Utility

CURVE = (
    Level(0.5, 0.97, 0.97, 0.1, 0.1, 0.1),
    Level(8.0, 0.6, 0.6, 0.5, 0.5, 0.5),
    Level(2_000.0, 0.01, 0.01, 0.99, 0.99, 0.99),
)
FILLERS = ["river", "garden", "pond", "house", "lamp", "window", "carpet", "tree", "song", "bread"]


@pytest.fixture(scope="module")
def curved(small_bundle_folder: Path) -> Bundle:
    bundle = Bundle.open(small_bundle_folder)
    curve = dict.fromkeys(("pct2t.v2", "pct2t.v1", "t2t.v1"), CURVE)
    bundle.manifest = dataclasses.replace(bundle.manifest, curve=curve)
    return bundle


@pytest.fixture(scope="module")
def examples() -> tuple[list[str], list[str]]:
    random = np.random.default_rng(5)
    labels = ["ill" if ill else "well" for ill in random.random(160) < 0.4]
    texts = []
    for label in labels:
        words = random.choice(FILLERS, 4).tolist()
        words.insert(2, str(random.choice(["fever", "cough"] if label == "ill" else FILLERS)))
        texts.append(" ".join(words))
    return texts, labels


def test_more_noise_teaches_less(curved: Bundle, examples: tuple[list[str], list[str]]) -> None:
    steps: list[None] = []
    found = measure.estimate(
        curved,
        Privatizer(curved),
        *examples,
        "t2t.v1",
        "content",
        step=lambda: steps.append(None),
    )
    assert found.texts == 160
    assert len(steps) == 160 * measure.LEVELS == 160 * len(found.points)
    assert found.guess == pytest.approx(examples[1].count("well") / 160)
    assert found.clear > 0.95
    shares = [point.attack for point in found.points]
    assert shares == sorted(shares)
    assert all(a.eta < b.eta for a, b in zip(found.points, found.points[1:], strict=False))
    # At eta 0.6 and 8 dimensions nothing is left: 4 standard errors of 160 texts, alpha < 1e-4.
    assert found.points[0].accuracy < found.guess + 4 * found.error
    assert found.points[-1].accuracy > 0.9
    name = found.reaching(0.9)
    assert name.startswith("attack:0.")
    assert curved.manifest.level("t2t.v1", name).eta > found.points[0].eta


def test_no_level_is_tried_that_the_owner_does_not_allow(
    curved: Bundle, examples: tuple[list[str], list[str]]
) -> None:
    floors = PrivacyLimits(largest_eta=100.0)
    found = measure.estimate(
        curved, Privatizer(curved, floors=floors), *examples, "t2t.v1", "content"
    )
    assert max(point.eta for point in found.points) <= 100
    assert len(found.points) == measure.LEVELS
    assert (
        curved.manifest.level("t2t.v1", name_of("attack", found.points[-1].attack + 0.01)).eta > 100
    )


def test_a_level_reaches_what_every_lighter_one_reaches() -> None:
    shares, accuracies = (0.1, 0.3, 0.5, 0.7), (0.5, 0.75, 0.7, 0.9)
    points = tuple(Point(s, 100 * s, a) for s, a in zip(shares, accuracies, strict=True))
    found = Utility(1_000, 0.5, 0.92, points)
    assert found.reaching(0.4) == found.reaching(0.5) == "attack:0.1"
    assert found.reaching(0.6) == "attack:0.2"  # the 0.75 is believed as far as 0.7
    assert found.reaching(0.7) == "attack:0.3"
    assert found.reaching(0.8) == "attack:0.6"
    assert found.reaching(0.801) == "attack:0.61"
    with pytest.raises(InvalidInput, match="lightest level tried"):
        found.reaching(0.91)
    with pytest.raises(InvalidInput, match="even unprotected"):
        found.reaching(0.93)


def test_too_little_to_learn_from_is_refused(curved: Bundle) -> None:
    privatizer = Privatizer(curved)
    for labels in (["a"] * 12, ["a"] * 8 + ["b"] * 4):
        with pytest.raises(InvalidInput, match="at least 5 texts of each"):
            measure.estimate(curved, privatizer, ["fever"] * 12, labels, "t2t.v1", "content")
    texts = ["fever"] * 11 + [" "]
    with pytest.raises(InvalidInput, match="text 12: the text is empty"):
        measure.estimate(curved, privatizer, texts, ["a", "b"] * 6, "t2t.v1", "content")


def test_accuracy_is_that_of_texts_not_learnt_from() -> None:
    random = np.random.default_rng(0)
    labels = random.choice(["a", "b"], 400).tolist()
    own = np.eye(400)  # every text like itself alone: what is learnt says nothing of others
    commonest = max(labels.count("a"), labels.count("b")) / 400
    assert measure.accuracy(own, labels) == pytest.approx(commonest, abs=0.01)
    noise = random.standard_normal((400, 40))
    # 400 fair coins: 4 standard errors, alpha < 1e-4.
    assert measure.accuracy(noise @ noise.T, labels) == pytest.approx(0.5, abs=0.1)
    alike = np.equal.outer(labels, labels).astype(float)
    assert measure.accuracy(alike, labels) == 1.0


def test_the_kernel_is_centred_and_scaled(small_bundle: Bundle) -> None:
    texts = ["the doctor", "a cold river", "...", "The DOCTOR!", "an unlisted qwertz"]
    alike = measure.kernel(texts, Vectors(small_bundle), small_bundle.manifest.clitics)
    assert alike == pytest.approx(alike.T)
    assert alike.sum(axis=0) == pytest.approx(0, abs=1e-5)
    assert np.trace(alike) == pytest.approx(2 * len(texts))
    assert alike[0] == pytest.approx(alike[3])
