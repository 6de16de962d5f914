"""A draw depends on the shape and the stream, never on the word."""

import string
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.privacy import noise
from sottovoce.core.privacy.surrogates import names, surrogate
from sottovoce.core.text.words import Kind, split

ANYTHING = st.text(st.characters(exclude_categories=()), min_size=1, max_size=60)
DENSE = st.text(st.sampled_from("aZ09é£٣@:/-_,.#%+(m"), min_size=1, max_size=40)
KINDS = st.sampled_from(("identifier", "number", "origin", "unlisted", *names.ROLES))


def drawn(kind: str, text: str, random: noise.Random) -> str:
    return surrogate.draw(surrogate.shape(kind, text), random)


class Counted:
    """A seeded stream that counts its draws."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.taken = 0

    def random(self, size: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        self.taken += int(np.prod(size))
        return self._random.random(size)


@given(KINDS, ANYTHING | DENSE, st.integers(0, 2**32))
def test_it_can_be_sent_is_not_empty_and_holds_no_white_space_of_its_own(
    kind: str, text: str, seed: int
) -> None:
    found = drawn(kind, text, np.random.default_rng(seed))
    assert found
    if not any(character.isspace() for character in text):
        assert not any(character.isspace() for character in found)
    assert found.encode("utf-8")


@given(KINDS, ANYTHING | DENSE, st.integers(0, 2**32))
def test_how_much_is_taken_depends_on_the_shape_alone(kind: str, text: str, seed: int) -> None:
    shape = surrogate.shape(kind, text)
    first, second = Counted(seed), Counted(seed + 1)
    surrogate.draw(shape, first)
    surrogate.draw(shape, second)
    assert first.taken == second.taken


def test_two_texts_of_one_shape_get_the_same_from_the_same_stream() -> None:
    random = np.random.default_rng(0)
    alphabets = (string.digits, string.ascii_lowercase, string.ascii_uppercase, ".@:/-+ ")
    shapes = defaultdict(set)
    for _ in range(5_000):
        letters = [alphabets[k][random.integers(len(alphabets[k]))] for k in (0, 0, 1, 2, 3, 0)]
        text = "".join(random.permutation(letters)).strip() or "x"
        shapes[surrogate.shape("identifier", text)].add(text)
    shared = [(shape, texts) for shape, texts in shapes.items() if len(texts) > 1]
    assert len(shared) > 50
    for _, texts in shared:
        kinds = [drawn("identifier", text, np.random.default_rng(1)) for text in texts]
        assert len(set(kinds)) == 1


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("given", "Anna", "Wolfgang"),
        ("family", "Lee", "Featherstonehaugh"),
        ("place", "PARIS", "УФА"),
        ("organisation tail", "bank", "incorporated"),
        ("unlisted", "blorp", "antidisestablishmentarian"),
        ("number", "one", "nine"),
        ("origin", "Danish", "Japanese"),
        ("identifier", "a@b.org", "someone.else+tag@mail.example.co.uk"),
        ("identifier", "https://a.de/x", "https://a-much-longer.example.com/with?query=1"),
        ("identifier", "12:30", "23:59"),
        ("identifier", "hunter2", "secret7"),
    ],
)
def test_these_are_of_one_shape(kind: str, one: str, other: str) -> None:
    assert surrogate.shape(kind, one) == surrogate.shape(kind, other)


@pytest.mark.parametrize("kind", ["given", "place", "number", "origin", "unlisted", "other"])
def test_what_is_no_word_is_replaced_by_its_like_whatever_it_was_found_to_be(kind: str) -> None:
    assert surrogate.shape(kind, "U.S.") == surrogate.shape("unlisted", "N.K.")
    assert surrogate.shape(kind, "J") == surrogate.shape("unlisted", "X")
    assert surrogate.shape(kind, "😀") == surrogate.shape("unlisted", "👍")


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(KeyError):
        surrogate.shape("colour", "red")


@given(
    st.sampled_from(["jo@b.org", "+44", "12:30", "a_b", "4111111111111111", "DE12", "x.pdf", "5kg"])
)
def test_an_identifier_stays_one_word_and_one_identifier(text: str) -> None:
    for seed in range(20):
        found = drawn("identifier", text, np.random.default_rng(seed))
        assert [word.kind for word in split(found)] == [Kind.IDENTIFIER]


def test_what_is_huge_is_scrambled() -> None:
    for text in ("1" * 200_000, "a." * 100_000 + "1", "@" * 200_000, "é1" * 100_000):
        assert drawn("identifier", text, np.random.default_rng(1))
