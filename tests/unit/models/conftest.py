"""Fixtures of the builder's tests: the shipped models and tiny backbones."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.core.text.tagger import OnnxTagger
from sottovoce.models import frequencies
from sottovoce.models.frequencies import FrequencyTable
from tests.support import backbones
from tests.support.paths import MODELS


@pytest.fixture(scope="session")
def shipped_models() -> Path:
    """The repository's models folder."""
    return MODELS


@pytest.fixture(scope="session")
def table(shipped_models: Path) -> FrequencyTable:
    """The shipped word counts."""
    return frequencies.load(shipped_models / "frequencies")


@pytest.fixture(scope="session")
def tagger(shipped_models: Path) -> OnnxTagger:
    """The shipped tagger."""
    return OnnxTagger.load(shipped_models / "tagger")


@pytest.fixture(scope="session")
def tiny_decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen2 with random weights and a cased byte-level BPE tokenizer."""
    return backbones.tiny_decoder(tmp_path_factory.mktemp("backbones") / "tiny-qwen2")


@pytest.fixture(scope="session")
def tiny_encoder_decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A T5 with random weights and a cased SentencePiece-style Unigram tokenizer."""
    return backbones.tiny_encoder_decoder(tmp_path_factory.mktemp("backbones") / "tiny-t5")
