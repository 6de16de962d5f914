"""Tiny backbones with random weights and the layouts of real ones, one of every family.

Each tokenizer is trained on a few lines of text: WordPiece for the encoder, a cased byte-level BPE
for the decoders, a SentencePiece-style Unigram for the encoder-decoder.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2Model,
    T5Config,
    T5Model,
)

from tests.support.examples import WORDS

TEXT = (
    "The doctor wrote a letter to her sister in Paris and asked for money.",
    "We were at the market when the train from London came in at noon.",
    "They don't know what she'll say, but the café has good coffee and bread.",
    "A small dog ran across the garden while it rained on the old stone bridge.",
)


def tiny_bert(folder: Path, seed: int = 0) -> Path:
    """Saves a BERT with random weights, 2 layers, hidden 32, and a WordPiece vocabulary."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, *"abcdefghijklmnopqrstuvwxyz"]
    vocabulary += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    ids = {piece: i for i, piece in enumerate(dict.fromkeys(vocabulary))}
    names = {f"{key}_token": f"[{key.upper()}]" for key in ("pad", "unk", "cls", "sep")}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=names["unk_token"]))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(ids),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=300,
    )
    BertModel(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def tiny_decoder(folder: Path) -> Path:
    """A Qwen2 with random weights and a cased byte-level BPE tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        TEXT * 3,
        trainers.BpeTrainer(
            vocab_size=600,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    special = dict.fromkeys(("eos_token", "pad_token"), "<|endoftext|>")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=640,  # padded past the tokenizer, as published ones are
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return _save(Qwen2Model(config), fast, folder)


def tiny_encoder_decoder(folder: Path) -> Path:
    """A T5 with random weights and a cased SentencePiece-style Unigram tokenizer."""
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(
        TEXT * 3,
        trainers.UnigramTrainer(
            vocab_size=200,
            special_tokens=list(special.values()),
            unk_token=special["unk_token"],
            show_progress=False,
        ),
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    torch.manual_seed(0)
    config = T5Config(vocab_size=len(fast), d_model=40, d_ff=64, d_kv=10, num_layers=2, num_heads=4)
    return _save(T5Model(config), fast, folder)


def tiny_causal(folder: Path, tokenizer_folder: Path) -> dict[str, Path]:
    """A Llama and a Mistral with random weights and output embeddings of their own."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    sizes = {
        "vocab_size": 640,
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": False,
    }
    torch.manual_seed(0)
    return {
        "llama": _save(LlamaForCausalLM(LlamaConfig(**sizes)), tokenizer, folder / "tiny-llama"),
        "mistral": _save(
            MistralForCausalLM(MistralConfig(**sizes)), tokenizer, folder / "tiny-mistral"
        ),
    }


def _save(model: torch.nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
