"""Padding: few sizes, little more than what is in them, and nothing said by it."""

from __future__ import annotations

import math

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.core.rpc.limits import LARGEST_PADDING, LARGEST_TEXT
from sottovoce.core.rpc.streams import STEP, check_padding, pad, padded_size
from sottovoce.v1 import inference_pb2 as inference

SIZES = [*range(1, 3 * STEP), *range(3 * STEP, LARGEST_TEXT, 97), 1 << 20, (1 << 21) + 1]


def _message(size: int) -> inference.InferenceServicePredictRequest:
    return inference.InferenceServicePredictRequest(released_text="x" * size)


def test_sizes_are_few_and_not_much_larger() -> None:
    for size in SIZES:
        padded = padded_size(size)
        assert size <= padded == padded_size(padded)
        assert padded - size < max(STEP, size / 8)
    assert len({padded_size(size) for size in range(1, 4096)}) == 8
    assert len({padded_size(size) for size in range(1, 1 << 16)}) == 8 + 4 * 8


def test_a_message_is_filled_up_exactly() -> None:
    """Every size there is, those around the steps included, where a field just does not fit."""
    for size in SIZES:
        message = _message(size)
        bare = message.ByteSize()
        pad(message)
        assert len(message.SerializeToString()) == padded_size(message.ByteSize())
        assert message.released_text == "x" * size
        following = padded_size(padded_size(bare) + 1)
        assert message.ByteSize() in (padded_size(bare), following)
        check_padding(message.padding, 1 << 20)


def test_what_holds_the_largest_text_is_within_the_bound() -> None:
    for less in range(3 * STEP):
        message = _message(LARGEST_TEXT + 2048 - less)
        pad(message)
        check_padding(message.padding)


def test_padding_again_changes_nothing() -> None:
    message = _message(700)
    pad(message)
    before = message.SerializeToString()
    pad(message)
    assert message.SerializeToString() == before


@pytest.mark.parametrize("padding", [b"\0\0x\0", b"x", bytes(LARGEST_PADDING + 1)])
def test_padding_that_is_more_than_padding_is_refused(padding: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_padding(padding)
    assert caught.value.subject == "padding"


def test_what_a_size_tells_is_a_few_bits() -> None:
    """Of texts up to 64 KiB, uniformly long: 16 bits of length become less than 6."""
    sizes = [padded_size(size) for size in range(1, LARGEST_TEXT + 1)]
    shares = [sizes.count(size) / len(sizes) for size in sorted(set(sizes))]
    assert -sum(share * math.log2(share) for share in shares) < 6
