"""The word list holds what the device can cut, look up and release as one word."""

from pathlib import Path

import numpy as np
import pytest

from sottovoce.cloud.models import backbone
from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.identifiers import has_number
from sottovoce.core.text.tagger import UPOS
from sottovoce.core.text.words import Kind, split
from sottovoce.models.corpus.frequencies import FrequencyTable
from sottovoce.models.vocabulary import vocabulary
from sottovoce.models.vocabulary.vocabulary import Vocabulary
from tests.support.backbones import TEXT


@pytest.fixture(scope="module")
def words(table: FrequencyTable) -> Vocabulary:
    return vocabulary.make(backbone.load().tokenizer, table)


def test_the_default_list_holds_whole_words_and_clitics(words: Vocabulary) -> None:
    listed = set(words.words)

    assert len(words.words) == len(listed) > 20_000
    assert {"doctor", "paris", "the", "$", "€", "n't", "'s"} <= listed
    assert not listed & {"##ing", "ing's", "[CLS]", "[unused0]", ",", "...", "1999", ""}
    assert [words.words[place] for place in np.flatnonzero(words.clitic)] == sorted(
        ["n't", "'s", "'ll", "'re", "'ve", "'d", "'m"]
    )


def test_a_released_word_is_cut_as_one_word_again(words: Vocabulary, table: FrequencyTable) -> None:
    for word, clitic in zip(words.words, words.clitic.tolist(), strict=True):
        (cut,) = split(word, table.language.clitics)
        assert (cut.text, cut.kind, cut.clitic) == (word, Kind.WORD, clitic)
        assert not has_number(word)


def test_other_scripts_stay_out_unless_met(words: Vocabulary, table: FrequencyTable) -> None:
    foreign = {w for w in words.words if any(c.isalpha() and ord(c) > 0x24F for c in w)}

    assert foreign <= set(table.words)
    assert "ш" not in words.words
    assert "人" not in words.words


def test_tokens_are_the_tokenizers_own(words: Vocabulary) -> None:
    tokenizer = backbone.load().tokenizer
    for place in (0, 100, 20_000, len(words.words) - 1):
        encoded = tokenizer(words.words[place], add_special_tokens=False)["input_ids"]
        assert list(words.tokens[place]) == encoded
    assert all(len(tokens) == 1 for tokens in words.tokens[: int((~words.clitic).sum())])


def test_counts_come_from_the_table(words: Vocabulary, table: FrequencyTable) -> None:
    place = words.words.index("march")
    for tag in ("NOUN", "PROPN", "VERB"):
        assert words.counts[place, UPOS.index(tag)] == table.count("march", tag)


def test_limit_keeps_the_first_words_and_all_clitics(
    words: Vocabulary, table: FrequencyTable
) -> None:
    some = vocabulary.make(backbone.load().tokenizer, table, limit=100)

    assert some.words[:100] == words.words[:100]
    assert some.words[100:] == words.words[-7:]


@pytest.mark.parametrize("folder", ["tiny_decoder", "tiny_encoder_decoder"])
def test_other_tokenizers_mark_word_starts_otherwise(
    folder: str, table: FrequencyTable, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(folder)
    found = vocabulary.make(backbone.load(str(path)).tokenizer, table)
    free = [w for w, clitic in zip(found.words, found.clitic, strict=True) if not clitic]

    assert {"the", "The"} & set(free)
    longer = [word for word in free if len(word) > 2]
    assert longer
    assert all(any(f" {word}" in f" {line}" for line in TEXT) for word in longer)
    assert not any("Ġ" in word or "▁" in word for word in found.words)


def test_a_vocabulary_without_words_is_refused(table: FrequencyTable, tiny_decoder: Path) -> None:
    tokenizer = backbone.load(str(tiny_decoder)).tokenizer
    with pytest.raises(InvalidInput, match="no whole words"):
        vocabulary.make(tokenizer, table, limit=0)
