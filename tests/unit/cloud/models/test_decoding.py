"""Rows go through a decoder in parts of any size, beside any others, as whole texts do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from sottovoce.cloud.models import decoder
from sottovoce.cloud.models.decoder import ATTENTION, Cache, Decoder, Part, advance, position_bytes
from sottovoce.cloud.models.rows import Row
from tests.support import decoders

FLOAT = torch.float32


def opened(folder: Path, family: str) -> Decoder:
    if family != "gpt2":
        return decoder.load(str(decoders.save(folder, family, sliding_window=8)))
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=640, n_embd=48, n_layer=2, n_head=4, n_positions=128)
    config.eos_token_id = config.bos_token_id = 0
    GPT2LMHeadModel(config).save_pretrained(folder)
    decoders.tokenizer().save_pretrained(folder)
    return decoder.load(str(folder))


def whole(found: Decoder, ids: list[int]) -> Tensor:
    """The last state by `transformers` alone."""
    with torch.no_grad():
        return found.stack(input_ids=torch.tensor([ids])).last_hidden_state[0, -1]  # type: ignore[no-any-return]


@pytest.mark.parametrize("family", [*decoders.FAMILIES, "gpt2"])
def test_parts_of_any_size_come_to_the_same(family: str, tmp_path: Path) -> None:
    found = opened(tmp_path / "tiny", family)
    torch.manual_seed(1)
    texts = [torch.randint(3, 300, (length,)).tolist() for length in (30, 11, 19)]
    expected = torch.stack([whole(found, ids) for ids in texts])
    found.stack.config._attn_implementation = ATTENTION
    for sizes in ((30, 11, 19), (7, 3, 1), (1, 5, 19)):
        caches = [Cache.begun(found.stack, Row(), len(ids), FLOAT) for ids in texts]
        last: dict[int, Tensor] = {}
        while going := [n for n, ids in enumerate(texts) if caches[n].length < len(ids)]:
            parts = [
                Part(Row(), caches[n], None, texts[n][caches[n].length :][: sizes[n]])
                for n in going
            ]
            last |= zip(going, advance(found.stack, parts), strict=True)
        states = torch.stack([last[n] for n in range(3)])
        torch.testing.assert_close(states, expected, atol=1e-4, rtol=1e-4)


def test_a_pass_that_fails_is_not_remembered(tmp_path: Path) -> None:
    found = opened(tmp_path / "tiny", "llama")
    found.stack.config._attn_implementation = ATTENTION
    cache = Cache.begun(found.stack, Row(), 8, FLOAT)
    first = advance(found.stack, [Part(Row(), cache, None, [5, 6, 7])])
    with pytest.raises((IndexError, RuntimeError)):
        advance(found.stack, [Part(Row(), cache, None, [8, 10_000])])  # no such token
    assert cache.length == 3
    again = Cache.begun(found.stack, Row(), 8, FLOAT)
    assert torch.equal(advance(found.stack, [Part(Row(), again, None, [5, 6, 7])]), first)
    one, other = (advance(found.stack, [Part(Row(), c, None, [9])]) for c in (cache, again))
    torch.testing.assert_close(one, other)


def test_what_a_row_remembers_is_as_large_as_is_said(tmp_path: Path) -> None:
    found = opened(tmp_path / "tiny", "qwen2")
    for dtype in (FLOAT, torch.bfloat16):
        cache = Cache.begun(found.stack, Row(), 10, dtype)
        assert cache.held.nbytes == 10 * position_bytes(found.stack, dtype)
