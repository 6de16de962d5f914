"""`sotto distill`: a table of public texts, each with a label that prompts agreed on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.few_shot_server import few_shot_server
from tests.support.upstream_server import Server
from tests.unit.edge.cli.conftest import Device

WORDS = {"wet": "river garden stone", "dry": "doctor"}

FEWEST = 10
"""Of 40 texts the noise lets at least so many be answered, but for once in 100,000 runs."""


@pytest.fixture
def server() -> Iterator[Server]:
    with few_shot_server() as running:
        yield running


def tables(device: Device, examples: int = 160) -> list[str]:
    rows = [
        f"The {WORDS[label]} was there, Zelphira{n}\t{label}"
        for n in range(examples // 2)
        for label in WORDS
    ]
    texts = [f"the {words}\tnow{' the' * n}" for n in range(20) for words in WORDS.values()]
    private, public = device.folder / "rows.tsv", device.folder / "public.txt"
    private.write_text("\n".join(["text\tlabel", *rows]) + "\n")
    public.write_text("\n".join([*texts, "", " "]) + "\n")
    return ["--input", str(private), "--public", str(public)]


def output(device: Device) -> Path:
    return device.folder / "labelled.tsv"


def command(device: Device, server: Server, *more: str) -> list[str]:
    where = ["--output", str(output(device)), "--upstream", server.url]
    return ["distill", *tables(device), *where, "--dp-epsilon", "8", "--dp-few-examples", *more]


def test_a_table_is_written_that_can_be_trained_on(linked: Device, server: Server) -> None:
    said = linked.sotto(*command(linked, server)).stdout
    header, *rows = output(linked).read_text().splitlines()
    assert header == "text\tlabel"
    assert FEWEST <= len(rows) <= 20
    assert f"{len(rows)} of 40 public texts were answered: {output(linked)}" in said
    assert "your 160 examples" in said
    assert "40 teachers" in said
    right = [
        ("doctor" in text) == (label == "dry") for text, label in (r.split("\t") for r in rows)
    ]
    assert sum(right) >= 0.85 * len(rows)
    told = linked.json("ledger")[0]
    assert told["adapters_private"] == 1
    assert server.asked[-1][2]["model"] == "default"
    assert "Zelphira" not in json.dumps([body for _, _, body in server.asked])


def test_json_says_what_holds(linked: Device, server: Server) -> None:
    (told,) = linked.json(*command(linked, server, "--shots", "8", "--model", "some/model"))
    assert told["output"] == str(output(linked))
    assert (told["texts"], told["teachers"]) == (40, 20)
    assert FEWEST <= told["answered"] <= 20
    assert told["mechanism"] == "pate"
    assert 7.8 < told["epsilon"] <= 8
    assert server.asked[0][2]["model"] == "some/model"


def test_what_is_there_is_not_written_over_unless_asked_for(linked: Device, server: Server) -> None:
    output(linked).write_text("mine")
    said = linked.sotto(*command(linked, server), code=2).stderr
    assert "--replace" in said
    assert output(linked).read_text() == "mine"
    assert server.asked == []
    linked.sotto(*command(linked, server, "--replace"))
    assert output(linked).read_text().startswith("text\tlabel\n")


def test_without_a_server_it_says_what_is_needed(linked: Device, server: Server) -> None:
    arguments = command(linked, server)
    at = arguments.index("--upstream")
    said = linked.sotto(*arguments[:at], *arguments[at + 2 :], code=78).stderr
    assert "--upstream http://127.0.0.1:8080/v1" in said


def test_a_place_that_cannot_be_written_costs_nothing(linked: Device, server: Server) -> None:
    arguments = command(linked, server)
    arguments[arguments.index("--output") + 1] = str(linked.folder / "no" / "such.tsv")
    before = linked.json("ledger")
    assert "folder that you may write to" in linked.sotto(*arguments, code=78).stderr
    assert server.asked == []
    assert linked.json("ledger") == before


@pytest.mark.parametrize("which", ["--input", "--public"])
def test_what_is_read_is_not_written_over(linked: Device, server: Server, which: str) -> None:
    arguments = command(linked, server, "--replace")
    source = arguments[arguments.index(which) + 1]
    before = Path(source).read_bytes()
    arguments[arguments.index("--output") + 1] = source
    assert "is what is read" in linked.sotto(*arguments, code=2).stderr
    assert Path(source).read_bytes() == before


def test_the_key_of_another_server_is_not_for_this_one(linked: Device, server: Server) -> None:
    key = linked.folder / "key"
    key.touch(mode=0o600)
    key.write_text("sk-of-the-provider")
    elsewhere = {
        "SOTTO_CHAT_UPSTREAM": "https://llm.example.org/v1",
        "SOTTO_CHAT_KEY_FILE": str(key),
        "SOTTO_CHAT_MODEL": "theirs",
    }
    linked.environment.update(elsewhere)
    linked.sotto(*command(linked, server))
    assert not [headers for _, headers, _ in server.asked if "Authorization" in headers]
    assert {body["model"] for _, _, body in server.asked} == {"default"}
    linked.environment["SOTTO_CHAT_UPSTREAM"] = server.url
    server.asked.clear()
    linked.sotto(*command(linked, server, "--replace"))
    assert {headers["Authorization"] for _, headers, _ in server.asked} == {
        "Bearer sk-of-the-provider"
    }
