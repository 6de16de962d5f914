"""Text of every kind becomes clean sentences, each once."""

import gzip
import json
from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.models.denoiser import corpus
from tests.support.shared_data import shared_data


def test_reads_paragraphs_columns_objects_and_treebanks(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(
        'The first sentence ends. The "second" one asks? 1914 began well.\n\n'
        "Another paragraph here.\n"
    )
    (tmp_path / "b.tsv").write_text("label\ttext\n1\tA row of text.\n")
    lines = [{"text": "An object with text."}, {"tokens": ["Tokens", "do", "n't", "stay", "."]}]
    with gzip.open(tmp_path / "c.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "d.conllu").write_text("# text = From a treebank.\n1\tFrom\n\n")

    found = corpus.read([tmp_path / name for name in ("a.txt", "b.tsv", "c.jsonl.gz", "d.conllu")])
    assert found == [
        ["The first sentence ends.", 'The "second" one asks?', "1914 began well."],
        ["Another paragraph here."],
        ["A row of text."],
        ["An object with text."],
        ["Tokens don't stay."],
        ["From a treebank."],
    ]


def test_marks_of_tokenised_corpora_and_lines_without_words_go(tmp_path: Path) -> None:
    file = tmp_path / "wiki.txt"
    file.write_text(" = A heading = \n In 1 @,@ 000 <unk> houses , they lived .\n***\n- 3 -\n")
    assert corpus.read([file]) == [["In 1,000 houses, they lived."]]


def test_a_sentence_met_twice_is_kept_once(tmp_path: Path) -> None:
    file = tmp_path / "twice.txt"
    file.write_text("Said once before. New in this one.\nSaid once before.\n")
    assert corpus.read([file, file]) == [["Said once before.", "New in this one."]]


def test_passages_hold_every_sentence_and_are_the_same_each_time() -> None:
    documents = [[f"Sentence {i} of document {d}." for i in range(9)] for d in range(40)]
    found = corpus.passages(documents)

    assert found == corpus.passages(documents)
    assert found != corpus.passages(documents, seed=1)
    assert sum(passage.count("Sentence") for passage in found) == 360
    assert any(passage.count("Sentence") > 1 for passage in found)


@pytest.mark.parametrize("name", ["absent.txt", "picture.png", "empty.txt"])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    if name != "absent.txt":
        (tmp_path / name).write_text("\n")
    with pytest.raises(InvalidInput) as caught:
        corpus.read([tmp_path / name])
    assert caught.value.subject == "data"
    assert caught.value.fix


def test_the_default_set_is_there_and_holds_nothing_that_may_not_train() -> None:
    shared_data(*corpus.USABLE)
    assert not any(name.startswith(("sst2", "cola", "mrpc", "rte")) for name in corpus.USABLE)
