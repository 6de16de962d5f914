"""One call of a device is one trace through balancer, replica and trainer, with no text in it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="pip install 'sottovoce-cloud[trace]'")

from tests.e2e.conftest import Light, behind_haproxy
from tests.support.collector import Collected, Collector, collecting
from tests.support.roles import roles
from tests.support.waiting import until


def named(collector: Collector, name: str) -> list[Collected]:
    return [span for span in collector.spans if span.name == name]


def way(collector: Collector, span: Collected) -> list[tuple[str, str]]:
    """Roles and names from the beginning of the trace to a span."""
    by_id = {each.id: each for each in collector.spans if each.trace == span.trace}
    found = [span]
    while found[0].parent in by_id:
        found.insert(0, by_id[found[0].parent])
    return [(each.role.removeprefix("sottovoce-"), each.name) for each in found]


@behind_haproxy
def test_a_call_and_a_job_are_each_one_trace_from_the_device_on(
    owner: Path, light: Light, lesson: tuple[list[str], list[str]]
) -> None:
    learn, texts = lesson
    small = {"replicas": 1, "trainers": 1, "backbone": str(light.backbone)}
    with (
        collecting() as collector,
        roles(owner, light.bundle, trace=collector.url, **small) as parts,
    ):
        agent = parts.device(owner / "device", "t", SOTTO_AGENT_TRACE=collector.url)
        silent = parts.device(owner / "silent", "other")
        try:
            agent.run("customize", "desk", *learn)
            agent.run("predict", "desk", texts[0], "--json")
            until(lambda: bool(named(collector, "queue and model") and named(collector, "job")))
            before = len(collector.spans)
            silent.run("customize", "desk", *learn)
            until(lambda: len(named(collector, "job")) == 2)
            until(lambda: any(s.name.endswith("/StartJob") for s in collector.spans[before:]))
            assert agent.stop() == 0, "and tells the rest"
        finally:
            agent.kill()
            silent.kill()
        parts.front.stop()
        parts.replicas[0].stop()
        parts.trainers[0].stop()
        answered = named(collector, "queue and model")[0]
        assert way(collector, answered) == [
            ("agent", "sottovoce.v1.EdgeAgentService/Predict"),
            ("agent", "call of the cloud"),
            ("replica", "sottovoce.v1.InferenceService/Predict"),
            ("replica", "queue and model"),
        ]
        training = named(collector, "training")[0]
        assert way(collector, training) == [
            ("agent", "upload"),
            ("agent", "call of the cloud"),
            ("front", "sottovoce.v1.TrainingService/StartJob"),
            ("trainer", "job"),
            ("trainer", "training"),
        ]
        assert named(collector, "job")[0].numbers["examples"] == 36
        # Of a device whose owner turned nothing on, the cloud knows what it does itself, call by
        # call: nothing tells which of them belong together but the job that they speak of.
        theirs = named(collector, "job")[1]
        assert way(collector, theirs) == [
            ("front", "sottovoce.v1.TrainingService/StartJob"),
            ("trainer", "job"),
        ]
        told = b"".join(collector.raw)
    secrets = [*texts, "desk", "other", str(owner)]
    words = {word for text in texts for word in text.split() if len(word) > 6}
    for secret in (*secrets, *words):
        assert secret.encode() not in told, secret
