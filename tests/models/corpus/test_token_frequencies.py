"""Token frequencies follow the words' counts, and leave no token impossible."""

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from sottovoce.cloud.models import backbone as backbones
from sottovoce.models.corpus.frequencies import FrequencyTable
from sottovoce.models.corpus.token_frequencies import token_log_prior


def test_shares_of_the_default_vocabulary(table: FrequencyTable) -> None:
    tokenizer = AutoTokenizer.from_pretrained(backbones.resolve("default"))
    shares = np.exp(token_log_prior(tokenizer, table).astype(float))
    of = dict(zip(tokenizer.convert_ids_to_tokens(range(len(shares))), shares, strict=True))

    assert shares.sum() == pytest.approx(1, abs=1e-4)
    assert len(shares) == len(tokenizer)
    assert shares.min() > 0
    assert 0.03 < of["the"] < 0.08
    assert 0.03 < of[","] < 0.08
    assert of["the"] > of["doctor"] > of["[CLS]"]
    assert of["1945"] > of["[CLS]"]
    assert of["##ing"] > of["[unused5]"]


def test_vocabularies_of_other_kinds_count_words_with_their_space(
    tiny_decoder: Path, table: FrequencyTable
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_decoder)
    log_prior = token_log_prior(tokenizer, table)
    the = tokenizer(" the", add_special_tokens=False)["input_ids"]

    assert len(the) == 1
    assert log_prior.argmax() in tokenizer(" the, and of", add_special_tokens=False)["input_ids"]
    assert np.isfinite(log_prior).all()
