"""Bytes on the wire are bounded, exact up to float16, and never believed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.token_embedding import LONGEST, TokenEmbedding, pack, unpack


def test_the_noise_is_of_the_right_length() -> None:
    """Lengths against Gamma(r, 1 / eta): Kolmogorov-Smirnov at alpha = 0.001, seeded."""
    zeros = np.zeros((4_000, 8), np.float32)
    noisy = TokenEmbedding(12.0).perturb(zeros, np.random.default_rng(5))
    lengths = np.linalg.norm(noisy, axis=1)
    assert stats.kstest(lengths, stats.gamma(8, scale=1 / 12.0).cdf).pvalue > 0.001


def test_the_price_is_eta_for_each_token() -> None:
    mechanism = TokenEmbedding(12.0)
    assert mechanism.charge(7) == 84.0


@pytest.mark.parametrize("eta", [0.0, -1.0, float("nan"), float("inf"), 1e300, 1e-9])
def test_an_eta_out_of_range_is_refused(eta: float) -> None:
    with pytest.raises(InvalidInput) as caught:
        TokenEmbedding(eta)
    assert caught.value.subject == "eta"


@given(
    st.integers(1, 40), st.integers(2, 64), st.sampled_from([0.1, 3.0, 30.0, 10_000.0]), st.data()
)
def test_what_is_packed_arrives_to_float16(n: int, r: int, eta: float, data: st.DataObject) -> None:
    mechanism = TokenEmbedding(eta)
    random = np.random.default_rng(data.draw(st.integers(0, 1_000)))
    units = random.standard_normal((n, r)).astype(np.float32)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    noisy = mechanism.perturb(units, random)
    packed = pack(noisy, mechanism)
    assert len(packed) == 2 * n * r
    lengths = np.linalg.norm(noisy, axis=1, keepdims=True)
    clipped = noisy * np.minimum(1, mechanism.radius(r) / lengths)
    arrived = unpack(packed, n, r, mechanism)
    # 11 significant bits; below 2^-14 float16 counts in steps of 2^-24.
    assert arrived == pytest.approx(clipped, rel=2.0**-11, abs=2.0**-24)


def test_the_longest_vectors_are_clipped_and_accepted() -> None:
    mechanism = TokenEmbedding(10.0)
    far = np.full((1, 8), 1e6, np.float32)
    (row,) = unpack(pack(far, mechanism), 1, 8, mechanism)
    assert np.linalg.norm(row) == pytest.approx(mechanism.radius(8), rel=1e-3)
    assert row @ far[0] == pytest.approx(np.linalg.norm(row) * np.linalg.norm(far[0]), rel=1e-5)


def test_clipping_touches_next_to_no_vector() -> None:
    """The chance that unit vector and noise together pass the radius, from the Gamma law."""
    for r in (8, 16, 24, 32, 64, 384):
        for eta in (5.0, 30.0):
            room = TokenEmbedding(eta).radius(r) - 1.0
            assert stats.gamma(r, scale=1 / eta).sf(room) < 3e-5


def _with(value: float) -> bytes:
    rows = np.full((3, 8), 0.25, "<f2")
    rows[2, 5] = value
    return rows.tobytes()


@pytest.mark.parametrize(
    ("data", "tokens", "subject"),
    [
        (_with(np.nan), 3, "vectors"),
        (_with(np.inf), 3, "vectors"),
        (_with(-np.inf), 3, "vectors"),
        (_with(60_000), 3, "vectors"),
        (_with(0)[:-2], 3, "vectors"),
        (_with(0), 2, "vectors"),
        (np.zeros((3, 8), "<f4").tobytes(), 3, "vectors"),
        (b"", 0, "tokens"),
        (bytes(2 * 8 * (LONGEST + 1)), LONGEST + 1, "tokens"),
    ],
)
def test_what_pack_would_not_write_is_refused(data: bytes, tokens: int, subject: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        unpack(data, tokens, 8, TokenEmbedding(10.0))
    assert caught.value.subject == subject
    assert caught.value.fix


@example(b"\x00\x00\x00\x00\x00\x00\x00}", 1)  # a NaN that signals
@given(st.binary(max_size=200), st.integers(-1, 20))
def test_arbitrary_bytes_are_vectors_within_the_radius_or_refused(data: bytes, tokens: int) -> None:
    mechanism = TokenEmbedding(10.0)
    try:
        rows = unpack(data, tokens, 4, mechanism)
    except InvalidInput:
        return
    assert rows.shape == (tokens, 4)
    assert np.linalg.norm(rows, axis=1).max() <= mechanism.radius(4) * 1.001
