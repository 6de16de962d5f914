"""Both treebanks come out in one form, and an ambiguous Penn tag keeps all it may mean."""

import gzip
import json
from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.models.corpus.treebanks import ANY, TAG_ID, read_conllu, read_masc

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
