"""`sotto correct`: kept with a daemon and without one, and taught when the owner says so."""

from __future__ import annotations

from collections import Counter

import pytest

from sottovoce.edge.cli import predict
from tests.support.agent import running
from tests.support.openai_endpoint import entered
from tests.support.stub_cloud import StubCloud
from tests.support.waiting import until

from .conftest import Device

ROWS = ["the river in the garden\twet", "the stone in the garden\tdry"] * 5
RIVER, STONE = "the stone by the river", "the river by the stone"
PAIRS = [
    (f"{text}{' the' * n}", label)
    for text, label in ((RIVER, "wet"), (STONE, "dry"))
    for n in range(5)
]
TAUGHT = ("customize", "desk", "--add", "--corrections")


@pytest.fixture
def trained(linked: Device) -> Device:
    with running(linked.config):
        linked.sotto("customize", "desk", "--input", _table(linked, ROWS), "--level", "light")
    return linked


def _table(device: Device, rows: list[str]) -> str:
    file = device.folder / "rows.tsv"
    file.write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    return str(file)


def _shown(device: Device) -> list[tuple[str, str]]:
    (told,) = device.json("corrections", "desk", "--show")
    return [(each["text"], each["label"]) for each in told["corrections"]]


def test_they_are_kept_shown_and_taught_once(trained: Device, cloud: StubCloud) -> None:
    before = trained.json("ledger")
    with running(trained.config):
        said = trained.sotto("correct", "desk", RIVER, "wett", code=2).stderr
        assert "did you mean 'wet'? it has: dry, wet" in said
        assert trained.json("correct", "desk", RIVER, "dry") == [
            {"adapter": "desk", "kept": 1, "waiting": 1}
        ]
    said = trained.sotto("correct", "desk", RIVER, "wet").stdout  # and with no agent running
    assert "1 correction of desk wait: `sotto customize desk --add --corrections`" in said
    rows = "\n".join(f"{text}\t{label}" for text, label in PAIRS)
    with running(trained.config):
        (told,) = trained.json("correct", "desk", stdin=f"text\tlabel\n{rows}\n")
        assert told == {"adapter": "desk", "kept": 10, "waiting": 10}
        assert trained.json("ledger") == before
        assert len(cloud.jobs) == 1  # nothing has left
        assert _shown(trained) == PAIRS
        (told,) = trained.json("show", "desk")
        assert told["corrections"] == {"waiting": 10, "taken": 0}
        assert "10 wait, 0 in training" in trained.sotto("show", "desk").stdout
        (listed,) = trained.json("list")[0]["adapters"]
        assert listed["corrections"] == {"waiting": 10, "taken": 0}
        head, row = trained.sotto("list").stdout.splitlines()
        assert row[head.index("CORRECTIONS") :].split()[0] == "10"
        page = entered(trained.json("ui")[0]["url"])
        assert page.ask("/api/overview").json["adapters"][0]["corrections"] == 10
        (done,) = trained.json(*TAUGHT)
        assert (done["state"], done["examples"], done["waiting"]) == ("ready", 10, 0)
        assert "no corrections of 'desk' wait" in trained.sotto(*TAUGHT, code=3).stderr
        assert trained.json("status")[0]["corrections"] == []
    assert Counter(e.released_text for e in cloud.examples(1)) == Counter(
        text
        for text, _ in PAIRS  # at a level that moves no word
    )
    assert "corrections" not in trained.sotto("show", "desk").stdout.replace("`", "")


def test_the_same_command_waits_for_what_it_began_and_takes_nothing_twice(
    trained: Device, cloud: StubCloud
) -> None:
    table = _table(trained, [f"{text}\t{label}" for text, label in PAIRS])
    both = (*TAUGHT, "--input", table)
    with running(trained.config):
        trained.sotto("correct", "desk", "--input", table)
        cloud.may_train.clear()
        (begun,) = trained.json(*both, "--no-watch")
        until(lambda: trained.json("list")[0]["adapters"][0]["state"] == "training")
        assert "0 of desk wait, 10 in training" in trained.sotto("corrections", "desk").stdout
        trained.sotto("correct", "desk", "the pond", "wet")  # for the next time
        (again,) = trained.json(*both, "--no-watch")
        assert (again["id"], begun["waiting"], again["waiting"]) == (begun["id"], 0, 1)
        said = trained.sotto(*both, "--no-watch").stderr
        assert "1 correction of desk wait: repeat the command when this has ended" in said
        trained.sotto("correct", "desk", "the garden", "wet")
        assert "2 corrections of desk wait" in trained.sotto(*both, "--no-watch").stderr
        trained.sotto("corrections", "desk", "--forget", "--text", "the garden")
        cloud.may_train.set()
        until(lambda: not trained.json("corrections", "desk")[0]["taken"])
        (told,) = trained.json("show", "desk")
        assert (told["present"], told["versions"][0]["examples"]) == (begun["id"], 20)
        assert len(cloud.jobs) == 2
        assert _shown(trained) == [("the pond", "wet")]


def test_lines_of_one_label_come_by_stdin(trained: Device) -> None:
    trained.sotto("correct", "desk", "-", "dry", stdin="the pond\r\n\nthe garden\n")
    assert _shown(trained) == [("the pond", "dry"), ("the garden", "dry")]


def test_more_than_a_message_holds_is_kept_and_what_stops_it_named(
    trained: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "_LARGEST", 100)
    rows = [f"{text}\t{label}" for text, label in PAIRS]
    with running(trained.config):
        said = trained.sotto(
            "correct",
            "desk",
            stdin="\n".join(["text\tlabel", *rows, "the pond\tblue"]) + "\n",
            code=2,
        ).stderr
        kept = len(_shown(trained))
        assert 0 < kept <= 10
        assert f"after {kept} that are kept: example 1: the adapter has no label 'blue'" in said
        trained.sotto("correct", "desk", "--input", _table(trained, rows))
        assert sorted(_shown(trained)) == sorted(PAIRS)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["correct", "desk", RIVER], 2, "a text without its label"),
        (["correct", "desk", RIVER, "wet", "--input", "x.tsv"], 2, "both TEXT and --input"),
        (["correct", "desk", " ", "wet"], 2, "the text is empty"),
        (["correct", "none", RIVER, "wet"], 4, "no such adapter"),
        (["corrections", "none"], 4, "no adapter 'none'"),
        (["corrections", "none", "--show"], 4, "no adapter 'none'"),
        (["corrections", "desk", "--forget"], 2, "add --yes"),
        (["corrections", "desk", "--text", RIVER], 2, "--text without --forget"),
        (["corrections", "desk", "--forget", "--show"], 2, "--show together with --forget"),
        (["customize", "desk", "--corrections"], 2, "ask for add too"),
        (["customize", "desk", "--add"], 2, "--input"),
    ],
)
def test_what_is_wrong_is_said(trained: Device, arguments: list[str], code: int, said: str) -> None:
    with running(trained.config):
        assert said in trained.sotto(*arguments, code=code).stderr


def test_they_are_forgotten_one_or_all_and_with_the_adapter(trained: Device) -> None:
    table = _table(trained, [f"{text}\t{label}" for text, label in PAIRS])
    for over in (True, False):
        trained.sotto("correct", "desk", "--input", table)
        asked = ("corrections", "desk", "--forget")
        if over:
            with running(trained.config):
                forgotten = trained.json(*asked, "--text", PAIRS[0][0])
        else:
            forgotten = trained.json(*asked, "--text", PAIRS[0][0])
        assert forgotten == [{"adapter": "desk", "forgotten": 1}]
        assert _shown(trained) == PAIRS[1:]
        assert "forgot 9 of desk" in trained.sotto(*asked, "--yes").stdout
        assert _shown(trained) == []
    trained.sotto("correct", "desk", "--input", table)
    with running(trained.config):
        trained.sotto("rm", "desk", "--yes")
        assert trained.json("status")[0]["corrections"] == []


def test_what_is_shown_is_a_table_again(trained: Device) -> None:
    trained.sotto("correct", "desk", "one\ttab and\nline", "wet")
    table = trained.sotto("corrections", "desk", "--show").stdout
    assert table == "text\tlabel\none tab and line\twet\n"
    trained.sotto("corrections", "desk", "--forget", "--yes")
    trained.sotto("correct", "desk", stdin=table)
    assert _shown(trained) == [("one tab and line", "wet")]
