"""Randomised labels and the order of examples, over many draws."""

from __future__ import annotations

import math
import statistics

from sottovoce.edge.tasks.customize import Customizer
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.agent import queued, wanted
from tests.unit.edge.tasks.test_customize import _labels


def _spelt(number: int) -> list[agent.LabelledText]:
    """Return different texts with distinguishable releases."""
    return [
        agent.LabelledText(text=f"The garden {n:012}", label=("outside", "clinic")[n % 2])
        for n in range(number)
    ]


def test_labels_are_randomised_once_and_for_all(customizer: Customizer, device: Parts) -> None:
    """The share of true labels lies within 4.9 standard deviations (two-sided, alpha = 1e-6)."""
    number, epsilon = 400, 1.0
    released = {
        device.releases.release(e.text, device.default).text: e.label for e in _spelt(number)
    }
    assert len(released) == number
    for adapter in ("one", "two"):
        settings = wanted(adapter=adapter, label_epsilon=epsilon)
        customizer.accept(settings, _spelt(number))
    sent = _labels(device, "one")
    assert sent.keys() == released.keys()
    assert _labels(device, "two") == sent  # asking again averages nothing out
    kept = sum(sent[text] == label for text, label in released.items())
    keep = math.exp(epsilon) / (math.exp(epsilon) + 1)
    spread = math.sqrt(len(sent) * keep * (1 - keep))
    assert abs(kept - len(sent) * keep) < 4.9 * spread
    on_disk = b"".join(p.read_bytes() for p in device.store.folder.iterdir())
    assert b"outside" not in on_disk
    settings = wanted(adapter="three", label_epsilon=0.5)
    customizer.accept(settings, _spelt(number))
    assert _labels(device, "three") != sent


def test_the_place_of_an_example_tells_nothing(customizer: Customizer, device: Parts) -> None:
    """The correlation of table and upload order: deviation 1/sqrt(399), within 4.9 deviations (two-
    sided, alpha = 1e-6)."""
    number = 400
    examples = _spelt(number)
    place = {
        device.releases.release(e.text, device.default).text: n for n, e in enumerate(examples)
    }
    orders = []
    for adapter in ("one", "two"):
        settings = wanted(adapter=adapter)
        record = customizer.accept(settings, examples)
        orders.append([place[e.released_text] for e in queued(device, record.id)])
        assert [place[e.released_text] for e in queued(device, record.id)] == orders[-1]
    table = sorted(place[device.releases.release(e.text, device.default).text] for e in examples)
    for one, other in ((table, orders[0]), (table, orders[1]), orders):
        assert sorted(one) == sorted(other) == table
        found = statistics.correlation(one, other)
        assert abs(found) < 4.9 / math.sqrt(number - 1)
