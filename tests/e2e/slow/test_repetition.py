"""Repetition tells nothing new: copies, a killed agent, another name, another key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.live.testbed import Agent
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.words import Context, split
from tests.support.copies import COPIES, copies

MESSAGE = (
    "The nurse told my brother that the kitchen of the old clinic was flooded . "
    "We carried every chair and table into the garden before the evening train left . "
    "Could somebody look after the heating and write a letter to our landlord ?"
)
OPTIONS = ("--mechanism", "t2t.v1", "--json")  # where any listed word may become any other


def _released(agent: Agent, texts: list[str], level: str = "balanced") -> list[dict[str, Any]]:
    # White space at the end of a line is the line's own; within it, nothing is a line's end.
    lines = "".join(text.replace("\n", " ") + "\n" for text in texts)
    out = agent.run("privatize", "--level", level, *OPTIONS, stdin=lines.encode())
    return [json.loads(line) for line in out.splitlines()]


def _spent(agent: Agent) -> tuple[float, int]:
    ledger = json.loads(agent.run("status", "--json").splitlines()[-1])["ledger"]
    return ledger["spent"], ledger["releases"]


def test_what_is_said_again_tells_nothing_new(alone: Agent, bundle_folder: Path) -> None:
    agent = alone
    bundle = Bundle.open(bundle_folder)
    texts = [MESSAGE, *copies(MESSAGE)]
    answers = _released(agent, texts)
    _check_copies(answers, [text.replace("\n", " ") for text in texts], bundle)
    spent = _spent(agent)
    assert spent[1] == len({text.replace("\n", " ") for text in texts})

    # The same again, by another agent over the same state, after a kill: the same, for nothing.
    agent.kill()
    assert _released(agent, texts) == answers
    agent.start()
    assert _released(agent, texts) == answers
    assert _spent(agent) == spent

    # Another strength is another draw, and so is another key; each is charged.
    strong = _released(agent, [MESSAGE], "strong")
    agent.run("rotate-key")
    again = _released(agent, [MESSAGE], "strong")
    assert again[0]["text"] != strong[0]["text"]
    assert _spent(agent)[1] == spent[1] + 2


def _check_copies(answers: list[dict[str, Any]], texts: list[str], bundle: Bundle) -> None:
    """A word with noise comes out as the same word wherever it follows the same word."""
    vectors = Vectors(bundle)
    out: dict[tuple[str, str], set[str]] = {}
    copied = 0
    for answer, text in zip(answers, texts, strict=True):
        words = split(text, bundle.manifest.clitics)
        forms = [vectors.normal_form(word.text) for word in words]
        before = Context().before(words, forms)
        for word, form, left in zip(answer["words"], forms, before, strict=True):
            released = answer["text"][word["released_start"] : word["released_end"]].lower()
            noised = word.get("treatment", "NOISE") == "NOISE"
            if word["protected"] and noised and form in bundle.word_ids:
                copied += (form, left) in out
                out.setdefault((form, left), set()).add(released)
    assert copied > COPIES * 20
    assert {pair: found for pair, found in out.items() if len(found) > 1} == {}
    kept = sum(found == {form} for (form, _), found in out.items())
    assert 0 < kept < len(out)
