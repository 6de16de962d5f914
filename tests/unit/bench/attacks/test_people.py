"""Texts are traced to candidates by rare words, and a candidate's own name can be cut out."""

import gzip
import json
from pathlib import Path

from bench.attacks.people import nearest, subjects


def test_the_candidate_who_shares_rare_words_is_found() -> None:
    known = ["the cat and the dog", "the kiln and the glaze", "the sail and the mast"]
    asked = ["and the mast broke", "the glaze and a cat in the kiln"]
    assert nearest(asked, known, [7, 8, 9]) == [9, 8]


def test_persons_of_several_sentences_are_candidates(tmp_path: Path) -> None:
    named = ("Ada", "Birch")
    rows = [
        (["Then", *named, "sang", "."], "O B-PER I-PER O O"),
        (["Oslo", "heard", *named, "."], "B-LOC O B-PER I-PER O"),
        (["Cy", "Fern", "left", "."], "B-PER I-PER O O"),
        (["Dee", "left", "."], "B-PER O O"),
        (["Dee", "came", "."], "B-PER O O"),
    ]
    lines = [json.dumps({"tokens": words, "ner_tags": tags.split()}) for words, tags in rows]
    for file, some in (("wikigold/all", lines[:1]), ("crossner/train", lines[1:])):
        path = tmp_path / f"{file}.jsonl.gz"
        path.parent.mkdir()
        path.write_bytes(gzip.compress("\n".join(some).encode()))
    found = subjects(tmp_path)
    assert (found.asked, found.known) == (["Then Ada Birch sang ."], ["Oslo heard Ada Birch ."])
    assert found.who == found.whose == [0]
    assert found.without_names() == ["Then  sang ."]
