"""`sotto predict`: through the daemon or alone; order and errors by line."""

from __future__ import annotations

import pytest

from tests.support.agent import running
from tests.support.stub_cloud import StubCloud

from .conftest import Device


@pytest.fixture
def trained(linked: Device) -> Device:
    rows = ["river\twet", "stone\tdry"] * 5
    file = linked.folder / "train.tsv"
    file.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    with running(linked.config):
        linked.sotto("customize", "desk", "--input", str(file), "--level", "light")
    return linked


def test_lines_are_answered_in_order(trained: Device) -> None:
    source = trained.folder / "ask.txt"
    source.write_text("the river\nthe stone\nthe river\n")
    answers = trained.json("predict", "desk", "--input", str(source))
    assert [a["label"] for a in answers] == ["wet", "dry", "wet"]
    with running(trained.config):
        assert trained.json("predict", "desk", stdin=source.read_bytes()) == answers
    plain = trained.sotto("predict", "desk", "the stone").stdout
    label, score = plain.strip().split("\t")
    assert label == "dry"
    assert 0.5 < float(score) <= 1


def test_what_goes_wrong_is_told(trained: Device, cloud: StubCloud) -> None:
    result = trained.sotto("predict", "desk", stdin="the river\n\n", code=2)
    assert "line 2: the text is empty" in result.stderr
    assert "no such adapter" in trained.sotto("predict", "none", "the river", code=4).stderr
    assert "give one" in trained.sotto("predict", "desk", "a", "--input", "b", code=2).stderr
    cloud.stop()
    assert "does not answer" in trained.sotto("predict", "desk", "the river", code=6).stderr
