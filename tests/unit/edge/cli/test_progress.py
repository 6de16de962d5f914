"""How far a customisation is, told in a line."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sottovoce.core.platform.console import progress_bar
from sottovoce.edge.cli.common import brief, sentence
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training


def test_figures_of_the_training_are_told() -> None:
    record = agent.Customization(
        adapter="desk",
        state=agent.CUSTOMIZATION_STATE_TRAINING,
        progress=training.JobProgress(
            epoch=1,
            epochs=4,
            loss=0.5,
            reconstruction_loss=6.25,
            held_out_accuracy=0.75,
            examples_per_second=120.4,
            seconds_left=33.3,
        ),
    )
    said = sentence(record)
    for part in ("epoch 1 of 4", "loss 0.500", "reconstruction loss 6.250", "75.0%"):
        assert part in said
    assert "120 examples/s  33 s left" in said


def test_a_bar_has_room_for_its_figures_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    narrow = Console(file=shown, width=80, force_terminal=True, legacy_windows=False)
    monkeypatch.setattr("rich.console.Console", lambda **_: narrow)
    record = agent.Customization(
        progress=training.JobProgress(
            epoch=3, epochs=10, held_out_accuracy=0.875, seconds_left=1234
        )
    )
    with progress_bar() as bars:
        task = bars.add_task("privatising", total=10_000, completed=4_321, note=brief(record))
        bars.refresh()
        (line,) = narrow.render_lines(bars.get_renderable())
        told = "".join(segment.text for segment in line)
        for part in ("privatising", "4321/10000", "accuracy 87.5%  1234 s left"):
            assert part in told
        bars.update(task, note="waiting: " + "the cloud at a.example.org does not answer " * 3)
        assert len(narrow.render_lines(bars.get_renderable())) == 1
