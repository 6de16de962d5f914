"""Three devices of one owner teach one adapter, and all answer alike."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from bench.live.testbed import Agent, Cloud
from tests.e2e.conftest import Light
from tests.support.examples import examples
from tests.support.waiting import until

DEVICES, ROUNDS, EACH = 3, 2, 250
NAME = "topics"


@pytest.fixture
def cloud(tmp_path: Path, light: Light) -> Iterator[Cloud]:
    running = light.cloud(tmp_path, "--hand-out-adapters", "fleet")
    running.start()
    yield running
    running.kill()


@pytest.fixture
def fleet(tmp_path: Path, light: Light, cloud: Cloud) -> Iterator[list[Agent]]:
    """Run several daemons of one tenant, each with its own state and token."""
    cloud.enroll("fleet")
    daemons = []
    for number in range(DEVICES):
        folder = tmp_path / f"device{number}"
        folder.mkdir()
        token = cloud.enroll("fleet", f"device{number}")
        daemon = Agent.at(folder, cloud=cloud.address, tenant="fleet", token=token)
        daemon.hold(light.bundle)
        daemon.env["HOME"] = str(folder)
        daemon.start()
        daemons.append(daemon)
    yield daemons
    for daemon in daemons:
        daemon.kill()


def table(folder: Path, seed: int) -> Path:
    file = folder / f"examples{seed}.tsv"
    rows = [f"{example.text}\t{example.label}" for example in examples(EACH, seed=seed)]
    file.write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return file


def asked(daemon: Agent, *arguments: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in daemon.run(*arguments, "--json").splitlines()]


def newest(daemon: Agent) -> str:
    """Fetched by hand, once the daemon does not do so itself at that moment."""
    found: list[str] = []

    def fetched() -> bool:
        with suppress(subprocess.CalledProcessError):
            found.append(str(asked(daemon, "fetch", NAME)[-1]["version"]))
        return bool(found)

    until(fetched)
    return found[0]


def in_use(daemon: Agent) -> str:
    (noted,) = Path(daemon.env["SOTTO_AGENT_STATE"]).glob("adapters/*/versions.json")
    return str(json.loads(noted.read_bytes())["in_use"])


def test_a_fleet_teaches_one_adapter_and_answers_alike(
    tmp_path: Path, cloud: Cloud, fleet: list[Agent]
) -> None:
    first, *others = fleet

    def teach(daemon: Agent, seed: int, *options: str) -> None:
        source = str(table(tmp_path, seed))
        found = asked(daemon, "customize", NAME, "--input", source, "--epochs", "1", *options)
        assert found[-1]["state"] == "ready"

    teach(first, 0, "--level", "light", "--method", "head")
    shared = tmp_path / "shared.json"
    first.run("share", NAME, "--output", str(shared))
    with ThreadPoolExecutor(DEVICES) as together:

        def join(daemon: Agent) -> None:
            if daemon is not first:
                daemon.run("join", str(shared))
            daemon.run("fetch", NAME, "--follow")

        list(together.map(join, fleet))
        assert len({in_use(daemon) for daemon in fleet}) == 1
        begun = in_use(first)
        list(together.map(lambda n: teach(others[n], 1 + n, "--add"), range(len(others))))
        list(together.map(lambda n: teach(fleet[n], DEVICES + n, "--add"), range(DEVICES)))
        latest = newest(first)
        assert latest != begun
        # Nobody asked the others to fetch: it was announced to them.
        until(lambda: {in_use(daemon) for daemon in fleet} == {latest})
        cloud.stop()  # what answers is at home

        texts = tmp_path / "texts.txt"
        texts.write_text("\n".join(example.text for example in examples(30, seed=99)) + "\n")
        answers = list(
            together.map(lambda d: asked(d, "predict", NAME, "--input", str(texts)), fleet)
        )
    assert all(answer["answered"] == "device" for answer in answers[0])
    assert len(answers[0]) == 30
    assert all(found == answers[0] for found in answers)

    # Every job went on from the one before, so that nobody's examples were lost or came twice.
    facts = [json.loads(f.read_bytes()) for f in cloud.state.glob("jobs/*/*/adapter/adapter.json")]
    assert len(facts) == DEVICES * ROUNDS
    bases = [fact["origin"].get("base", "") for fact in facts]
    assert len(set(bases)) == len(facts)
    assert bases.count("") == 1
    for daemon in fleet:
        (status,) = asked(daemon, "status")
        assert status["ledger"]["labels_as_they_are"] == ROUNDS * EACH
        assert 0 < status["ledger"]["releases"] <= ROUNDS * EACH
