"""Inputs and outputs are taken in as one document each, and have no labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.state.ledger import Spending
from sottovoce.edge.tasks.customize import Customizer
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import customizing, queued, wanted

SETTINGS = wanted(adapter="desk", task=training.TASK_GENERATION, replace=True)


def written(number: int = 12) -> list[agent.LabelledText]:
    """Return pairs with a different name each, in input and output."""
    return [
        agent.LabelledText(
            text=f"The river was in the garden, Anna{n}x.",
            output=f"Anna{n}x has seen\u2028the river.",
        )
        for n in range(number)
    ]


def test_input_and_output_are_one_document(customizer: Customizer, device: Parts) -> None:
    record = customizer.accept(SETTINGS, written())
    waiting = queued(device, record.id)
    released = {
        device.releases.release(f"{e.text}\n{e.output}", device.default).text for e in written()
    }
    assert {f"{e.released_text}\n{e.released_output}" for e in waiting} == released
    for example in waiting:
        name = example.released_text.rstrip(".").split()[-1]
        assert not name.startswith("Anna")
        assert example.released_output.split()[0] == name
        assert example.label == ""
    assert device.outbox.job_request(record.id).training.task == training.TASK_GENERATION
    spent = device.ledger.spending()
    assert spent.releases == 12
    assert (spent.labels_as_they_are, spent.labels_randomized) == (0, 0)
    customizer.accept(SETTINGS, written())
    assert device.ledger.spending() == spent


@pytest.mark.parametrize(
    ("settings", "example", "said"),
    [
        ({}, agent.LabelledText(text="the river"), "no input or no output"),
        ({}, agent.LabelledText(text=" ", output="the river"), "no input or no output"),
        ({}, agent.LabelledText(text="the", output="river", label="a"), "it has a label"),
        ({}, agent.LabelledText(text="the", output="x" * 65_537), "too long"),
        ({"task": 0}, agent.LabelledText(text="the", label="a", output="x"), "it has an output"),
        ({"label_epsilon": 3.0}, written(1)[0], "an epsilon for labels"),
        ({"label_words": True}, written(1)[0], "label words together with generation"),
        ({"task": 9}, written(1)[0], "unknown task"),
    ],
)
def test_what_cannot_be_learnt_is_refused_before_privacy_is_spent(
    customizer: Customizer,
    device: Parts,
    settings: dict[str, float],
    example: agent.LabelledText,
    said: str,
) -> None:
    given = {"task": training.TASK_GENERATION, "replace": True, **settings}
    asked = wanted(**given)
    examples = [*written(0 if settings.get("task") == 0 else 9), example]
    with pytest.raises(InvalidInput, match=said):
        customizer.accept(asked, examples)
    assert device.ledger.spending() == Spending(0, 0)
    assert device.outbox.all() == []


def test_a_few_outputs_are_too_few(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with (
        customizing(tmp_path, small_bundle_folder, lexicon_tagger) as (customizer, _),
        pytest.raises(InvalidInput, match="7 examples are too few"),
    ):
        customizer.accept(SETTINGS, written(7))
