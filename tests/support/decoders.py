"""Tiny decoders with random weights and the layouts of real ones, each with its output weights.

All share a byte-level BPE tokenizer, with a chat template like Qwen's or without.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from tests.support.backbones import TEXT

CHATML: Final = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""What Qwen2.5 and others use."""

_SIZES: Final[dict[str, Any]] = {
    "vocab_size": 640,  # padded past the tokenizer, as published ones are
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "eos_token_id": 0,
    "pad_token_id": 0,
    "bos_token_id": None,
    "initializer_range": 0.1,  # what is this small learns nothing from where large ones begin
}

FAMILIES: Final = {
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {"tie_word_embeddings": True}),
    "llama": (LlamaForCausalLM, LlamaConfig, {"tie_word_embeddings": False}),
    "mistral": (MistralForCausalLM, MistralConfig, {"tie_word_embeddings": False}),
    "gemma3": (
        Gemma3ForCausalLM,
        Gemma3TextConfig,
        {
            "head_dim": 12,
            "sliding_window": 16,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
}


def tokenizer(*, template: str | None = CHATML) -> PreTrainedTokenizerFast:
    """A cased byte-level BPE of a few lines of text."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    made.train_from_iterator(
        TEXT * 3,
        trainers.BpeTrainer(
            vocab_size=600,
            special_tokens=[AddedToken(token, special=True) for token in special],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    named = dict.fromkeys(("eos_token", "pad_token"), "<|endoftext|>")
    fast = PreTrainedTokenizerFast(tokenizer_object=made, **named)
    fast.chat_template = template
    return fast


def starting_with(token: str, number: int) -> processors.TemplateProcessing:
    """What makes a tokenizer put ``token`` before everything."""
    return processors.TemplateProcessing(single=f"{token} $A", special_tokens=[(token, number)])


def save(
    folder: Path, family: str = "qwen2", *, template: str | None = CHATML, **changed: Any
) -> Path:
    """Saves a decoder of two layers, hidden 48, context 512; ``changed`` overrules its config."""
    model, config, own = FAMILIES[family]
    torch.manual_seed(0)
    model(config(**{**_SIZES, **own, **changed})).save_pretrained(folder)
    tokenizer(template=template).save_pretrained(folder)
    return folder
