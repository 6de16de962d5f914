"""Training learns, resumes exactly, stops when asked, and keeps what it should."""

from __future__ import annotations

import csv
import json
import math
from functools import partial
from itertools import repeat
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sottovoce.cloud import backbone
from sottovoce.cloud.data import Encoded
from sottovoce.cloud.job import Progress, TrainingOptions
from sottovoce.cloud.serving import Predictor
from sottovoce.cloud.train import (
    Recipe,
    Result,
    Stopped,
    batches,
    mix,
    probe,
    schedule,
    train,
)
from sottovoce.edge.errors import NotReady, SottovoceError

from .cloud_kit import Example, examples, tiny_bert

HELPDESK = Path(__file__).parents[2] / "examples" / "helpdesk"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny encoder."""
    return str(tiny_bert(tmp_path_factory.mktemp("backbones") / "bert"))


def accuracy(result: Result, name: str, rows: list[Example]) -> float:
    predictor = Predictor(backbone.load(name))
    answers = [predictor.submit(result.folder, row.text) for row in rows]
    hits = [a.result()[0][0] == row.label for a, row in zip(answers, rows, strict=True)]
    predictor.close()
    return sum(hits) / len(hits)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {
        f"{name}/{key}": tensor
        for name in ("adapter_model", "head")
        for key, tensor in load_file(folder / f"{name}.safetensors").items()
    }


def test_a_separable_set_is_learnt(bert: str, tmp_path: Path) -> None:
    seen: list[Progress] = []
    rows = examples(120)
    options = TrainingOptions(epochs=10, batch_size=8)
    result = train(rows, options, backbone.load(bert), tmp_path / "a", on_progress=seen.append)

    assert result.labels == ("garden", "kitchen", "office")
    # 60 fresh texts; chance is 1/3, whose 99.999 % quantile at n = 60 is .62.
    assert accuracy(result, bert, examples(60, seed=9)) > 0.9
    assert result.held_out == 18
    assert seen[-1].step == seen[-1].steps == 10 * math.ceil(102 / 8)
    assert [p.step for p in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].seconds_left == 0
    assert seen[-1].held_out_accuracy == result.held_out_accuracy > 0.9


def test_a_stopped_and_resumed_run_gives_the_same_weights(bert: str, tmp_path: Path) -> None:
    rows = examples(40, plain=4)
    options = TrainingOptions(
        reconstruction=True, plain_tokens=4, epochs=4, batch_size=8, learning_rate=3e-3, seed=5
    )
    whole = train(rows, options, backbone.load(bert), tmp_path / "whole")

    file = tmp_path / "checkpoints" / "last.safetensors"
    for stop_after in (1, 5, 9):  # within an epoch, at its end, and past it
        steps = repeat(False, stop_after)
        with pytest.raises(Stopped):
            train(
                rows,
                options,
                backbone.load(bert),
                tmp_path / "parts",
                resume=file,
                should_stop=partial(next, steps, True),
            )
        assert not (tmp_path / "parts").exists()
    seen: list[Progress] = []
    parts = train(
        rows, options, backbone.load(bert), tmp_path / "parts", resume=file, on_progress=seen.append
    )

    assert seen[0].step == 16  # 1 + 5 + 9 were done before
    assert parts.held_out_accuracy == whole.held_out_accuracy
    expected, found = weights(whole.folder), weights(parts.folder)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_checkpoint_of_another_run_is_not_taken_up(bert: str, tmp_path: Path) -> None:
    file = tmp_path / "last.safetensors"
    first = TrainingOptions(epochs=1, batch_size=8, seed=1)
    train(examples(40), first, backbone.load(bert), tmp_path / "a", resume=file)
    steps: list[int] = []
    train(
        examples(40),
        TrainingOptions(epochs=1, batch_size=8, seed=2),
        backbone.load(bert),
        tmp_path / "b",
        resume=file,
        on_progress=lambda p: steps.append(p.step),
    )
    assert steps[0] == 1


def test_seeds_make_runs_repeatable_and_different(bert: str, tmp_path: Path) -> None:
    def run(name: str, seed: int) -> dict[str, torch.Tensor]:
        options = TrainingOptions(epochs=1, batch_size=8, seed=seed)
        return weights(train(examples(24), options, backbone.load(bert), tmp_path / name).folder)

    first, again, other = run("a", 1), run("b", 1), run("c", 2)
    assert all(torch.equal(first[n], again[n]) for n in first)
    assert not all(torch.equal(first[n], other[n]) for n in first)


def test_the_callers_random_state_is_left_alone(bert: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    train(examples(24), TrainingOptions(epochs=1), backbone.load(bert), tmp_path / "a")
    assert torch.equal(torch.rand(4), expected)


def test_the_reconstruction_head_learns_and_is_dropped(bert: str, tmp_path: Path) -> None:
    seen: list[Progress] = []
    rows = examples(120, plain=6)
    options = TrainingOptions(
        reconstruction=True, plain_tokens=6, epochs=12, batch_size=8, learning_rate=5e-3
    )
    recipe = Recipe(reconstruction_weight=1.0)
    result = train(
        rows, options, backbone.load(bert), tmp_path / "a", on_progress=seen.append, recipe=recipe
    )
    # The plain tokens here are released unchanged, so naming them can be learnt.
    assert seen[-1].reconstruction_loss < 0.75 * seen[0].reconstruction_loss
    assert accuracy(result, bert, examples(60, seed=9)) > 0.9

    held = weights(result.folder)
    assert set(held) == {"head/weight", "head/bias"} | {n for n in held if ".lora_" in n}
    facts = json.loads((result.folder / "adapter.json").read_text())
    assert "vocabulary" not in json.dumps(facts)


def test_too_few_examples_are_refused_before_anything_is_written(bert: str, tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="at least 8"):
        train(examples(6), TrainingOptions(), backbone.load(bert), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_eight_examples_of_two_labels_are_enough(bert: str, tmp_path: Path) -> None:
    rows = examples(8, topics=("garden", "office"))
    result = train(rows, TrainingOptions(), backbone.load(bert), tmp_path / "a")
    assert result.epochs > Recipe().epochs
    assert result.held_out == 2


def test_labels_too_rare_to_hold_out_still_train(bert: str, tmp_path: Path) -> None:
    rows = [Example(row.text, f"label {i // 2}") for i, row in enumerate(examples(8))]
    result = train(rows, TrainingOptions(epochs=2), backbone.load(bert), tmp_path / "a")
    assert (result.held_out, result.held_out_accuracy) == (0, 0.0)


def test_a_diverging_run_names_the_learning_rate(bert: str, tmp_path: Path) -> None:
    recipe = Recipe(clip=float("inf"))
    options = TrainingOptions(learning_rate=1e30, epochs=3)
    with pytest.raises(SottovoceError, match="smaller learning rate"):
        train(examples(60), options, backbone.load(bert), tmp_path / "a", recipe=recipe)


def test_the_probe_is_the_logistic_regression_it_says() -> None:
    random = torch.Generator().manual_seed(0)
    centres = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 4.0]])
    targets = torch.arange(300) % 3
    features = centres[targets] + torch.randn(300, 2, generator=random)
    weight, bias = probe(features, targets, 0.01)
    hits = (features @ weight.T + bias).argmax(1) == targets
    assert hits.float().mean() > 0.95
    # A constant column carries nothing and must not break the scaling.
    weight, bias = probe(torch.cat([features, torch.ones(300, 1)], 1), targets, 0.01)
    assert bool(torch.isfinite(weight).all())


def test_batches_hold_every_row_once_and_lie_near_in_length() -> None:
    lengths = [3 + (i * 7) % 40 for i in range(64)]
    encoded = [Encoded((0,) * n, (True,) * n) for n in lengths]
    made = batches(range(64), encoded, 8, seed=0, epoch=0)
    assert sorted(i for batch in made for i in batch) == list(range(64))
    assert max(max(lengths[i] for i in b) - min(lengths[i] for i in b) for b in made) <= 10
    assert batches(range(64), encoded, 8, seed=0, epoch=0) == made
    assert batches(range(64), encoded, 8, seed=0, epoch=1) != made


def test_the_rate_rises_then_falls_and_never_reaches_zero() -> None:
    rates = [schedule(step, 100, 0.1) for step in range(100)]
    assert rates.index(max(rates)) == 9
    assert max(rates) == 1
    assert rates[-1] > 0
    assert len({mix(0, step) for step in range(100)} | {mix(1, 0)}) == 101


def test_the_real_backbone_learns_real_messages(tmp_path: Path) -> None:
    train_rows, test_rows = _table("train"), _table("test")
    wanted = ("billing", "plumbing")
    some = [row for row in train_rows if row.label in wanted][:48]
    asked = [row for row in test_rows if row.label in wanted][:30]
    result = train(some, TrainingOptions(epochs=1), backbone.load(), tmp_path / "a")
    # Chance is 1/2, whose 99.9 % quantile at n = 30 is .77.
    assert accuracy(result, "default", asked) > 0.85


def _table(name: str) -> list[Example]:
    with (HELPDESK / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Example(row["text"], row["label"]) for row in rows]
