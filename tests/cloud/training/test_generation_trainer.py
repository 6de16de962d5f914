"""Training to write learns, resumes exactly, and keeps what it should."""

from __future__ import annotations

import json
from functools import partial
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sottovoce.cloud.job import Progress, TrainingOptions
from sottovoce.cloud.models import adapters, decoder
from sottovoce.cloud.models.chat import Turn
from sottovoce.cloud.models.rows import run
from sottovoce.cloud.training.generation_trainer import RECIPE, train_generation
from sottovoce.cloud.training.run import Stopped, Watch
from tests.support import decoders
from tests.support.written import written


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A decoder's folder."""
    return str(decoders.save(tmp_path_factory.mktemp("decoders") / "tiny"))


def test_a_form_is_learnt_and_written(tiny: str, tmp_path: Path) -> None:
    seen: list[Progress] = []
    options = TrainingOptions(
        method="full", epochs=8, batch_size=8, learning_rate=4e-3, seed=1, task="generation"
    )
    result = train_generation(
        written(64),
        options,
        decoder.load(tiny),
        tmp_path / "a",
        watch=Watch(seen.append),
    )

    assert result.labels == ()
    assert result.held_out == 10
    assert seen[0].loss > 6  # of 640 tokens, log 640 is 6.5
    assert seen[-1].loss < 1
    assert seen[-1].held_out_accuracy == result.held_out_accuracy > 0.9

    opened, adapter = decoder.load(tiny), adapters.load(result.folder)
    row = adapter.method.row(opened.stack, adapter.tensors)
    right = 0
    for example in written(10, seed=9):
        ids = opened.chat.prompt([Turn("user", example.text)])
        answer: list[int] = []
        with torch.no_grad():
            while len(answer) < 12 and not opened.ends.intersection(answer):
                given = torch.tensor([[*ids, *answer]])
                states = run(opened.stack, given, torch.ones_like(given), [row])
                answer.append(int(opened.logits(states[0, -1], row.weights).argmax()))
        right += opened.chat.text(answer) == example.output
    # Of six places one is right by chance: 8 of 10 has a probability below 2e-5.
    assert right >= 8


@pytest.mark.parametrize(("method", "rate"), [("lora", 1e-2), ("prompt", 5e-2), ("prefix", 5e-2)])
def test_every_method_lowers_the_loss(method: str, rate: float, tiny: str, tmp_path: Path) -> None:
    seen: list[Progress] = []
    options = TrainingOptions(
        method=method, epochs=4, batch_size=8, learning_rate=rate, seed=1, task="generation"
    )
    train_generation(
        written(40),
        options,
        decoder.load(tiny),
        tmp_path / "a",
        watch=Watch(seen.append),
    )
    # The stack is random and frozen, and so is what reads it: there is little room.
    assert seen[-1].loss < seen[0].loss - 0.03


def test_a_stopped_and_resumed_run_gives_the_same_weights(tiny: str, tmp_path: Path) -> None:
    options = TrainingOptions(
        reconstruction=True, plain_tokens=4, epochs=3, batch_size=8, seed=5, task="generation"
    )
    learn = partial(train_generation, written(30, plain=4), options)
    whole = learn(decoder.load(tiny), tmp_path / "whole")
    file = tmp_path / "checkpoints" / "last.safetensors"
    for stop_after in (0, 2, 6):  # before the first score, in the first epoch and after it
        go_on = repeat(False, stop_after)
        with pytest.raises(Stopped):
            learn(
                decoder.load(tiny),
                tmp_path / "parts",
                resume=file,
                watch=Watch(should_stop=partial(next, go_on, True)),
            )
    seen: list[Progress] = []
    parts = learn(decoder.load(tiny), tmp_path / "parts", resume=file, watch=Watch(seen.append))

    assert seen[0].step > 1
    assert seen[-1].reconstruction_loss > 0
    one, other = (load_file(r.folder / "adapter_model.safetensors") for r in (whole, parts))
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], atol=0, rtol=0)
    assert whole.held_out_accuracy == parts.held_out_accuracy


def test_what_is_kept_says_which_decoder_and_no_text(tiny: str, tmp_path: Path) -> None:
    options = TrainingOptions(
        reconstruction=True, plain_tokens=2, epochs=1, batch_size=16, task="generation"
    )
    opened = decoder.load(tiny)
    train_generation(
        written(16, plain=2), options, opened, tmp_path / "a", origin={"job": "j"}, recipe=RECIPE
    )

    facts = json.loads((tmp_path / "a" / "adapter.json").read_text())
    assert facts["task"] == "generation"
    assert facts["backbone"] == {"name": "tiny", "sha256": opened.backbone.sha256}
    assert sorted(f.name for f in (tmp_path / "a").iterdir()) == [
        "adapter.json",
        "adapter_model.safetensors",
    ]
    kept = load_file(tmp_path / "a" / "adapter_model.safetensors")
    assert not any("reconstruction" in name or "output" in name for name in kept)
    assert "Paris" not in json.dumps(facts)


@pytest.mark.skipif(not find_spec("bitsandbytes"), reason="QLoRA needs bitsandbytes")
def test_over_four_bits_the_same_kind_of_adapter_is_learnt(tmp_path: Path) -> None:
    folder = str(decoders.save(tmp_path / "wide", hidden_size=128, intermediate_size=256))
    seen: list[Progress] = []
    options = TrainingOptions(
        method="qlora", epochs=4, batch_size=8, learning_rate=1e-2, seed=1, task="generation"
    )
    spent = decoder.load(folder, quantized=True)
    train_generation(written(40), options, spent, tmp_path / "a", watch=Watch(seen.append))
    assert seen[-1].loss < 0.7 * seen[0].loss

    adapter, opened = adapters.load(tmp_path / "a"), decoder.load(folder)
    assert adapter.backbone_sha256 == opened.backbone.sha256
    assert adapter.method.row(opened.stack, adapter.tensors).updates is not None
