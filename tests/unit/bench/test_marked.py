"""Marked texts are read as they were marked, whatever the data set calls its kinds."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

from bench.fetch.sources import SEED
from bench.fetch.synthetic import synthetic
from bench.marked import FILES, OTHER_WORDS, TWIN, read
from tests.support.shared_data import shared_data


def written(folder: Path, path: str, text: str) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(text.encode()))
    return folder


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def conllu(*sentences: list[tuple[str, str, str]]) -> str:
    rows = []
    for sentence in sentences:
        rows.append("# text = ...\n")
        for number, (form, tag, features) in enumerate(sentence, 1):
            own = "NNP" if form == "United" else "X"
            cells = (str(number), form, form, tag, own, features, "0", "root", "_", "_")
            rows.append("\t".join(cells) + "\n")
        rows.append("\n")
    return "".join(rows)


def marked(name: str, data: Path) -> list[list[tuple[str, str]]]:
    return [
        [(each.text[span.start : span.end], span.group) for span in each.spans]
        for each in read(name, data)
    ]


def test_spans_stay_where_they_are_though_a_text_becomes_one_line(tmp_path: Path) -> None:
    row = {
        "text": "To Bo\nOld Lane 4\r\nLima",
        "spans": [
            {"start": 3, "end": 5, "kind": "PERSON"},
            {"start": 6, "end": 16, "kind": "ADDRESS"},
            {"start": 18, "end": 22, "kind": "LOCATION"},
            {"start": 0, "end": 2, "kind": "SOMETHING"},
        ],
        "template": 1,
    }
    data = written(tmp_path, *FILES["pii"], lines(row))
    assert marked("pii", data) == [
        [("Bo", "persons"), ("Old Lane 4", "addresses"), ("Lima", "places")]
    ]
    assert not any(document.text.splitlines()[1:] for document in read("pii", data))


def test_entities_begin_and_end_as_labelled(tmp_path: Path) -> None:
    tokens = ["Ann", "Bo", "Lee", "of", "Acme", "Ltd", "in", "Rome", "."]
    labels = ["B-PER", "B-PER", "I-PER", "O", "B-ORG", "I-ORG", "O", "B-LOC", "O"]
    data = written(tmp_path, *FILES["uner_ewt"], lines({"tokens": tokens, "ner_tags": labels}))
    (found,) = marked("uner_ewt", data)
    assert found[:2] == [("Ann", "persons"), ("Bo Lee", "persons")]
    assert found[2:] == [("Acme Ltd", "organisations"), ("Rome", "places")]


def test_nationalities_are_the_adjectives_nobody_writes_small(tmp_path: Path) -> None:
    sentences = [
        [("a", "DET", "_"), ("Peruvian", "ADJ", "_"), ("cook", "NOUN", "_"), ("sang", "VERB", "_")],
        [("two", "NUM", "_"), ("Peruvians", "PROPN", "_"), ("sang", "VERB", "_")],
        [("a", "DET", "_"), ("Grand", "ADJ", "_"), ("day", "NOUN", "_"), ("came", "VERB", "_")],
        [("a", "DET", "_"), ("grand", "ADJ", "_"), ("day", "NOUN", "_")],
        [("he", "PRON", "_"), ("is", "AUX", "_"), ("an", "DET", "_"), ("Olympic", "ADJ", "_")],
        [("Big", "ADJ", "_"), ("Horned", "ADJ", "_"), ("Owls", "NOUN", "_")],  # a heading
    ]
    for path in FILES["nationalities"]:
        written(tmp_path, path, conllu(*sentences) if "train" in path else conllu())
    assert marked("nationalities", tmp_path) == [
        [("Peruvian", "nationalities")],
        [("peruvian", "nationalities")],
        [("Peruvians", "nationalities")],
        [("peruvians", "nationalities")],
    ]


def test_other_words_are_neither_names_nor_numbers(tmp_path: Path) -> None:
    sentence = [
        ("The", "DET", "_"),
        ("third", "ADJ", "Degree=Pos|NumType=Ord"),
        ("Ann", "PROPN", "_"),
        ("ate", "VERB", "_"),
        ("4", "NUM", "_"),
        ("United", "ADJ", "_"),
        ("peruvian", "ADJ", "_"),
        ("Peruvian", "ADJ", "_"),
        ("cooks", "NOUN", "_"),
        ("x2", "NOUN", "_"),
        (".", "PUNCT", "_"),
    ]
    often = [("he", "PRON", "_"), ("met", "VERB", "_"), ("Peruvian", "ADJ", "_"), sentence[-3]]
    for path in FILES[OTHER_WORDS]:
        data = written(tmp_path, path, conllu(*([sentence] if "dev" in path else [often] * 9)))
    ((*found,),) = marked(OTHER_WORDS, data)
    assert [text for text, _ in found] == ["The", "ate", "peruvian", "cooks"]


def test_the_data_sets_hold_enough_of_each_group() -> None:
    usual = {name: paths for name, paths in FILES.items() if name != TWIN}
    data = shared_data(*(path for paths in usual.values() for path in paths))
    found: dict[str, int] = {}
    for name in usual:
        for document in read(name, data):
            for span in document.spans:
                assert document.text[span.start : span.end].strip()
                found[span.group] = found.get(span.group, 0) + 1
    assert min(found.values()) >= 100
    assert {"identifiers", "persons", "places", "organisations", "nationalities"} <= found.keys()


def test_the_twin_of_pii_marks_what_pii_marks(tmp_path: Path) -> None:
    data = written(tmp_path, *FILES[TWIN], synthetic(SEED).decode())
    found = Counter(group for spans in marked(TWIN, data) for _, group in spans)
    groups = {"identifiers", "persons", "places", "organisations", "addresses", "dates"}
    assert groups <= found.keys()
    assert min(found.values()) >= 100
