"""DPNR and CAPE do what their papers say: scale, add noise, drop words, forget authors."""

from __future__ import annotations

import numpy as np
import pytest

from bench.attacks.interface import Floats
from bench.baselines.cape import Cape
from bench.baselines.dpnr import noised, shortened
from bench.classifier import Classifier
from sottovoce.models.denoiser_data import Passages

N, WIDTH = 4_000, 12


def test_the_noise_is_laplaces_on_entries_between_0_and_1() -> None:
    rows = np.random.default_rng(0).standard_normal((400, 50)).astype(np.float32)
    quiet = noised(rows, 1e9, np.random.default_rng(1))
    assert quiet.min(axis=1) == pytest.approx(0, abs=1e-6)
    assert quiet.max(axis=1) == pytest.approx(1, abs=1e-6)
    assert (quiet.argsort(axis=1) == rows.argsort(axis=1)).all()
    noise = noised(rows, 4.0, np.random.default_rng(2)) - quiet
    # 20,000 draws: mean |x| = 1/4, standard error 1/4/141; five of them. Kurtosis tells Laplace (6)
    # from Gauss (3), its standard error here below .3.
    assert np.abs(noise).mean() == pytest.approx(0.25, abs=0.009)
    assert (noise**4).mean() / (noise**2).mean() ** 2 > 4.5


def test_words_are_dropped_and_no_text_is_lost() -> None:
    lengths = np.array([1, 400, 1, 600])
    given = Passages(np.arange(lengths.sum(), dtype=np.int32), np.cumsum(lengths))
    found = shortened(given, 0.3, np.random.default_rng(0))
    assert len(found) == len(given)
    assert (found.lengths >= 1).all()
    assert (found.lengths[[0, 2]] == 1).all()
    # Binomial: standard error .014 of a share of .7, five of them.
    assert found.lengths.sum() / lengths.sum() == pytest.approx(0.7, abs=0.07)
    for place in range(len(given)):
        assert set(found[place].tolist()) <= set(given[place].tolist())
        assert (np.diff(found[place]) > 0).all()
    assert (shortened(given, 0.0, np.random.default_rng(0)).flat == given.flat).all()


@pytest.fixture(scope="module")
def rows() -> tuple[Floats, np.ndarray, np.ndarray]:
    """Return vectors with the task in one half of the entries and the author in the other."""
    random = np.random.default_rng(5)
    task, author = (random.integers(0, 2, N) for _ in range(2))
    made = random.standard_normal((N, WIDTH)) * 0.2
    made[:, : WIDTH // 2 : 2] += task[:, None]
    made[:, 1 : WIDTH // 2 : 2] -= task[:, None]
    made[:, WIDTH // 2 :: 2] += author[:, None]
    made[:, WIDTH // 2 + 1 :: 2] -= author[:, None]
    return made.astype(np.float32), task, author


def accuracy(seen: Floats, labels: np.ndarray) -> float:
    half = N // 2
    centred = seen - seen[:half].mean(axis=0)
    centred /= np.linalg.norm(centred[:half], axis=1).mean()
    fitted = Classifier.fit(centred[:half], [str(each) for each in labels[:half].tolist()])
    guessed = np.array([int(each) for each in fitted.predict(centred[half:])])
    return float((guessed == labels[half:]).mean())


def test_cape_keeps_the_task_and_forgets_the_author(
    rows: tuple[Floats, np.ndarray, np.ndarray],
) -> None:
    made, task, author = rows
    epsilon = 8.0
    plain = noised(made, epsilon, np.random.default_rng(1))
    cape = Cape.fit((made, task), made, {"author": author}, epsilon)
    mapped = noised(cape.mapped(made), epsilon, np.random.default_rng(1))
    assert accuracy(plain, author) > 0.9
    # A share of 2,000 has a standard error of .011 at most.
    assert accuracy(mapped, author) < accuracy(plain, author) - 0.15
    assert accuracy(mapped, task) > 0.9
