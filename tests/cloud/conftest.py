"""What the cloud's tests share: the shipped models, the real bundle, and tiny backbones made here.

The tiny backbones have random weights and the real layouts: a decoder with byte-level BPE and an
encoder-decoder with a SentencePiece-style Unigram tokenizer, each trained on a few lines of text.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoTokenizer,
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

from sottovoce.cloud import building
from sottovoce.cloud.corpus import frequencies
from sottovoce.cloud.corpus.frequencies import FrequencyTable
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.state.database import Store
from sottovoce.cloud.state.tenants import Tenants
from sottovoce.cloud.training.worker import Worker
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.text.tagger import OnnxTagger
from tests.support.cloud import tiny_bert

ROOT = Path(__file__).parents[2]
TEXT = (
    "The doctor wrote a letter to her sister in Paris and asked for money.",
    "We were at the market when the train from London came in at noon.",
    "They don't know what she'll say, but the café has good coffee and bread.",
    "A small dog ran across the garden while it rained on the old stone bridge.",
)


@pytest.fixture(scope="session")
def shipped_models() -> Path:
    """The repository's models folder."""
    return ROOT / "models"


@pytest.fixture(scope="session")
def table(shipped_models: Path) -> FrequencyTable:
    """The shipped word counts."""
    return frequencies.load(shipped_models / "frequencies")


@pytest.fixture(scope="session")
def tagger(shipped_models: Path) -> OnnxTagger:
    """The shipped tagger."""
    return OnnxTagger.load(shipped_models / "tagger")


@pytest.fixture(scope="session")
def bundle(shipped_models: Path) -> Bundle:
    """The real bundle: the one SOTTO_TEST_BUNDLE names, or build/bundle, built where it lacks."""
    folder = Path(os.environ.get("SOTTO_TEST_BUNDLE", ROOT / "build" / "bundle"))
    if not (folder / "manifest.json").is_file():
        building.build(folder, models=shipped_models)
    return Bundle.open(folder)


@pytest.fixture(scope="session")
def small_build(shipped_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle of the default backbone's first 1,500 whole words."""
    folder = tmp_path_factory.mktemp("bundles") / "small"
    building.build(folder, models=shipped_models, limit=1_500)
    return Bundle.open(folder, verify=True)


@pytest.fixture(scope="session")
def tiny_decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    return _save(Qwen2Model(config), fast, tmp_path_factory.mktemp("backbones") / "tiny-qwen2")


@pytest.fixture(scope="session")
def tiny_encoder_decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    return _save(T5Model(config), fast, tmp_path_factory.mktemp("backbones") / "tiny-t5")


@pytest.fixture(scope="session")
def tiny_causal(tiny_decoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A Llama and a Mistral with random weights and output embeddings of their own."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_decoder)
    sizes = {
        "vocab_size": 640,
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": False,
    }
    folder = tmp_path_factory.mktemp("backbones")
    torch.manual_seed(0)
    return {
        "llama": _save(LlamaForCausalLM(LlamaConfig(**sizes)), tokenizer, folder / "tiny-llama"),
        "mistral": _save(
            MistralForCausalLM(MistralConfig(**sizes)), tokenizer, folder / "tiny-mistral"
        ),
    }


@pytest.fixture(scope="session")
def families(
    tiny_decoder: Path,
    tiny_encoder_decoder: Path,
    tiny_causal: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """One tiny backbone of every family that is promised."""
    bert = tiny_bert(tmp_path_factory.mktemp("backbones") / "tiny-bert")
    return {"bert": bert, "qwen2": tiny_decoder, "t5": tiny_encoder_decoder, **tiny_causal}


@pytest.fixture(scope="session")
def bert(families: dict[str, Path]) -> str:
    """The encoder among them."""
    return str(families["bert"])


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """The jobs of one tenant."""
    store = Store(tmp_path)
    Tenants(store).enroll("acme")
    yield Jobs(store)
    store.close()


@pytest.fixture
def worker(tmp_path: Path, bert: str, jobs: Jobs) -> Iterator[Worker]:
    """A worker in this process, with a connection of its own."""
    worker = Worker(tmp_path, bert)
    yield worker
    worker.jobs.store.close()


def _save(model: torch.nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
