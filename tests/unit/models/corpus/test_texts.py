"""Both treebanks come out in one form, and an ambiguous Penn tag keeps all it may mean."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.models import corpus
from sottovoce.models.corpus import (
    ANY,
    TAG_ID,
    Sentence,
    cut,
    passages,
    read_conllu,
    read_masc,
)

WEB = """# newdoc id = one
# text = It rains in May.
1\tIt\tit\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\trains\train\tVERB\tVBZ\t_\t0\troot\t_\t_
3\tin\tin\tADP\tIN\t_\t4\tcase\t_\t_
3.1\tleft\tleave\tVERB\tVBD\t_\t_\t_\t_\t_
4\tMay\tMay\tPROPN\tNNP\t_\t2\tobl\t_\t_
5\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

# newdoc id = two
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVB\t_\t0\troot\t_\t_
2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
3\tif\tif\tSCONJ\tIN\t_\t1\tmark\t_\t_
4\tif\tif\tSCONJ\tIN\t_\t1\tmark\t_\t_
5\tif\tif\tSCONJ\tIN\t_\t1\tmark\t_\t_
"""


def packed(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()))
    return path


def bits(*tags: str) -> int:
    return sum(1 << TAG_ID[tag] for tag in tags)


CONTRACTED = """1-2\tIm\t_\t_\t_\t_\t_\t_\t_\t_
1\tIn\tin\tADP\t_\t_\t_\t_\t_\t_
2\tdem\tder\tDET\t_\t_\t_\t_\t_\t_
3\tHaus\tHaus\tNOUN\t_\t_\t_\t_\t_\t_
4-5\tzum\t_\t_\t_\t_\t_\t_\t_\t_
4\tzu\tzu\tADP\t_\t_\t_\t_\t_\t_
5\tdem\tder\tDET\t_\t_\t_\t_\t_\t_
"""


def test_contractions_that_are_more_than_their_words_are_one_word(tmp_path: Path) -> None:
    plain = tmp_path / "de.conllu"
    plain.write_text(CONTRACTED, encoding="utf-8")
    (sentence,) = read_conllu(plain)
    assert sentence.words == ("Im", "Haus", "zum")
    assert sentence.allowed == (bits("ADP"), bits("NOUN"), bits("ADP"))


def test_reads_words_tags_and_documents(tmp_path: Path) -> None:
    first, second = read_conllu(packed(tmp_path / "web.gz", WEB))
    assert first.words == ("It", "rains", "in", "May", ".")
    assert first.allowed == tuple(map(bits, ("PRON", "VERB", "ADP", "PROPN", "PUNCT")))
    assert second.words[:2] == ("do", "n't")
    assert (first.document, second.document) == ("one", "two")


def test_an_ambiguous_tag_allows_what_the_other_treebank_shows(tmp_path: Path) -> None:
    web = packed(tmp_path / "web.gz", WEB)
    entry = {"tokens": ["If", "under", "to", "(", "wow"], "xpos": ["IN", "IN", "TO", "(", "?"]}
    masc = packed(tmp_path / "masc.gz", json.dumps(entry | {"doc": "three"}) + "\n")
    (sentence,) = read_masc(masc, web)
    assert sentence.allowed == (
        bits("SCONJ"),  # this word was seen often enough by itself
        bits("ADP", "SCONJ"),
        bits("PART", "ADP"),
        bits("PUNCT"),
        ANY,
    )


def test_a_missing_treebank_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--data"):
        read_conllu(tmp_path / "none.gz")


TREE = "1\tHaus\t_\tNOUN\t_\t_\t_\t_\t_\t_\n\n"


def test_any_folder_with_treebanks_and_texts_will_do(tmp_path: Path) -> None:
    (tmp_path / "news").mkdir()
    (tmp_path / "a.conllu").write_text(TREE, encoding="utf-8")
    (tmp_path / "news" / "b.conllu.gz").write_bytes(gzip.compress(TREE.encode()))
    (tmp_path / "c.txt").write_text("Ein Absatz.\n\n  Noch einer. \n", encoding="utf-8")
    (tmp_path / "news" / "d.txt.gz").write_bytes(gzip.compress("Schön.\n".encode()))
    (tmp_path / "notes.md").write_text("not read", encoding="utf-8")

    found = corpus.find(tmp_path)

    assert list(found.treebanks) == ["a", "news/b"]
    assert list(found.texts) == ["c", "news/d"]
    for read in found.treebanks.values():
        assert [sentence.words for sentence in read()] == [("Haus",)]
    assert found.texts["c"]() == ["Ein Absatz.", "Noch einer."]
    assert found.texts["news/d"]() == ["Schön."]


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--data"):
        corpus.find(tmp_path)


def test_a_missing_part_of_the_shipped_tables_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "ud_ewt").mkdir()
    found = corpus.find(tmp_path)
    assert len(found.treebanks) == 2
    with pytest.raises(InvalidInput, match="us-presidential"):
        found.texts["us-presidential"]()


NOUN, PROPN, PUNCT, NUM = (1 << TAG_ID[tag] for tag in ("NOUN", "PROPN", "PUNCT", "NUM"))
MESSAGE = Sentence(
    ("Mr.", "Bo", "met", "42", "Gore-", "."), (PROPN, NOUN, 1, NUM, PROPN, PUNCT), ""
)


def test_cuts_words_as_the_device_does() -> None:
    assert cut("Mr.", PROPN) == [("Mr", PROPN), (".", PUNCT)]
    assert cut("plain", NOUN) == [("plain", NOUN)]
    assert cut(":-)", PUNCT) == [(":-)", PUNCT)]


def test_every_sentence_comes_once_in_order_and_documents_stay_apart() -> None:
    letters = [chr(ord("a") + i) for i in range(20)]
    sentences = [Sentence((c,), (NOUN,), f"d{i // 5}") for i, c in enumerate(letters)]
    found = list(passages(sentences, np.random.default_rng(1)))
    assert [word.lower() for passage in found for word in passage.words] == letters
    assert all(len(passage.words) <= 5 for passage in found)
    assert len({len(passage.words) for passage in found}) > 2


@pytest.fixture(scope="module")
def changed() -> list[Sentence]:
    random = np.random.default_rng(2)
    return [next(passages([MESSAGE], random)) for _ in range(500)]


def test_words_and_tags_stay_together(changed: list[Sentence]) -> None:
    for sentence in changed:
        assert len(sentence.words) == len(sentence.allowed)
        meaning = dict(zip((w.lower() for w in sentence.words), sentence.allowed, strict=True))
        assert meaning["bo"] == NOUN
        assert meaning.get(".", PUNCT) == PUNCT


def test_each_change_occurs_and_none_always(changed: list[Sentence]) -> None:
    changes = {
        "cut": lambda words: "Mr." not in words and "mr." not in words and "MR." not in words,
        "small": lambda words: "bo" in words,
        "large": lambda words: "BO" in words,
        "no full stop": lambda words: words[-1] != ".",
        "other number": lambda words: "42" not in words,
    }
    for name, occurred in changes.items():
        count = sum(map(occurred, (sentence.words for sentence in changed)))
        assert 0 < count < len(changed), name
