"""What policies change and let stand is counted word by word, on the sets that are there."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from bench import prompts
from bench.fetch.synthetic import synthetic
from bench.marked import OTHER_WORDS, Document, Span
from bench.presidio import Presidio, PresidioError
from bench.prompts import Leaks, Released, Word
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
    given += ("--out", str(tmp_path / "out"))
    prompts.main([*given, "--json"])
    told = capsys.readouterr()
    figures = json.loads(told.out)["columns"]["names"]
    assert figures["leaks"].keys() == {"synthetic"}
    assert figures["turns"].keys() == figures["damage"].keys() == {"written", "asked"}
    assert "prompts/marked" in told.err
    assert "pii" in told.err
    prompts.main(given)
    shown = capsys.readouterr().out
    assert "written prompts" in shown
    assert " marked prompts" not in shown


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


def released(text: str, *changed: str) -> Released:
    """Return words at single spaces, without punctuation; words in ``changed`` were replaced."""
    words, start = [], 0
    for word in text.split(" "):
        end = start + len(word)
        if any(map(str.isalnum, word)):
            words.append(Word(start, end, word not in changed))
        start = end + 1
    return Released(not changed, tuple(words))


def counted(text: str, span: str, *changed: str, group: str = "organisations") -> Leaks:
    start = text.index(span)
    document = Document(text, (Span(start, start + len(span), group),))
    return prompts.leaks([document], [released(text, *changed)])


def shares(leaks: Leaks, group: str = "organisations") -> tuple[int, int, int, int]:
    spans, words = leaks.spans[group], leaks.words[group]
    return (*spans.hits, *spans.n, *words.hits, *words.n)


def test_a_span_stands_if_all_its_words_do() -> None:
    whole = counted("at Qorvex Kettleworks now", "Qorvex Kettleworks")
    assert shares(whole) == (1, 1, 2, 2)
    assert whole.examples == {"organisations": ["Qorvex Kettleworks"]}
    part = counted("at Qorvex Kettleworks now", "Qorvex Kettleworks", "Qorvex")
    assert shares(part) == (0, 1, 1, 2)


def test_function_words_hide_and_save_nothing() -> None:
    text = "the Vendrell of the Kettlemoor , Ltd"
    assert shares(counted(text, text, "Vendrell", "Kettlemoor", "Ltd")) == (0, 1, 0, 3)
    assert shares(counted(text, text, "of", "the")) == (1, 1, 3, 3)
    alone = counted("we moved to on last year", "on", group="persons")
    assert shares(alone, "persons") == (1, 1, 1, 1)


def test_a_word_that_only_touches_a_span_counts() -> None:
    document = Document("in NewKettlemoor", (Span(3, 6, "persons"),))
    assert shares(prompts.leaks([document], [released(document.text)]), "persons") == (1, 1, 1, 1)


def test_other_words_count_one_by_one_function_words_too() -> None:
    text = "the kettle of course"
    document = Document(text, tuple(Span(a, b, OTHER_WORDS) for a, b in [(0, 3), (4, 10)]))
    found = prompts.leaks([document], [released(text, "kettle")])
    assert shares(found, OTHER_WORDS) == (1, 2, 1, 2)


def test_damage_is_counted_by_the_kind_that_was_marked() -> None:
    text = "ask Vendrell about Frobnix tariffs"
    marks = (Span(4, 12, "PERSON"), Span(19, 26, "PRODUCT"))
    found = prompts.damage(
        [Document(text, marks), Document("ask about tariffs", ())],
        [released(text, "Vendrell", "Frobnix"), released("ask about tariffs")],
    )
    rates = {kind: (sum(rate.hits), sum(rate.n)) for kind, rate in found.words.items()}
    assert rates == {"unmarked": (0, 6), "PERSON": (1, 1), "PRODUCT": (1, 1)}
    assert (found.turns.hits, found.turns.n) == ([1], [1])
    assert found.examples == ["PRODUCT=Frobnix"]


def test_where_presidio_is_not_installed_it_is_said_how() -> None:
    with pytest.raises(PresidioError, match="pip install presidio-analyzer"):
        Presidio(Path(sys.executable), "").find(["A text."])


def test_presidio_finds_what_its_worker_says(tmp_path: Path) -> None:
    stub = tmp_path / "python"  # answers as the worker does
    stub.write_text("#!/bin/sh\necho '[[5, 9]]'\necho '[]'\n", encoding="utf-8")
    stub.chmod(0o755)
    texts = ["Call 117-4471 today", "The kettle"]
    first, second = prompts._by_presidio(Presidio(stub, ""), (), texts)
    assert not first.as_typed
    assert [texts[0][w.start : w.end] for w in first.words if not w.stands] == ["117-4471"]
    assert second == Released(True, (Word(0, 3, True), Word(4, 10, True)))
