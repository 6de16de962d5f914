"""The decoder of the benches reads text as its makers do; tried on a few pieces of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.generation import gemma
from sottovoce.core.errors import InvalidInput

_SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>"]
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# As in SentencePiece: a piece's score falls with the order in which it was learnt; the letters'
# are lowest.
_LEARNT = ["▁t", "he", "▁the", "re", "there", "▁there"]
_LETTERS = ["▁", *"ther"]
TOKENS = [*_SPECIAL, *_BYTES, "\n\n", *_LEARNT, *_LETTERS]
KINDS = [*[3] * 4, *[6] * 256, 4, *[1] * (len(_LEARNT) + len(_LETTERS))]
SCORES = [
    *[-1000.0] * 261,
    *(-float(n) for n in range(len(_LEARNT))),
    *(-100.0 - n for n in range(len(_LETTERS))),
]


def test_pieces_are_joined_in_the_order_in_which_they_were_learnt() -> None:
    assert gemma.merges(TOKENS, SCORES, KINDS) == [
        ("▁", "t"),
        ("h", "e"),
        ("▁t", "he"),
        ("r", "e"),
        ("▁the", "re"),
        ("▁", "there"),
    ]


def test_text_is_read_and_given_back() -> None:
    fast = gemma.tokenizer(TOKENS, SCORES, KINDS)

    def pieces(text: str) -> list[str]:
        return fast.convert_ids_to_tokens(fast(text)["input_ids"])  # type: ignore[no-any-return]

    assert pieces(" there") == ["<bos>", "▁there"]
    assert pieces("there the\n\nhé") == [
        *("<bos>", "t", "he", "re", "▁the", "\n\n", "h", "<0xC3>", "<0xA9>"),
    ]
    text = "there  the\n\nhé 🙂"
    assert fast.decode(fast(text)["input_ids"], skip_special_tokens=True) == text
    assert fast.eos_token_id == 1


def test_without_the_wheels_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not all four wheels"):
        gemma.build(tmp_path, tmp_path / "made")
    assert not (tmp_path / "made").exists()
