"""Replicas, a front and a trainer behind HAProxy: what a device notices when one of them dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.live import haproxy
from bench.scale.callers import Callers
from bench.scale.roles import roles
from tests.support.paths import HELPDESK
from tests.support.waiting import until

from .conftest import Light


def test_no_call_is_lost_and_every_job_is_done_when_a_replica_and_the_front_die(
    owner: Path, light: Light
) -> None:
    if haproxy.found() is None:
        pytest.skip(haproxy.HINT)
    lines = (HELPDESK / "train.tsv").read_text(encoding="utf-8").splitlines()[:37]
    table = owner / "train.tsv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    learn = ["--input", str(table), "--method", "head", "--epochs", "1", "--json"]
    texts = [line.split("\t")[0] for line in lines[1:]]
    with roles(owner, light.bundle, trainers=1, backbone=str(light.backbone)) as parts:
        agent = parts.device(owner / "device", "t")
        try:
            agent.run("customize", "desk", *learn)
            with Callers([agent.address], "desk", texts, 3) as asking:

                def goes_on() -> None:
                    """Until so many more are answered, singly and in the stream."""
                    began = asking.now()
                    until(lambda: asking.since(began)["calls"] > 30)
                    until(lambda: asking.since(began)["streamed"] > 10)

                began = asking.now()
                goes_on()
                parts.replicas[0].kill()
                goes_on()
                agent.run("customize", "second", *learn, "--no-watch")
                parts.front.kill()
                goes_on()  # predictions need no front
                parts.front.start()
                agent.run("logs", "second")
                found = asking.since(began)
            assert (found["lost"], found["streams_lost"]) == (0, 0)
            asked = agent.run("predict", "second", texts[0], "--json")
            assert b"label" in asked
        finally:
            agent.kill()
