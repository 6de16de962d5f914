"""`sotto predict` and `sotto embed`: one text, a file, a pipe; through the daemon and alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.edge.tasks import predict
from tests.support.agent import running
from tests.support.plain_denoiser import PlainDenoiser
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


TEXT = "the river in winter"


@pytest.fixture(autouse=True)
def _plain_denoiser(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped one is for the real bundle, see the end-to-end tests."""
    monkeypatch.setattr(predict, "_open_denoiser", PlainDenoiser)


def _file(device: Device, *lines: str) -> str:
    path = device.folder / "texts.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def _numbers(line: str) -> NDArray[np.float32]:
    return np.array(line.split(), np.float32)


def test_one_text_is_answered_alone_and_through_the_daemon(
    linked: Device, cloud: StubCloud
) -> None:
    (alone,) = linked.json("embed", TEXT)
    assert (alone["level"], alone["eta"], alone["tokens"]) == ("balanced", 15.0, 4)
    assert np.linalg.norm(alone["embedding"]) == pytest.approx(1, abs=1e-5)
    with running(linked.config):
        (served,) = linked.json("embed", TEXT, "--level", "light")
        plain = linked.sotto("embed", TEXT, "--level", "light").stdout
    assert (served["level"], served["eta"]) == ("light", 10_000.0)
    assert _numbers(plain) == pytest.approx(np.array(served["embedding"]), abs=1e-2)
    assert len({query.vectors for query in cloud.queries}) == 2  # one text at two levels


def test_local_needs_neither_cloud_nor_daemon(device: Device) -> None:
    (answer,) = device.json("embed", "--local", TEXT)
    assert (answer["level"], answer["eta"], answer["tokens"]) == ("", 0.0, 4)
    with running(device.config):
        assert device.json("embed", "--local", TEXT) == [answer]
    assert device.json("status")[0]["ledger"]["spent"] == 0
    assert "cloud.address" in device.sotto("embed", TEXT, code=3).stderr


def test_lines_of_a_file_and_of_a_pipe_are_answered_in_order(
    linked: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.edge.cli.predict.CHUNK", 4)
    lines = [f"the river {'cold ' * n}" for n in range(11)]
    for arguments, stdin in ((("--input", _file(linked, *lines)), ""), ((), "\n".join(lines))):
        answers = linked.json("embed", *arguments, stdin=stdin)
        assert [answer["tokens"] for answer in answers] == [2 + n for n in range(11)]


def test_output_is_a_numpy_file_or_nothing(linked: Device, tmp_path: Path) -> None:
    target = tmp_path / "rows.npy"
    lines = ["the river", "the stone", "a pond"] * 40
    source = _file(linked, *lines)
    with running(linked.config):
        told = linked.json("embed", "--input", source, "--output", str(target), "--local")
    assert told == [{"output": str(target), "texts": 120, "width": 16}]
    rows = np.load(target, allow_pickle=False)
    assert (rows.shape, rows.dtype) == ((120, 16), np.float32)
    expected = linked.json("embed", "--local", stdin="\n".join(lines[:3]))
    for place in range(120):
        assert rows[place] == pytest.approx(np.array(expected[place % 3]["embedding"]), abs=1e-6)

    before = target.read_bytes()
    bad = _file(linked, "the river", "the stone", "")
    result = linked.sotto("embed", "--input", bad, "--output", str(target), code=2)
    assert "line 3: the text is empty" in result.stderr
    assert target.read_bytes() == before
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".rows")] == []


def test_lines_before_a_bad_one_are_answered(linked: Device) -> None:
    with running(linked.config):
        source = _file(linked, "the river", "", "the stone")
        result = linked.sotto("embed", "--input", source, "--json", code=2)
        assert len(result.stdout.splitlines()) == 1
        assert "line 2: the text is empty" in json.loads(result.stderr)["error"]["problem"]
        Path(source).write_bytes(b"the river\nthe stone\n\xff\n")
        result = linked.sotto("embed", "--input", source, "--json", code=2)
        assert len(result.stdout.splitlines()) == 2
        assert "line 3 is not UTF-8" in json.loads(result.stderr)["error"]["problem"]


def test_what_goes_wrong_with_an_embedding_is_told(linked: Device, cloud: StubCloud) -> None:
    assert "give one" in linked.sotto("embed", TEXT, "--input", "b", code=2).stderr
    result = linked.sotto("embed", TEXT, "--level", "none", code=4)
    assert all(level in result.stderr for level in ("strong", "balanced", "light"))
    linked.environment["SOTTO_PRIVACY_LEDGER_LIMIT"] = "59"
    assert "ledger" in linked.sotto("embed", TEXT, code=5).stderr
    assert cloud.queries == []
