"""Counts match the sources, are reproducible, and hold no identifier."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import unicodedata
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.normalizers import BertNormalizer

from sottovoce.core.errors import DataLoss, InvalidInput, NotReady
from sottovoce.core.text.tagger import UPOS, OnnxTagger
from sottovoce.core.text.words import find_identifiers, has_number
from sottovoce.models import vocabulary
from sottovoce.models.cli import main
from sottovoce.models.corpus import load_language
from sottovoce.models.frequencies import (
    LEAST,
    LEAST_ON_DEVICE,
    FrequencyTable,
    count_words,
    cut_to_device,
    load,
)
from tests.support.paths import MODELS

ENGLISH = load_language("en")
SHIPPED = MODELS / "frequencies"

WEB = """# newdoc id = one
1\tCafé\tcafé\tNOUN\tNN\t_\t0\troot\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t1\tx\t_\t_
3\tn't\tnot\tPART\tRB\t_\t1\tx\t_\t_
4\tpay\tpay\tVERB\tVB\t_\t1\tx\t_\t_
5\t£5\t5\tNUM\tCD\t_\t1\tx\t_\t_
6\tjo@example.org\tx\tX\tADD\t_\t1\tx\t_\t_
7\tquokka\tquokka\tNOUN\tNN\t_\t1\tx\t_\t_
8\t.\t.\tPUNCT\t.\t_\t1\tx\t_\t_

"""
MASC = {"tokens": ["the", "cafés", "pay"], "xpos": ["DT", "NNS", "NN"], "doc": "two"}


def pack(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


@pytest.fixture(scope="module")
def tagger() -> OnnxTagger:
    return OnnxTagger.load(MODELS / "tagger")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data")
    pack(data / "ud_ewt" / "train.conllu.gz", WEB * 3)
    pack(data / "pos_masc" / "all.jsonl.gz", json.dumps(MASC) + "\n")
    for name in (
        *("openstax-introduction-anthropology", "openstax-introduction-business"),
        *("openstax-principles-economics-bundle", "us-presidential", "novels-sample"),
    ):
        pack(data / "text" / f"{name}.txt.gz", "The river flows by 4711 houses.\n\n")
    for part in ("test", "valid"):
        pack(data / "text" / f"wikitext2-{part}.txt.gz", " a <unk> of 1 @,@ 000 sheep \n")
    pack(data / "movie_reviews" / "train.tsv.gz", 'text\tlabel\tcv\nthe " river " .\tpos\t1\n')
    pack(data / "wnut17" / "train.jsonl.gz", '{"tokens": ["the", "@jo", "river"]}\n')
    return data


@pytest.fixture(scope="module")
def table(
    data: Path, tagger: OnnxTagger, tmp_path_factory: pytest.TempPathFactory
) -> FrequencyTable:
    return count_words(data, tmp_path_factory.mktemp("out"), tagger, ENGLISH)


def test_counts_treebanks_with_the_tags_people_gave(table: FrequencyTable) -> None:
    assert table.count("pay", "VERB") == 3
    assert table.count("pay", "NOUN") == 1
    assert table.count("n't", "PART", clitic=True) == 3
    assert table.count("n't", "PART") == 0


def test_counts_text_with_the_tags_of_the_tagger(table: FrequencyTable) -> None:
    assert table.count("river", "NOUN") == 7
    assert table.count("the", "DET") == 8
    assert table.words.count("river") == 1


def test_words_are_in_normal_form(table: FrequencyTable) -> None:
    assert table.count("cafe", "NOUN") == 3
    assert "café" not in table.words


def test_leaves_out_rare_words_identifiers_and_punctuation(table: FrequencyTable) -> None:
    assert not {"cafes", "@jo", "jo@example.org", "£5", "4711", ".", '"', "unk"} & set(table.words)
    assert table.left_out["NOUN"] >= 1  # "cafés"


def test_every_word_read_is_counted_or_left_out(
    data: Path, tagger: OnnxTagger, tmp_path: Path
) -> None:
    table = count_words(data, tmp_path, tagger, ENGLISH)
    sources = json.loads((tmp_path / "totals.json").read_text())["sources"]
    total = sum(source["words"] for source in sources.values())
    assert table.counts.sum() + sum(table.left_out.values()) == total
    assert sources["ud_ewt"]["words"] == 3 * 5
    assert sources["wikitext2"]["words"] == 2 * 3


def test_the_same_data_gives_the_same_bytes(data: Path, tagger: OnnxTagger, tmp_path: Path) -> None:
    for name in ("a", "b"):
        count_words(data, tmp_path / name, tagger, ENGLISH)
    for file in ("words.tsv.gz", "totals.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_long_sources_are_sampled(
    data: Path, tagger: OnnxTagger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.models.frequencies.MOST_WORDS", 6)
    count_words(data, tmp_path, tagger, ENGLISH)
    sources = json.loads((tmp_path / "totals.json").read_text())["sources"]
    assert sources["openstax"] == {"words": 5, "every": 3}
    assert sources["novels-sample"]["every"] == 1


def test_reports_each_source(data: Path, tagger: OnnxTagger, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    count_words(data, tmp_path, tagger, ENGLISH, lambda *now: seen.append(now))
    assert [done for _, done, _ in seen] == list(range(9))
    assert {total for _, _, total in seen} == {8}
    assert seen[0][0] == "ud_ewt"


def test_missing_text_names_the_option(tagger: OnnxTagger, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--data"):
        count_words(tmp_path, tmp_path / "out", tagger, ENGLISH)


def test_a_missing_table_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="sotto-models count-words"):
        load(tmp_path)


def test_a_damaged_table_is_refused(tmp_path: Path) -> None:
    for file in ("words.tsv.gz", "totals.json"):
        (tmp_path / file).write_bytes((SHIPPED / file).read_bytes())
    whole = (tmp_path / "words.tsv.gz").read_bytes()
    (tmp_path / "words.tsv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataLoss, match="count-words"):
        load(tmp_path)


def _long_known(character: str) -> bool:
    """Python and the tokenizer have tables of different versions of Unicode, and agree on what has
    not changed since an old one."""
    return unicodedata.ucd_3_2_0.category(character) == unicodedata.category(character)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs", "Cn", "Co")).filter(_long_known)))
def test_normal_form_is_that_of_the_default_tokenizer(word: str) -> None:
    bert = BertNormalizer(
        clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=True
    )
    assert ENGLISH.normal_form(word) == bert.normalize_str(word.replace("’", "'"))


@pytest.fixture(scope="module")
def shipped() -> FrequencyTable:
    return load(SHIPPED)


def test_shipped_table_is_small_and_sorted(shipped: FrequencyTable) -> None:
    assert (SHIPPED / "words.tsv.gz").stat().st_size < 700_000
    keys = list(
        zip(shipped.words, shipped.clitics, [UPOS[tag] for tag in shipped.tags], strict=True)
    )
    assert len(set(keys)) == len(keys)
    assert all(a <= b for a, b in itertools.pairwise(shipped.words))


def test_shipped_table_holds_no_identifier_and_no_rare_word(shipped: FrequencyTable) -> None:
    words = {word for word in set(shipped.words) if find_identifiers(word) or has_number(word)}
    assert all(re.fullmatch(r"(\w\.)+\w?", word) for word in words), "but for abbreviations"
    totals: dict[tuple[str, bool], int] = {}
    for word, clitic, count in zip(shipped.words, shipped.clitics, shipped.counts, strict=True):
        totals[word, clitic] = totals.get((word, clitic), 0) + count
    assert min(totals.values()) >= LEAST


def test_shipped_counts_look_like_english(shipped: FrequencyTable) -> None:
    commonest = {}
    for tag in ("DET", "ADP", "PRON", "CCONJ", "AUX"):
        chosen = (shipped.tags == UPOS.index(tag)) & ~shipped.clitics
        commonest[tag] = shipped.words[int(np.argmax(np.where(chosen, shipped.counts, 0)))]
    assert commonest["DET"] == "the"
    assert commonest["ADP"] == "of"
    assert commonest["CCONJ"] == "and"
    assert commonest["PRON"] in ("i", "it", "you", "he")
    assert commonest["AUX"] in ("is", "was", "be")
    assert shipped.count("n't", "PART", clitic=True) > 1_000
    assert shipped.count("'s", "PART", clitic=True) > 1_000


def _by_word(lines: str) -> dict[str, str]:
    parts = (part.split("\n") for part in lines.split("\t")[1:])
    return {word: reading for reading, *words in parts for word in words if word}


def test_the_shipped_lists_are_up_to_date(
    shipped_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the list for longer bundles one letter is read again: all would take a minute."""
    order = [*map(ENGLISH.normal_form, vocabulary.load_order(shipped_models))]
    one_letter = tuple(word for word in order if word.startswith("m"))
    monkeypatch.setattr(vocabulary, "load_order", lambda _: one_letter)
    command = ["device-counts", "--models", str(shipped_models), "--out", str(tmp_path)]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    more = resources.files("sottovoce.core.text") / "more_readings.en.tsv"
    every, some = _by_word(more.read_text()), _by_word((tmp_path / more.name).read_text())
    assert every.keys() < {*order}
    compared = sorted({*some, *(word for word in every if word.startswith("m"))})
    assert len(compared) > 4_000
    # The tagger reads words in a row. So the first and the last have other neighbours here.
    for word in compared[9:-9]:
        assert some.get(word) == every.get(word), word
    for name in ("counts.en.tsv.gz", "readings.en.tsv.gz"):
        shipped = resources.files("sottovoce.core.text") / name
        made = (tmp_path / name).read_bytes()
        # Compressed by whichever zlib there is.
        assert gzip.decompress(made) == gzip.decompress(shipped.read_bytes()), name


def test_common_words_keep_all_their_tags_and_rare_ones_are_one_number() -> None:
    rows = [
        ("march", False, "NOUN", LEAST_ON_DEVICE - 1),
        ("march", False, "PROPN", 1),
        ("rare", False, "NOUN", 7),
        ("rarer", False, "NOUN", 2),
        ("rarer", False, "VERB", 1),
        ("'s", True, "AUX", LEAST_ON_DEVICE),
        ("'s", False, "NOUN", 2),
    ]
    words, clitics, tags, counts = zip(*rows, strict=True)
    places = np.array([UPOS.index(tag) for tag in tags], np.uint8)
    table = FrequencyTable(words, np.array(clitics), places, np.array(counts), {})
    found = cut_to_device(table, {"ill": "FACT", "german": "ORIGIN"})
    assert found.words == ("march", "march", "'s")
    assert found.clitics.tolist() == [False, False, True]
    assert found.counts.tolist() == [LEAST_ON_DEVICE - 1, 1, LEAST_ON_DEVICE]
    assert found.tail == pytest.approx((7 + 3 + 2) / 3)
    assert found.rare == 3
    # Six words that the counts lack share the occurrences of three.
    assert [found.tail_of(n) * n for n in (3, 6)] == pytest.approx([12, 12])
    assert found.tail_of(1) == found.tail
    assert list(found.listed) == ["german", "ill"]
