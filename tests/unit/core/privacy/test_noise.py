"""The noise has the density it must have. Each statistical test fails by chance once in 1,000."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sottovoce.core.privacy import noise

ALPHA = 1e-3
DRAWS = 40_000


def drawn(r: int, eta: float) -> np.ndarray:
    """DRAWS vectors (DRAWS, r), in the pieces a long document would take."""
    random = np.random.default_rng(2024)
    return np.concatenate([noise.draw(random, DRAWS // 8, r, eta) for _ in range(8)])


def in_a_ball(r: int, eta: float) -> np.ndarray:
    """The papers' wording: the direction uniform in the unit ball."""
    random = np.random.default_rng(2024)
    pieces = []
    for _ in range(8):
        shorter = random.random((DRAWS // 8, 1)) ** (1 / r)
        pieces.append((noise.draw(random, DRAWS // 8, r, eta) * shorter).astype(np.float32))
    return np.concatenate(pieces)


def radius_p_value(vectors: np.ndarray, eta: float) -> float:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return float(stats.kstest(lengths, stats.gamma(vectors.shape[1], scale=1 / eta).cdf).pvalue)


@pytest.mark.parametrize("r", [2, 32, 384])
@pytest.mark.parametrize("eta", [0.5, 25.0])
def test_the_length_is_gamma_distributed(r: int, eta: float) -> None:
    assert radius_p_value(drawn(r, eta), eta) > ALPHA


def direction_p_value(vectors: np.ndarray) -> float:
    """The least over five axes, two of the coordinates' and three at random, times five.

    Along any axis the coordinate u of a uniform direction has (1 + u) / 2 ~ Beta of (r - 1) / 2
    twice.
    """
    r = vectors.shape[1]
    axes = np.vstack([np.eye(r)[[0, r - 1]], np.random.default_rng(7).standard_normal((3, r))])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    unit = vectors / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    of_sphere = stats.beta((r - 1) / 2, (r - 1) / 2).cdf
    p_values = [stats.kstest((1 + unit @ axis) / 2, of_sphere).pvalue for axis in axes]
    return float(min(p_values) * len(axes))


@pytest.mark.parametrize("r", [2, 32, 384])
def test_the_direction_is_uniform_on_the_sphere(r: int) -> None:
    assert direction_p_value(drawn(r, 10.0)) > ALPHA


@pytest.mark.parametrize("r", [2, 32, 384])
def test_a_direction_from_the_cube_would_be_caught(r: int) -> None:
    assert direction_p_value(np.random.default_rng(2024).random((DRAWS, r)) - 0.5) < ALPHA


def test_in_one_dimension_it_is_laplace() -> None:
    assert stats.kstest(drawn(1, 3.0)[:, 0], stats.laplace(scale=1 / 3).cdf).pvalue > ALPHA


@pytest.mark.parametrize("r", [2, 32, 384])
def test_a_direction_from_the_ball_would_be_caught(r: int) -> None:
    assert radius_p_value(in_a_ball(r, 25.0), 25.0) < ALPHA


def test_coordinates_drawn_apart_would_be_caught() -> None:
    random = np.random.default_rng(2024)
    apart = random.gamma(32, 1 / 25.0, (DRAWS, 32)) * random.choice([-1, 1], (DRAWS, 32))
    assert radius_p_value(apart, 25.0) < ALPHA


def test_length_and_direction_are_independent() -> None:
    vectors = drawn(2, 5.0).astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    assert stats.spearmanr(lengths, vectors[:, 0] / lengths).pvalue > ALPHA


def test_every_row_has_the_length_of_its_own_eta() -> None:
    etas = np.tile([0.5, 4.0, 25.0], DRAWS // 4)
    vectors = noise.draw(np.random.default_rng(2024), len(etas), 16, etas)
    for place, eta in enumerate((0.5, 4.0, 25.0)):
        assert radius_p_value(vectors[place::3], eta) > ALPHA
        assert radius_p_value(vectors[(place + 1) % 3 :: 3], eta) < ALPHA
    assert direction_p_value(vectors) > ALPHA


def test_one_eta_for_all_is_that_eta_for_each() -> None:
    one, each = (noise.draw(np.random.default_rng(0), 3, 5, eta) for eta in (7.0, np.full(3, 7.0)))
    assert np.array_equal(one, each)


def test_shape_and_type() -> None:
    vectors = noise.draw(np.random.default_rng(0), 3, 5, 1.0)
    assert vectors.shape == (3, 5)
    assert vectors.dtype == np.float32
    assert noise.draw(np.random.default_rng(0), 0, 5, 1.0).shape == (0, 5)


def test_the_stream_is_the_operating_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(noise.os, "urandom", lambda n: asked.append(n) or b"\xff" * n)
    largest = noise.SecureRandom().random((3, 2))
    assert asked == [8 * 6]  # all 53 bits of every number come from there
    assert largest.shape == (3, 2)
    assert (largest == 1 - 2.0**-53).all()


def test_two_streams_differ() -> None:
    assert not np.array_equal(*(noise.SecureRandom().random((4,)) for _ in range(2)))


def test_the_largest_number_of_the_stream_gives_finite_noise() -> None:
    class Largest:
        def random(self, size: tuple[int, ...]) -> np.ndarray:
            return np.full(size, 1 - 2.0**-53)

    assert np.isfinite(noise.draw(Largest(), 2, 32, 1.0)).all()


def test_the_secure_stream_gives_the_same_distribution() -> None:
    lengths = np.linalg.norm(noise.draw(noise.SecureRandom(), 5_000, 32, 25.0), axis=1)
    # Not seeded, hence the smaller level: this one must not fail on a good day.
    assert stats.kstest(lengths, stats.gamma(32, scale=1 / 25.0).cdf).pvalue > 1e-6
