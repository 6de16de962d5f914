"""Training learns, resumes exactly, stops when asked, and keeps what it should."""

from __future__ import annotations

import csv
import json
import math
import shutil
from contextlib import closing
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import Example, Progress, TrainingOptions
from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.models.noise_aware import NoiseTable, WordPlaces
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.cloud.serving.predictor import Predictor
from sottovoce.cloud.training import trainer
from sottovoce.cloud.training.dataset import Dataset
from sottovoce.cloud.training.trainer import Recipe, Result, Stopped, step, train
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import NotReady, SottovoceError
from tests.support.examples import WORDS, examples
from tests.support.paths import HELPDESK
from tests.support.tiny_bundle import tiny_bundle


def accuracy(result: Result, name: str, rows: list[Example]) -> float:
    with closing(ModelThread(backbone.load(name))) as thread:
        predictor = Predictor(thread)
        answers = [predictor.submit(result.folder, row.text) for row in rows]
        hits = [a.result()[0][0] == row.label for a, row in zip(answers, rows, strict=True)]
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


def test_a_stopped_and_resumed_run_gives_the_same_weights(
    bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = examples(40, plain=4)
    options = TrainingOptions(
        reconstruction=True, plain_tokens=4, epochs=4, batch_size=8, learning_rate=3e-3, seed=5
    )
    whole = train(rows, options, backbone.load(bert), tmp_path / "whole")

    file = tmp_path / "checkpoints" / "last.safetensors"
    steps = 0
    real = trainer.step

    def counted(*arguments: Any, **options: Any) -> trainer.Losses:
        nonlocal steps
        steps += 1
        return real(*arguments, **options)

    monkeypatch.setattr(trainer, "step", counted)
    # Asked before each of two batches of the probe and one of the held-out part, then before each
    # step and, every 5 of them, the held-out part again.
    for stop_after, done in ((1, 0), (2, 0), (4, 1), (4, 5), (0, 5), (1, 5), (7, 11), (9, 19)):
        go_on = repeat(False, stop_after)
        with pytest.raises(Stopped):
            train(
                rows,
                options,
                backbone.load(bert),
                tmp_path / "parts",
                resume=file,
                should_stop=partial(next, go_on, True),
            )
        assert steps == done
        assert not (tmp_path / "parts").exists()
    seen: list[Progress] = []
    parts = train(
        rows, options, backbone.load(bert), tmp_path / "parts", resume=file, on_progress=seen.append
    )

    assert steps == 20, "no step was made twice"
    assert seen[-1].held_out_accuracy == parts.held_out_accuracy
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


def test_a_step_follows_the_gradient_of_both_losses(bert: str) -> None:
    options = TrainingOptions(reconstruction=True, plain_tokens=3)
    loaded = backbone.load(bert)
    data = Dataset.of(examples(16, plain=3), options, loaded.tokenizer)
    torch.manual_seed(0)
    model = TextClassifier(loaded, Lora(), 3, vocabulary=len(data.vocabulary))
    model.eval()
    batch, targets = data.batch(range(16), plain=True), data.targets
    logits, named = model(batch)
    task = F.cross_entropy(logits, targets)
    rec = F.cross_entropy(named, batch.plain[batch.plain >= 0])
    expected = torch.autograd.grad(task + 0.3 * rec, list(model.trained().values()))
    before = [p.detach().clone() for p in model.trained().values()]

    optimizer = torch.optim.SGD(model.trained().values(), lr=1.0)
    losses = step(model, optimizer, batch, targets, weight=0.3, clip=1e9)

    assert losses.task == pytest.approx(task.item())
    assert losses.reconstruction == pytest.approx(rec.item())
    for old, new, gradient in zip(before, model.trained().values(), expected, strict=True):
        assert torch.allclose(old - new, gradient, atol=1e-6)
    alone = step(model, optimizer, data.batch(range(16)), targets, weight=0.3)
    assert alone.reconstruction is None


def test_noise_aware_inputs_are_what_is_trained_on(bert: str, tmp_path: Path) -> None:
    folder = tiny_bundle(tmp_path / "bundle", Path(bert))
    shutil.copy(Path(bert) / "tokenizer.json", folder)
    places = WordPlaces(Bundle.open(folder))

    def run(name: str, noise: NoiseTable | None) -> dict[str, torch.Tensor]:
        options = TrainingOptions(epochs=1, batch_size=8, noise_aware=noise is not None)
        made = train(
            examples(24), options, backbone.load(bert), tmp_path / name, noise=noise, places=places
        )
        return weights(made.folder)

    still = torch.zeros(len(WORDS) + 1, 32).half()
    moved = still.clone()
    moved[:-1] = 1.0
    plain, same, other = run("a", None), run("b", NoiseTable(still)), run("c", NoiseTable(moved))
    assert all(torch.equal(plain[n], same[n]) for n in plain)
    assert not all(torch.equal(plain[n], other[n]) for n in plain)
    with pytest.raises(ValueError, match="noise table"):
        train(examples(24), TrainingOptions(noise_aware=True), backbone.load(bert), tmp_path / "d")


@pytest.mark.parametrize("plain", [1, 4, 40])
def test_plain_tokens_cost_no_more_than_they_may(bert: str, plain: int) -> None:
    options = TrainingOptions(reconstruction=True, plain_tokens=plain)
    data = Dataset.of(examples(30, plain=plain), options, backbone.load(bert).tokenizer)
    assert data.overhead == pytest.approx(plain / 10)  # 8 words and 2 special tokens
    every = Recipe(reconstruction_cost=0.45).every(data)
    assert data.overhead / every <= 0.45
    assert every == 1 or data.overhead / (every - 1) > 0.45
    assert Recipe(reconstruction_cost=100.0).every(data) == 1  # as published


@pytest.mark.parametrize("method", ["prompt", "prefix", "full"])
def test_other_methods_learn_too(method: str, bert: str, tmp_path: Path) -> None:
    options = TrainingOptions(method, epochs=6, batch_size=8, learning_rate=3e-3)
    result = train(examples(90), options, backbone.load(bert), tmp_path / "a")
    # As above: chance is 1/3 of 13 held out; 11 or more by chance in one of 10,000 runs.
    assert result.held_out_accuracy > 0.8


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


def test_weights_stay_numbers_when_the_gradient_is_none(bert: str) -> None:
    model = TextClassifier(backbone.load(bert), Lora(), 2)
    optimizer = torch.optim.AdamW(model.trained().values(), lr=1e-3)
    data = Dataset.of(
        examples(8, topics=("garden", "office")), TrainingOptions(), backbone.load(bert).tokenizer
    )
    before = {name: p.detach().clone() for name, p in model.trained().items()}
    # The loss is finite, its gradient is not: as after an overflow in the backward pass.
    model.head.weight.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(SottovoceError, match="diverged"):
        step(model, optimizer, data.batch([0, 1]), data.targets[[0, 1]])
    assert all(torch.equal(before[name], p) for name, p in model.trained().items())
