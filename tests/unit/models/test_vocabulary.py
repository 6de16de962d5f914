"""The device can cut, look up and release each listed word as one word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core.bundle.backbone import BackboneFiles
from sottovoce.core.errors import DataLoss, InvalidInput, NotReady
from sottovoce.core.text import vocabulary as public_vocabulary
from sottovoce.core.text.tagger import UPOS, OnnxTagger
from sottovoce.core.text.vocabulary import Mark
from sottovoce.core.text.word_classes import READINGS, UNLISTED
from sottovoce.core.text.words import Kind, has_number, split
from sottovoce.models import vocabulary
from sottovoce.models.corpus import load_language
from sottovoce.models.frequencies import FrequencyTable
from sottovoce.models.vocabulary import Vocabulary
from tests.support.backbones import TEXT


@pytest.fixture(scope="module")
def words(table: FrequencyTable) -> Vocabulary:
    return vocabulary.make_vocabulary(BackboneFiles.open().tokenizer, table)


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
    tokenizer = BackboneFiles.open().tokenizer
    for place in (0, 100, 20_000, len(words.words) - 1):
        encoded = tokenizer.encode(words.words[place], add_special_tokens=False).ids
        assert list(words.tokens[place]) == encoded
    assert all(len(tokens) == 1 for tokens in words.tokens[: int((~words.clitic).sum())])


def test_counts_come_from_the_table(words: Vocabulary, table: FrequencyTable) -> None:
    place = words.words.index("march")
    for tag in ("NOUN", "PROPN", "VERB"):
        assert words.counts[place, UPOS.index(tag)] == table.count("march", tag)


def test_a_longer_list_goes_on_with_words_of_several_tokens(
    words: Vocabulary, table: FrequencyTable, shipped_models: Path
) -> None:
    tokenizer = BackboneFiles.open().tokenizer
    whole = int((~words.clitic).sum())
    order = ("the", "Dishwasher", "dishwasher", "it's", "\u0416\u0436", "dishwasher", "mid-week")
    rest = vocabulary.load_order(shipped_models)
    longer = vocabulary.make_vocabulary(tokenizer, table, limit=whole + 500, order=(*order, *rest))

    assert longer.words[:whole] == words.words[:whole]
    assert longer.words[-7:] == words.words[-7:]
    more = longer.words[whole:-7]
    assert len(more) == len({*more}) == 500
    assert more[0] == "dishwasher"
    assert not {*more} & {*words.words}
    for word, tokens in zip(more, longer.tokens[whole:-7], strict=True):
        (cut,) = split(word, table.language.clitics)
        assert (cut.text, cut.kind) == (word, Kind.WORD)
        assert list(tokens) == tokenizer.encode(word, add_special_tokens=False).ids
        assert len(tokens) > 1
    assert longer.basis.tolist() == [True] * whole + [False] * 500 + [True] * 7


def test_the_order_of_further_words_holds_no_names_and_begins_with_common_ones(
    shipped_models: Path,
) -> None:
    order = vocabulary.load_order(shipped_models)
    public = public_vocabulary.Vocabulary.shipped()

    assert len(order) == len({*order}) == 150_000
    assert order.index("the") < order.index("dishwasher") < order.index("chokeberry")
    for word in order[::50]:
        assert public.marks(word) & (Mark.WORD | Mark.SMALL)
        assert not public.marks(word) & Mark.NAME


def test_a_missing_or_damaged_order_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match=str(tmp_path)):
        vocabulary.load_order(tmp_path)
    (tmp_path / "vocabulary").mkdir()
    (tmp_path / vocabulary.ORDER).write_bytes(b"the\nand\n")
    with pytest.raises(DataLoss):
        vocabulary.load_order(tmp_path)


def test_limit_keeps_the_first_words_and_all_clitics(
    words: Vocabulary, table: FrequencyTable
) -> None:
    some = vocabulary.make_vocabulary(BackboneFiles.open().tokenizer, table, limit=100)

    assert some.words[:100] == words.words[:100]
    assert some.words[100:] == words.words[-7:]


@pytest.mark.parametrize("folder", ["tiny_decoder", "tiny_encoder_decoder"])
def test_other_tokenizers_mark_word_starts_otherwise(
    folder: str, table: FrequencyTable, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(folder)
    found = vocabulary.make_vocabulary(BackboneFiles.open(str(path)).tokenizer, table)
    free = [w for w, clitic in zip(found.words, found.clitic, strict=True) if not clitic]

    assert {"the", "The"} & set(free)
    longer = [word for word in free if len(word) > 2]
    assert longer
    assert all(any(f" {word}" in f" {line}" for line in TEXT) for word in longer)
    assert not any("Ġ" in word or "▁" in word for word in found.words)


def test_a_vocabulary_without_words_is_refused(table: FrequencyTable, tiny_decoder: Path) -> None:
    tokenizer = BackboneFiles.open(str(tiny_decoder)).tokenizer
    with pytest.raises(InvalidInput, match="no whole words"):
        vocabulary.make_vocabulary(tokenizer, table, limit=0)


@pytest.fixture(scope="module")
def found(words: Vocabulary, tagger: OnnxTagger) -> dict[str, NDArray[np.int32]]:
    return vocabulary.word_classes(words, tagger, load_language("en").carriers)


def _listed(words: Vocabulary, ids: NDArray[np.int32]) -> set[str]:
    return {words.words[word] for word in ids}


def test_closed_classes_are_closed(words: Vocabulary, found: dict[str, NDArray[np.int32]]) -> None:
    assert {"the", "a", "this", "every"} <= _listed(words, found["DET"])
    assert {"i", "she", "them", "himself"} <= _listed(words, found["PRON"])
    assert {"of", "in", "between"} <= _listed(words, found["ADP"])
    assert {"is", "would", "must"} <= _listed(words, found["AUX"])
    assert len(found["DET"]) < 40
    for tag in ("PRON", "ADP", "AUX", "SCONJ"):
        assert len(found[tag]) < 120


def test_words_of_two_kinds_stand_in_both(
    words: Vocabulary, found: dict[str, NDArray[np.int32]]
) -> None:
    for word, tags in {"walk": "NOUN VERB", "march": "NOUN PROPN", "that": "PRON SCONJ"}.items():
        for tag in tags.split():
            assert word in _listed(words, found[tag])
    assert "walk" not in _listed(words, found["ADP"])


def test_every_word_is_in_a_class_and_clitics_apart(
    words: Vocabulary, found: dict[str, NDArray[np.int32]]
) -> None:
    everything = np.concatenate([found["*"], found["*+clitic"]])
    assert np.sort(everything).tolist() == list(range(len(words.words)))
    assert "PUNCT" not in found
    for name, ids in found.items():
        assert (words.clitic[ids] == name.endswith("+clitic")).all()
        assert (np.diff(ids) > 0).all()
        assert len(ids) >= 4
    by_tag = np.unique(np.concatenate([ids for name, ids in found.items() if "*" not in name]))
    assert len(by_tag) > 0.99 * len(words.words)


def test_words_nobody_met_are_tagged_and_stay_out_of_closed_classes(
    words: Vocabulary, found: dict[str, NDArray[np.int32]]
) -> None:
    unseen = np.flatnonzero(~words.counts.any(axis=1) & ~words.clitic)
    assert len(unseen) > 100
    for tag in ("ADP", "AUX", "DET", "PRON", "PART", "CCONJ", "SCONJ"):
        assert not np.isin(unseen, found[tag]).any()
    tagged = np.concatenate([found[tag] for tag in vocabulary.CLASS_TAGS if tag in found])
    assert np.isin(unseen, tagged).mean() > 0.99


def test_slips_of_the_tagger_do_not_count() -> None:
    counts = np.zeros((8, len(UPOS)))
    columns = [UPOS.index(tag) for tag in ("NOUN", "VERB", "PRON")]
    counts[0, columns] = 100, 4, 0  # 4 %: not a verb
    counts[1, columns] = 100, 6, 0  # 6 %: a verb
    counts[2, columns] = 100, 1, 19  # too few for a pronoun
    counts[3, columns] = 100, 1, 25
    counts[4, columns] = 0, 1, 0  # met once: still what it was met as
    counts[5, columns] = 3, 1, 0  # once of four times
    counts[6, columns] = 1, 0, 19  # a name that was taken for a pronoun
    counts[7, columns] = 0, 0, 5  # a rare pronoun
    tagged = vocabulary.from_counts(counts)

    assert tagged[:, columns].tolist() == [
        [True, False, False],
        [True, True, False],
        [True, False, False],
        [True, False, True],
        [False, True, False],
        [True, False, False],
        [True, False, False],
        [False, False, True],
    ]


CARRIERS = load_language("en").carriers


def invented(words: dict[str, dict[str, int]], clitics: int = 0) -> Vocabulary:
    counts = np.array([[met.get(tag, 0) for tag in UPOS] for met in words.values()], float)
    clitic = np.arange(len(words)) >= len(words) - clitics
    return Vocabulary(tuple(words), ((),) * len(words), clitic, counts)


def names(found: NDArray[np.uint8]) -> list[str]:
    return [READINGS[each] for each in found.tolist()]


def test_a_word_is_what_it_was_most_often_met_as(tagger: OnnxTagger) -> None:
    words = invented(
        {
            "walk": {"NOUN": 40, "VERB": 60},
            "that": {"PRON": 300, "SCONJ": 200, "DET": 150},  # together: grammar
            "inside": {"ADP": 30, "ADV": 20, "PRON": 5},
            "ai": {"NOUN": 4, "AUX": 19},  # too few for a closed class
            "em": {"PRON": 5},
            "hm": {"INTJ": 3, "X": 3, "NOUN": 5},
            "anna": {"PROPN": 9, "NOUN": 3},
            "six": {"NUM": 9, "NOUN": 3},
            "'s": {"PART": 900},
        },
        clitics=1,
    )
    found = names(vocabulary.word_readings(words, tagger, CARRIERS, {}))
    wanted = "VERB GRAMMAR REFERENCE NOUN REFERENCE OTHER NAME NUMBER CLITIC"
    assert found == wanted.split()


def test_lists_come_before_counts_and_the_tagger_last(tagger: OnnxTagger) -> None:
    words = invented(
        {
            "German": {"ADJ": 50},
            "german": {"ADJ": 50},
            "broke": {"VERB": 50},
            "half": {"NOUN": 50},
            "quickliness": {},
            "'d": {"AUX": 5},
        },
        clitics=1,
    )
    facts = {"german": "nationality", "broke": "money", "half": "number", "'d": "crime"}
    found = names(vocabulary.word_readings(words, tagger, CARRIERS, facts))
    assert found == ["ORIGIN", "ORIGIN", "FACT", "NUMBER", "NOUN", "CLITIC"]


def test_words_nobody_met_stay_out_of_closed_classes(
    table: FrequencyTable, tagger: OnnxTagger
) -> None:
    words = vocabulary.make_vocabulary(BackboneFiles.open().tokenizer, table)
    unseen = ~words.counts.any(axis=1) & ~words.clitic
    found = vocabulary.word_readings(words, tagger, CARRIERS, {})
    assert unseen.sum() > 100
    closed = [READINGS.index(each) for each in ("REFERENCE", "GRAMMAR", "CLITIC")]
    assert not np.isin(found[unseen], closed).any()
    assert (found[words.clitic] == READINGS.index("CLITIC")).all()


def test_a_class_under_a_hundred_words_has_none() -> None:
    found = np.array([READINGS.index("NOUN")] * 100 + [READINGS.index("FACT")] * 99, np.uint8)
    classes = vocabulary.partition(found, np.zeros(199, np.bool_))
    assert {name: len(ids) for name, ids in classes.items()} == {"=NOUN": 100}
    together = np.array(
        [READINGS.index("GRAMMAR")] * 60 + [READINGS.index("REFERENCE")] * 50, np.uint8
    )
    attached = np.arange(110) >= 105
    assert vocabulary.partition(together, attached)["=CLOSED"].tolist() == list(range(105))


def test_the_shipped_list_names_enough_of_each(shipped_models: Path) -> None:
    facts = vocabulary.load_facts(shipped_models / "facts")
    found = [vocabulary.KINDS[kind] for kind in facts.values()]
    for reading in ("ORIGIN", "FACT", "NUMBER"):
        assert found.count(reading) >= 100
    assert all(word == word.lower() for word in facts)


def test_shares_are_of_all_words_of_running_text(table: FrequencyTable) -> None:
    words = invented(
        {"walk": {"NOUN": 40, "VERB": 60}, "the": {"DET": 300}, "'s": {"PART": 100}}, 1
    )
    found = np.array([READINGS.index(each) for each in ("VERB", "GRAMMAR", "CLITIC")], np.uint8)
    shares = vocabulary.shares(words, found, table)
    total = table.counts.sum() + sum(table.left_out.values())
    assert shares["VERB"] == pytest.approx(100 / total)
    assert shares["GRAMMAR"] == pytest.approx(300 / total)
    assert shares["NOUN"] == 0
    assert shares[UNLISTED] == pytest.approx(1 - 500 / total)
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no list"),
        ("kind\tword\n", "no list"),
        ("word\tkind\nbroke\n", "no list"),
        ("word\tkind\nbroke\tmoney\textra\n", "no list"),
        ("word\tkind\nbroke\tmood\n", "mood"),
    ],
)
def test_a_list_that_is_none_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "words.tsv").write_text(text)
    with pytest.raises(DataLoss, match=said):
        vocabulary.load_facts(tmp_path)


def test_no_list_at_all_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="--models"):
        vocabulary.load_facts(tmp_path)
