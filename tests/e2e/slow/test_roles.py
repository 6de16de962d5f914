"""Replicas, a front and a trainer behind HAProxy: devices lose no call when one dies."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import Light, behind_haproxy
from tests.support.callers import Callers
from tests.support.roles import roles
from tests.support.waiting import until


@behind_haproxy
def test_no_call_is_lost_and_every_job_is_done_when_a_replica_and_the_front_die(
    owner: Path, light: Light, lesson: tuple[list[str], list[str]]
) -> None:
    learn, texts = lesson
    with roles(owner, light.bundle, trainers=1, backbone=str(light.backbone)) as parts:
        agent = parts.device(owner / "device", "t")
        try:
            agent.run("customize", "desk", *learn)
            with Callers([agent.address], "desk", texts, 3) as asking:

                def goes_on() -> None:
                    """Wait for a number of further answers."""
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
