"""What policies change in prompts is measured on the sets that are there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench import prompts
from bench.fetch.synthetic import synthetic
from sottovoce.models.context_finder.sentences import read_written


def test_what_nobody_else_can_get_is_left_out_and_named(
    small_bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"id": "p-0", "turns": ["How do I sort a list?"]}
    made = b"".join(synthetic(1).splitlines(keepends=True)[:5])
    for name, data in (
        ("prompts/vicuna.jsonl.gz", json.dumps(row).encode()),
        ("prompts/arena_hard_v2.jsonl.gz", json.dumps(row).encode()),
        ("synthetic/dev.jsonl.gz", made),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(data))
    given = ("--data", str(tmp_path), "--bundle", str(small_bundle_folder), "--columns", "names")
    prompts.main([*given, "--json"])
    told = capsys.readouterr()
    figures = json.loads(told.out)["names"]
    assert figures["leaks"].keys() == {"synthetic"}
    assert figures["turns"].keys() == figures["damage"].keys() == {"written"}
    assert "prompts/marked" in told.err
    assert "pii" in told.err
    prompts.main(given)
    shown = capsys.readouterr().out
    assert ": written prompts" in shown
    assert ": marked prompts" not in shown


def test_prompts_of_our_own_are_none_that_the_finder_learned_from() -> None:
    lines = {line.lower() for document in prompts.written() for line in document.text.splitlines()}
    lines = {line for line in lines if len(line.split()) > 2}  # "Kind regards," is everybody's
    learned = {
        line.lower()
        for text in read_written()
        for line in "".join(
            ("" if word.clitic else " ") + word.text for word in text.words
        ).splitlines()
    }
    assert len(lines) > 390
    assert not set(map(_letters, lines)) & set(map(_letters, learned)) - {""}
    kinds = {span.group for document in prompts.written() for span in document.spans}
    assert kinds == {"PERSON", "PLACE", "ORG", "PRODUCT"}


def _letters(line: str) -> str:
    return "".join(filter(str.isalpha, line))
