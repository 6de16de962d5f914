"""Tokens follow the distribution, and equal seeds draw alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sottovoce.cloud.serving.generator import Characters, Draw, Sampling, choose
from tests.support.decoders import tokenizer

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0, -9.0], [0.0, 0.0, 5.0, 0.0, 0.0]])


def drawn(sampling: Sampling, times: int, logits: torch.Tensor = LOGITS[0]) -> list[int]:
    draw = Draw(sampling)
    return [draw.token(logits) for _ in range(times)]


def test_without_temperature_the_likeliest_is_taken() -> None:
    assert choose(LOGITS, [Draw(Sampling()), Draw(Sampling())]) == [0, 2]


def test_rows_choose_each_in_its_own_way() -> None:
    hot = Sampling(temperature=2.0, seed=3)
    expected = drawn(hot, 1)[0]
    for others in ([], [Draw(Sampling(temperature=1.0))]):
        found = choose(LOGITS[[0] * (1 + len(others))], [Draw(hot), *others])
        assert found[0] == expected


def test_draws_follow_the_softmax() -> None:
    """A chi-squared test at 1e-4."""
    counts = torch.tensor(drawn(Sampling(temperature=1.5, seed=1), 2_000)).bincount(minlength=5)
    expected = torch.softmax(LOGITS[0].double() / 1.5, 0)[:4]  # the last is met once in all
    expected *= counts[:4].sum() / expected.sum()
    assert stats.chisquare(counts[:4], expected).pvalue > 1e-4


def test_the_nucleus_is_the_fewest_that_have_the_probability() -> None:
    # .64 .24 .09 .03: two are not enough for .9, three are.
    assert set(drawn(Sampling(temperature=1.0, top_p=0.9, seed=2), 300)) == {0, 1, 2}
    assert set(drawn(Sampling(temperature=1.0, top_p=0.6, seed=2), 100)) == {0}


@pytest.mark.parametrize("temperature", [5e-324, 1e-40, 1e-3, 2.0])
@pytest.mark.parametrize("top_p", [5e-324, 1e-40, 1.0])
def test_no_choice_of_a_caller_makes_the_draw_fail(temperature: float, top_p: float) -> None:
    # A row that fails would take those of others with it.
    found = drawn(Sampling(temperature=temperature, top_p=top_p, seed=2), 20)
    assert set(found) <= {0, 1, 2, 3, 4}
    assert set(found) == {0} or (temperature, top_p) == (2.0, 1.0)


def test_a_nucleus_may_be_wide() -> None:
    flat = torch.zeros(1_000)
    found = set(drawn(Sampling(temperature=1.0, top_p=0.5, seed=4), 1_500, flat))
    # 500 of equal probability, each missed 1,500 times with probability e^-3.
    assert 440 < len(found) <= 500


def test_equal_seeds_draw_alike_and_others_do_not() -> None:
    one, same, other, random, again = (
        drawn(Sampling(temperature=2.0, seed=seed), 60) for seed in (7, 7, 8, None, None)
    )
    assert one == same
    assert one != other
    assert random != again  # the commonest token has .5: equal by chance once in 2^60
    assert drawn(Sampling(temperature=2.0, seed=(1 << 64) - 1), 1)


def test_a_low_temperature_comes_to_the_likeliest() -> None:
    assert set(drawn(Sampling(temperature=1e-6, seed=1), 20)) == {0}


BYTES = tokenizer()
SPECIAL = {0, 1, 2}


def with_fallback() -> Any:
    """A tokenizer like Llama's: words that bring their space, and bytes for what has no token."""
    pieces = ["<unk>", "▁the", "▁a", "dog", "s", *(f"<0x{byte:02X}>" for byte in range(256))]
    made = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], 0, byte_fallback=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")  # noqa: S106


def shown(tokenizer: Any, ids: list[int]) -> list[str]:
    characters = Characters(tokenizer)
    return [characters.add(token) for token in ids]


@pytest.mark.parametrize("made", [BYTES, with_fallback()], ids=["bytes", "fallback"])
@settings(max_examples=40)
@given(text=st.text(max_size=80))
def test_texts_of_any_script_come_out_whole(made: Any, text: str) -> None:
    ids = made(text, add_special_tokens=False)["input_ids"]
    pieces = shown(made, ids)
    whole = made.decode(ids, clean_up_tokenization_spaces=False)
    assert "".join(pieces) == whole.rstrip("\ufffd")
    assert len(text) < 2 or len(pieces) > 1


@settings(max_examples=40)
@given(ids=st.lists(st.integers(3, len(BYTES) - 1), max_size=200))
def test_whatever_bytes_come_no_character_is_shown_half(ids: list[int]) -> None:
    whole = BYTES.decode(ids, clean_up_tokenization_spaces=False)
    assert "".join(shown(BYTES, ids)) == whole.rstrip("\ufffd")


def test_a_character_is_held_back_until_it_is_whole() -> None:
    ids = BYTES("x€", add_special_tokens=False)["input_ids"]
    assert len(ids) == 4
    assert shown(BYTES, ids) == ["x", "", "", "€"]


def test_special_tokens_are_not_text() -> None:
    ids = [*BYTES("The dog", add_special_tokens=False)["input_ids"], 2, 0]
    assert "".join(shown(BYTES, ids)) == "The dog"


def test_a_token_costs_the_same_however_long_the_text() -> None:
    characters, decoded = Characters(BYTES), []
    known = BYTES.decode
    seen = type(
        "Seen", (), {"decode": lambda _, ids, **o: decoded.append(len(ids)) or known(ids, **o)}
    )
    characters._tokenizer = seen()
    broken = BYTES.convert_tokens_to_ids("ÿ")  # a byte that is never part of a character
    for token in [*BYTES("The dog ran. " * 40)["input_ids"], *[broken] * 300]:
        characters.add(token)
    assert max(decoded) < 100
