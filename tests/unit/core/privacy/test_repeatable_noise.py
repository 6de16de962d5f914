"""Keyed chance: uniform, independent, the same for ever. Levels of tests are stated with them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sottovoce.core.privacy import noise
from sottovoce.core.privacy.noise import Fresh, Key, KeyedRows

ALPHA = 1e-3
"""The key is fixed, so a test that passes once passes for good."""
SECRET = bytes(range(32))
ROWS = [
    [0.6541205553485264, 0.009587579020555292, 0.662830915325872, 0.5251149782277195],
    [0.7663428818765008, 0.8244298387651487, 0.03707331723971019, 0.2519132995172356],
]
STREAM = [0.6347175037425735, 0.7008708583680507, 0.4637344445068188]
TOKENS = [[0.23463767011122638, 0.4953442988862027], [0.13733630301371436, 0.5912728476513088]]
NAME = "0b107c71c379566d7d9c514464ba5ff9"
NOISE = [0.9027106761932373, 0.0728638544678688]
LENGTH = 3.910994529724121


def _messages(n: int) -> list[bytes]:
    return [b"%d" % number for number in range(n)]


def _rows(n: int, k: int, secret: bytes = SECRET) -> np.ndarray:
    return KeyedRows(secret, _messages(n)).random((n, k))


def test_what_was_drawn_once_is_drawn_for_ever() -> None:
    """Releases must not change unnoticed: another stream needs another version in its purpose."""
    draws = Key(SECRET).draws("space", "document", "text")
    rows = draws.noise([4.0, 29.5], ["lake", "näive"], ["", "the"]).random((2, 40))
    assert rows[:, [0, 31, 32, 39]].tolist() == ROWS
    stream = draws.surrogate("IDENTIFIER", "ax-1").random((3,))
    assert stream.tolist() == STREAM
    tokens = Key(SECRET).token_noise("space", 15.0, [101, 7]).random((2, 2))
    assert tokens.tolist() == TOKENS
    assert Key(SECRET).name("release", "text").hex() == NAME


def test_a_stream_is_the_row_of_no_message_however_it_is_asked() -> None:
    row = KeyedRows(SECRET, [b""]).random((1, 100))[0]
    stream = Key(SECRET).stream()
    drawn = [stream.random(size).ravel() for size in ((1,), (0,), (2, 3), (30,), (63,))]
    assert np.concatenate(drawn).tolist() == row.tolist()
    assert stream.random((2, 3)).shape == (2, 3)


def test_noise_from_a_frozen_row_is_frozen() -> None:
    random = Key(SECRET).draws("space").noise([4.0], ["lake"], [""])
    drawn = noise.draw(random, 1, 16, 4.0)
    assert drawn[0, [0, 15]] == pytest.approx(NOISE, rel=1e-5)
    assert np.linalg.norm(drawn) == pytest.approx(LENGTH, rel=1e-5)


def test_numbers_are_uniform_by_row_and_by_column() -> None:
    """Kolmogorov-Smirnov, over all at `ALPHA`, and the least of 64 each by Bonferroni."""
    drawn = _rows(4_000, 64)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > ALPHA
    assert min(stats.kstest(column, "uniform").pvalue for column in drawn.T) > ALPHA / 64
    long = _rows(64, 4_000)
    assert min(stats.kstest(row, "uniform").pvalue for row in long) > ALPHA / 64


def test_all_53_bits_are_fair() -> None:
    """Each within 4.9 standard deviations of half: alpha = 1e-6 a bit."""
    bits = (_rows(1_000, 32).ravel() * 2.0**53).astype(np.uint64)
    ones = [int(((bits >> np.uint64(place)) & np.uint64(1)).sum()) for place in range(53)]
    assert np.abs(np.array(ones) - 16_000).max() < 4.9 * np.sqrt(32_000) / 2


def test_rows_and_columns_are_independent() -> None:
    """Correlations of neighbours, and of rows for similar messages, stay within 4.9 standard
    deviations (alpha = 1e-6)."""
    drawn = _rows(4_000, 32) - 0.5
    pairs = [
        (drawn[:-1], drawn[1:]),
        (drawn[:, :-1], drawn[:, 1:]),
        (drawn, _rows(4_000, 32, bytes(32)) - 0.5),
        (drawn[:2_000], drawn[2_000:]),
    ]
    for one, other in pairs:
        correlation = 12 * (one * other).mean()
        assert abs(correlation) < 4.9 / np.sqrt(one.size)


def test_keyed_noise_has_the_law_of_fresh_noise() -> None:
    """Lengths Gamma(r, 1 / eta), directions uniform on the sphere: both at `ALPHA`, over the words
    of a document."""
    words = [f"word{number}" for number in range(20_000)]
    keyed = Key(SECRET).draws("space").noise([25.0] * len(words), words, ["the"] * len(words))
    drawn = noise.draw(keyed, len(words), 16, 25.0).astype(np.float64)
    lengths = np.linalg.norm(drawn, axis=1)
    assert stats.kstest(lengths, stats.gamma(16, scale=1 / 25.0).cdf).pvalue > ALPHA
    unit = drawn[:, 3] / lengths
    assert stats.kstest((1 + unit) / 2, stats.beta(7.5, 7.5).cdf).pvalue > ALPHA
    assert stats.spearmanr(lengths, unit).pvalue > ALPHA


def test_the_noise_of_one_word_under_many_keys_has_the_same_law() -> None:
    """The other way to see it: one word, 4,000 devices. At `ALPHA`."""
    lengths = [
        np.linalg.norm(
            noise.draw(
                Key(number.to_bytes(32, "big")).draws("space").noise([25.0], ["lake"], [""]),
                1,
                16,
                25.0,
            )
        )
        for number in range(4_000)
    ]
    assert stats.kstest(lengths, stats.gamma(16, scale=1 / 25.0).cdf).pvalue > ALPHA


@pytest.mark.parametrize("cuts", [(64,), (1, 63), (32, 32), (31, 2, 31), (5, 0, 59)])
def test_a_row_is_one_stream_however_it_is_asked_for(cuts: tuple[int, ...]) -> None:
    whole = _rows(3, 64)
    rows = KeyedRows(SECRET, _messages(3))
    assert np.array_equal(np.hstack([rows.random((3, k)) for k in cuts]), whole)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    assert np.array_equal(KeyedRows(SECRET, [b"1"]).random((1, 40))[0], _rows(3, 40)[1])
    assert KeyedRows(SECRET, []).random((0, 40)).shape == (0, 40)
    assert KeyedRows(SECRET, _messages(2)).random((2,)).shape == (2,)
    assert KeyedRows(SECRET, _messages(2)).random((2, 3, 4)).shape == (2, 3, 4)


def test_another_number_of_rows_is_refused() -> None:
    """Broadcasting would give two words the same noise."""
    with pytest.raises(ValueError, match="1 rows"):
        KeyedRows(SECRET, _messages(2)).random((1, 8))


def test_whatever_noise_depends_on_changes_all_of_it() -> None:
    key = Key(SECRET)

    def row(
        space: str = "s", eta: float = 4.0, word: str = "ab", before: str = "c", own: Key = key
    ) -> bytes:
        return own.draws(space).noise([eta], [word], [before]).random((1, 4)).tobytes()

    rows = {
        row(),
        row(space="t"),
        row(eta=4.5),
        row(eta=np.nextafter(4.0, 5.0)),
        row(word="abc", before=""),
        row(word="a", before="bc"),
        row(before=""),
        row(before="2 ab"),
        row(own=Key(bytes(32))),
        row(own=key.derived("")),
    }
    assert len(rows) == 10
    assert row() == row(eta=np.float64(4.0))
    # What is not the noise's business does not change it.
    for scope in (("document", "x"), ("session", "x")):
        assert key.draws("s", *scope).noise([4.0], ["ab"], ["c"]).random((1, 4)).tobytes() == row()


def test_surrogates_belong_to_a_scope() -> None:
    key = Key(SECRET)

    def stream(*scope: str, what: tuple[str, ...] = ("PERSON", "anna")) -> bytes:
        return key.draws("space", *scope).surrogate(*what).random((4,)).tobytes()

    assert stream("document", "a") == stream("document", "a")
    others = {
        stream("document", "a"),
        stream("document", "b"),
        stream("session", "a"),
        stream("documenta"),
        stream("document", "a", what=("PLACE", "anna")),
        stream("document", "a", what=("PERSON", "ann")),
        stream("document", "a", what=("PERSONanna",)),
    }
    assert len(others) == 7
    long = key.draws("space").surrogate("x")
    assert np.array_equal(
        long.random((100,)), key.draws("space").surrogate("x").random((10, 10)).ravel()
    )


def test_tokens_are_drawn_by_themselves_and_the_one_before() -> None:
    def rows(*ids: int, eta: float = 15.0, space: str = "s") -> list[bytes]:
        drawn = Key(SECRET).token_noise(space, eta, ids).random((len(ids), 4))
        return [row.tobytes() for row in drawn]

    first = rows(5, 7, 9)
    assert rows(5, 7, 11)[:2] == first[:2]
    assert rows(7, 9)[1] == first[2]
    assert rows(7)[0] != first[1]
    assert len({*first, *rows(5, eta=16.0), *rows(5, space="t"), *rows(1, 57), *rows(15, 7)}) == 9


def test_every_word_has_its_eta_and_the_word_before_it() -> None:
    for before in ([""], ["", "the", "cold"]):
        with pytest.raises(ValueError, match="zip"):
            Key(SECRET).draws("space").noise([4.0, 4.0], ["lake", "pond"], before)


def test_half_a_character_is_told_apart_from_another_half() -> None:
    """A text may hold lone surrogates, which UTF-8 has no bytes for."""
    assert Key(SECRET).name("\ud83d") != Key(SECRET).name("\ud83c")


def test_a_key_keeps_itself_to_itself() -> None:
    key = Key(SECRET)
    assert SECRET.hex() not in repr(key)
    assert repr(SECRET) not in repr(key)
    assert key.name("a", "bc") != key.name("ab", "c")
    assert len(key.name("a")) == 16
    with pytest.raises(ValueError, match="32 bytes"):
        Key(b"short")


def test_fresh_draws_are_the_streams_own() -> None:
    seeded = Fresh(np.random.default_rng(3))
    same = np.random.default_rng(3)
    assert np.array_equal(seeded.noise([1.0], ["a"], [""]).random((1, 4)), same.random((1, 4)))
    assert np.array_equal(seeded.surrogate("x").random((4,)), same.random((4,)))
