"""Tiny backbones with random weights and the layouts of real ones, one of every family.

Each tokenizer is trained on a few lines of text: WordPiece for the encoder, a cased byte-level BPE
for the decoders, a SentencePiece-style Unigram for the encoder-decoder.
"""

from __future__ import annotations

import warnings
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
    DistilBertConfig,
    DistilBertModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2Model,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5Model,
    XLMRobertaConfig,
    XLMRobertaModel,
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
    fast = _word_piece()
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=300,
    )
    return _save(BertModel(config), fast, folder)


ENCODERS = ("distilbert", "roberta", "xlm-roberta", "modernbert")
"""Families of encoders that are not BERT."""


def tiny_encoder(family: str, folder: Path) -> Path:
    """Saves an encoder of one of `ENCODERS` with random weights and the family's tokenizer."""
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "max_position_embeddings": 300,
    }
    torch.manual_seed(0)
    if family == "distilbert":
        fast = _word_piece()
        shape = {"dim": 32, "hidden_dim": 48, "n_layers": 3, "n_heads": 2}
        config = DistilBertConfig(vocab_size=len(fast), max_position_embeddings=300, **shape)
        return _save(DistilBertModel(config), fast, folder)
    fast = _byte_pairs() if family != "xlm-roberta" else _unigram()
    if family == "modernbert":
        # Words see 8 others in two of three layers, so the mask of a window is part of the graph.
        window = {"local_attention": 8, "global_attn_every_n_layers": 3}
        special = {"pad_token_id": 1, "cls_token_id": 0, "sep_token_id": 2}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's own compiler, at the first import
            from transformers import ModernBertConfig, ModernBertModel
        config = ModernBertConfig(vocab_size=len(fast), **sizes, **window, **special)
        return _save(ModernBertModel(config), fast, folder)
    # Positions start behind the padding token, so two of the table's are never used.
    sizes["max_position_embeddings"] = 302
    if family == "roberta":
        return _save(RobertaModel(RobertaConfig(vocab_size=len(fast), **sizes)), fast, folder)
    return _save(XLMRobertaModel(XLMRobertaConfig(vocab_size=len(fast), **sizes)), fast, folder)


def _word_piece() -> PreTrainedTokenizerFast:
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
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


_ROBERTAS = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}


def _byte_pairs() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[*_ROBERTAS.values()],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT * 3, trainer)
    return _between_ends(tokenizer)


def _unigram() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=200,
        special_tokens=[*_ROBERTAS.values()],
        unk_token="<unk>",  # noqa: S106 - no password
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT * 3, trainer)
    return _between_ends(tokenizer)


def _between_ends(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **_ROBERTAS)


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
