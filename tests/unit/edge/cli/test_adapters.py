"""`sotto list`, `show`, `logs`, `cancel`, `rollback`, `rm`, `correct`, `corrections`."""

from __future__ import annotations

from collections import Counter

import pytest

from sottovoce.edge.cli import predict
from tests.support.agent import running
from tests.support.openai_endpoint import entered
from tests.support.stub_cloud import StubCloud
from tests.support.waiting import until

from .conftest import Device


def _table(device: Device, first: str = "river") -> str:
    other = {"river": "stone", "stone": "river"}[first]
    file = device.folder / f"{first}.tsv"
    rows = [f"the {first} in the garden\twet", f"the {other} in the garden\tdry"] * 5
    file.write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    return str(file)


def _customize(device: Device, first: str, *options: str, code: int = 0) -> str:
    asked = ("customize", "desk", "--input", _table(device, first), "--level", "light", *options)
    result = device.sotto(*asked, code=code)
    return result.stderr


def test_an_adapter_is_listed_shown_replaced_rolled_back_and_deleted(
    linked: Device, cloud: StubCloud
) -> None:
    assert "sotto customize" in linked.sotto("list").stdout
    with running(linked.config):
        _customize(linked, "river")
        assert "--replace" in _customize(linked, "stone", code=3)
        assert len(cloud.jobs) == 1
        _customize(linked, "stone", "--replace")
        assert linked.json("predict", "desk", "the river")[0]["label"] == "dry"
        (before,) = linked.json("show", "desk")
        assert [each["set_aside"] for each in before["versions"]] == [False, False]

        back = linked.sotto("rollback", "desk").stdout
        assert before["versions"][1]["id"][:8] in back
        assert linked.json("predict", "desk", "the river")[0]["label"] == "wet"
        (after,) = linked.json("show", "desk")
        assert after["present"] == before["versions"][1]["id"]
        assert [each["set_aside"] for each in after["versions"]] == [True, False]
        (listed,) = linked.json("list")
        assert [each["id"] for each in listed["adapters"]] == [after["present"]]
    shown = linked.sotto("show", "desk").stdout
    assert "rolled back" in shown
    assert "privacy" in shown
    assert "desk  " in linked.sotto("list").stdout
    result = linked.sotto("rm", "desk", code=2)
    assert "--yes" in result.stderr
    assert linked.json("rm", "desk", "--yes") == [{"adapter": "desk", "deleted": 2}]
    assert cloud.jobs == []
    assert linked.json("list") == [{"adapters": []}]
    assert "sotto list" in linked.sotto("show", "desk", code=4).stderr


def test_a_training_is_followed_and_cancelled(linked: Device, cloud: StubCloud) -> None:
    cloud.may_train.clear()
    with running(linked.config):
        _customize(linked, "river", "--no-watch")
        until(lambda: linked.json("list")[0]["adapters"][0]["state"] == "training")
        assert "desk (" in linked.sotto("logs", "desk", "--no-follow").stdout
        assert "cancelled" in linked.sotto("cancel", "desk").stdout
        assert linked.json("logs", "desk", code=3)[-1]["state"] == "cancelled"
        assert linked.json("cancel", "desk")[0]["state"] == "cancelled"
    assert "sotto list" in linked.sotto("cancel", "none", code=4).stderr


def test_an_agent_that_runs_forgets_a_deleted_name_in_its_ledger_too(linked: Device) -> None:
    with running(linked.config):
        _customize(linked, "river")
        assert "desk" in linked.sotto("ledger").stdout
        linked.sotto("rm", "desk", "--yes")
        assert "desk" not in linked.sotto("ledger").stdout


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
        linked.sotto("customize", "desk", "--input", _written(linked, ROWS), "--level", "light")
    return linked


def _written(device: Device, rows: list[str]) -> str:
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
    table = _written(trained, [f"{text}\t{label}" for text, label in PAIRS])
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
        trained.sotto("correct", "desk", "--input", _written(trained, rows))
        assert sorted(_shown(trained)) == sorted(PAIRS)


WRONG: tuple[tuple[list[str], int, str], ...] = (
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
)


def test_what_is_wrong_is_said(trained: Device) -> None:
    with running(trained.config):
        for arguments, code, said in WRONG:
            assert said in trained.sotto(*arguments, code=code).stderr, arguments


def test_they_are_forgotten_one_or_all_and_with_the_adapter(trained: Device) -> None:
    table = _written(trained, [f"{text}\t{label}" for text, label in PAIRS])
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
