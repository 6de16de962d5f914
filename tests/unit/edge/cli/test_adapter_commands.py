"""`sotto list`, `show`, `logs`, `cancel`, `rollback`, `rm`: with a daemon and without one."""

from __future__ import annotations

from tests.support.agent import running
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
