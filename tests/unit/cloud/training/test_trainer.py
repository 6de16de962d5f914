"""Training learns, resumes exactly, stops on request and keeps the right files."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F  # noqa: N812 - its customary name
from torch.optim.optimizer import register_optimizer_step_pre_hook

from sottovoce.cloud.job import Example, Job, Progress, State, Stopped, TrainingOptions, Watch
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.ending import reinstate
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.models import adapters, backbone
from sottovoce.cloud.models.batches import Dataset
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import METHODS, Lora
from sottovoce.cloud.store.adapters import locate
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.training import run as run_module
from sottovoce.cloud.training import trainer
from sottovoce.cloud.training.run import Losses, Objective, fit
from sottovoce.cloud.training.trainer import Base, Hyperparameters, probe, train
from sottovoce.cloud.training.worker import ATTEMPTS, Worker
from sottovoce.core.errors import NotReady, SottovoceError
from tests.support.examples import RELEASE, WORDS, examples
from tests.support.serving import accuracy


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
    result = train(rows, options, backbone.load(bert), tmp_path / "a", watch=Watch(seen.append))

    assert result.labels == ("garden", "kitchen", "office")
    # 60 fresh texts; chance is 1/3, whose 99.999 % quantile at n = 60 is .62.
    assert accuracy(result.folder, bert, examples(60, seed=9)) > 0.9
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
    recipe = Hyperparameters(reconstruction_cost=0.15)  # plain tokens before every third batch
    whole = train(rows, options, backbone.load(bert), tmp_path / "whole", recipe=recipe)

    file = tmp_path / "checkpoints" / "last.safetensors"
    with_plain: list[bool] = []

    def counted(*arguments: Any) -> Iterator[Losses]:
        for losses in fit(*arguments):
            with_plain.append(losses.reconstruction is not None)
            yield losses

    monkeypatch.setattr(run_module, "fit", counted)
    # Asked before each of two batches of the probe and one of the held-out part, then before each
    # step and, every 5 of them, the held-out part again.
    for stop_after, done in ((1, 0), (2, 0), (4, 1), (4, 5), (0, 5), (1, 5), (7, 11), (9, 19)):
        watch = Watch(should_stop=partial(next, repeat(False, stop_after), True))
        how = {"resume": file, "recipe": recipe, "watch": watch}
        with pytest.raises(Stopped):
            train(rows, options, backbone.load(bert), tmp_path / "parts", **how)
        assert len(with_plain) == done
        assert not (tmp_path / "parts").exists()
    seen: list[Progress] = []
    how |= {"watch": Watch(seen.append)}
    parts = train(rows, options, backbone.load(bert), tmp_path / "parts", **how)

    assert with_plain == [at % 3 == 0 for at in range(20)], "a step was made twice, or otherwise"
    assert seen[-1].held_out_accuracy == parts.held_out_accuracy
    assert parts.held_out_accuracy == whole.held_out_accuracy
    expected, found = weights(whole.folder), weights(parts.folder)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_checkpoint_of_another_run_is_not_taken_up(
    bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "last.safetensors"
    first = TrainingOptions(epochs=1, batch_size=20, seed=1)

    def steps(
        options: TrainingOptions, recipe: Hyperparameters, n: int = 40, **changed: str
    ) -> list[int]:
        seen: list[Progress] = []
        how = {"resume": file, "recipe": recipe, "watch": Watch(seen.append, kept.touch)}
        loaded = replace(backbone.load(bert), **changed)
        train(examples(n), options, loaded, tmp_path / "a", **how)
        return [progress.step for progress in seen]

    kept, other = tmp_path / "kept", Hyperparameters(weight_decay=0.2)
    assert steps(first, Hyperparameters()) == [1, 2]
    assert kept.exists(), "nobody was told of the checkpoint"
    assert steps(first, Hyperparameters()) == [], "nothing was left to do"
    assert steps(first, other) == [1, 2]
    monkeypatch.setattr(Lora, "learning_rate", Lora.learning_rate / 2)
    assert steps(first, other) == [1, 2]
    assert steps(first, other, 41) == [1, 2]
    assert steps(first, other, 41, sha256="0" * 64) == [1, 2]
    assert steps(replace(first, seed=2), other, 41, sha256="0" * 64) == [1, 2]


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
    how = {"recipe": Hyperparameters(reconstruction_weight=1.0), "watch": Watch(seen.append)}
    result = train(rows, options, backbone.load(bert), tmp_path / "a", **how)
    # The plain tokens here are released unchanged, so naming them can be learnt.
    assert seen[-1].reconstruction_loss < 0.75 * seen[0].reconstruction_loss
    assert accuracy(result.folder, bert, examples(60, seed=9)) > 0.9

    held = weights(result.folder)
    assert set(held) == {"head/weight", "head/bias"} | {n for n in held if ".lora_" in n}
    facts = json.loads((result.folder / "adapter.json").read_text())
    assert "vocabulary" not in json.dumps(facts)


@pytest.mark.parametrize(("fast", "wanted"), [(True, True), (True, False), (False, True)])
def test_the_frozen_part_is_bfloat16_where_that_is_fast_and_wanted(
    bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: bool, wanted: bool
) -> None:
    made: list[object] = []
    monkeypatch.setattr(trainer, "fast_bfloat16", lambda: fast)
    monkeypatch.setattr(trainer, "to_bfloat16", made.append)
    loaded, recipe = backbone.load(bert), Hyperparameters(bfloat16=wanted)
    train(examples(24), TrainingOptions(epochs=1), loaded, tmp_path / "a", recipe=recipe)
    assert [isinstance(part, torch.nn.Module) for part in made] == [True] * (fast and wanted)


@pytest.mark.parametrize("plain", [1, 4, 40])
def test_plain_tokens_cost_no_more_than_they_may(bert: str, plain: int) -> None:
    options = TrainingOptions(reconstruction=True, plain_tokens=plain)
    data = Dataset.of(examples(30, plain=plain), options, backbone.load(bert).tokenizer)
    assert data.overhead == pytest.approx(plain / 10)  # 8 words and 2 special tokens
    every = Hyperparameters(reconstruction_cost=0.45).every(data.overhead)
    assert data.overhead / every <= 0.45
    assert every == 1 or data.overhead / (every - 1) > 0.45
    assert Hyperparameters(reconstruction_cost=100.0).every(data.overhead) == 1  # as published


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
    began = time.monotonic()
    result = train(rows, TrainingOptions(), backbone.load(bert), tmp_path / "a")
    assert 0 < result.seconds <= time.monotonic() - began
    assert result.epochs > Hyperparameters().epochs
    assert result.held_out == 2


def test_labels_too_rare_to_hold_out_still_train(bert: str, tmp_path: Path) -> None:
    rows = [Example(row.text, f"label {i // 2}") for i, row in enumerate(examples(8))]
    result = train(rows, TrainingOptions(epochs=2), backbone.load(bert), tmp_path / "a")
    assert (result.held_out, result.held_out_accuracy) == (0, 0.0)


def test_a_diverging_run_names_the_learning_rate(bert: str, tmp_path: Path) -> None:
    recipe = Hyperparameters(clip=float("inf"))
    options = TrainingOptions(learning_rate=1e30, epochs=3)
    with pytest.raises(SottovoceError, match="smaller learning rate"):
        train(examples(60), options, backbone.load(bert), tmp_path / "a", recipe=recipe)


def test_what_the_tenant_chose_goes_before_the_recipe(
    bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Objective] = []

    def looked_at(model: Objective, *others: Any) -> Iterator[Losses]:
        seen.append(model)
        return fit(model, *others)

    monkeypatch.setattr(run_module, "fit", looked_at)
    chosen = TrainingOptions(
        reconstruction=True, plain_tokens=2, reconstruction_weight=0.7, reconstruction_width=5
    )
    for options in (chosen, TrainingOptions(reconstruction=True, plain_tokens=2)):
        some = replace(options, epochs=1, batch_size=16)
        train(examples(16, plain=2), some, backbone.load(bert), tmp_path / "a")
    heads = [model.model.reconstruction for model in seen]
    assert [model.weight for model in seen] == [0.7, Hyperparameters().reconstruction_weight]
    assert [head.w2.out_features for head in heads if head] == [
        5,
        Hyperparameters().reconstruction_width,
    ]


@pytest.fixture
def stepped() -> Iterator[list[dict[str, float]]]:
    """Record rate, decay and gradient norm of each AdamW step."""
    seen: list[dict[str, float]] = []

    def look(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if isinstance(optimizer, torch.optim.AdamW):
            (group,) = optimizer.param_groups
            norms = [p.grad.norm() for p in group["params"] if p.grad is not None]
            facts = {name: group[name] for name in ("lr", "weight_decay")}
            seen.append({**facts, "norm": float(torch.stack(norms).norm())})

    handle = register_optimizer_step_pre_hook(look)  # type: ignore[no-untyped-call]
    yield seen
    handle.remove()


def test_every_step_is_made_at_its_rate_and_with_its_gradient_clipped(
    bert: str, tmp_path: Path, stepped: list[dict[str, float]]
) -> None:
    options = TrainingOptions(epochs=4, batch_size=8, learning_rate=3e-3)
    recipe = Hyperparameters(warmup=0.25, clip=1e-3, weight_decay=0.07)
    file = tmp_path / "last.safetensors"
    go_on = repeat(False, 13)  # so it is stopped after some steps and goes on from there

    def run(**given: Any) -> None:
        loaded = backbone.load(bert)
        train(examples(40), options, loaded, tmp_path / "a", resume=file, recipe=recipe, **given)

    with pytest.raises(Stopped):
        run(watch=Watch(should_stop=partial(next, go_on, True)))
    assert 5 < len(stepped) < 15
    run()

    # 34 examples in 5 batches, 4 times; the rate rises over 5 steps and falls over 15.
    shares = [*((i + 1) / 5 for i in range(5)), *((20 - i) / 15 for i in range(5, 20))]
    assert [step["lr"] for step in stepped] == pytest.approx([3e-3 * share for share in shares])
    assert {step["weight_decay"] for step in stepped} == {0.07}
    assert [step["norm"] for step in stepped] == pytest.approx([1e-3] * 20, rel=1e-2)


def test_a_method_without_a_rate_asked_for_takes_its_own(
    bert: str, tmp_path: Path, stepped: list[dict[str, float]]
) -> None:
    for number, (name, kind) in enumerate(METHODS.items()):
        if name != "qlora":
            options = TrainingOptions(name, epochs=1, batch_size=40)
            train(examples(40), options, backbone.load(bert), tmp_path / str(number))
            assert stepped.pop()["lr"] == kind.learning_rate


@pytest.mark.parametrize("best", [0, 1, 2, 3])
def test_the_best_weights_are_saved_and_not_the_last(
    best: int, bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Accuracy and loss at the start and after each epoch: accuracy decides, then the loss.
    scores = [(0.5, 0.9), (0.5, 0.8), (0.6, 5.0), (0.6, 4.0), (0.5, 0.1)]
    if best < 3:
        scores[best] = (0.7, 9.0)
    passed: list[dict[str, torch.Tensor]] = []

    def scripted(model: TextClassifier, *_: Any) -> tuple[float, float]:
        passed.append({n: p.detach().clone() for n, p in model.trained().items()})
        return scores[len(passed) - 1]

    monkeypatch.setattr(trainer, "score", scripted)
    options = TrainingOptions(epochs=4, batch_size=8, learning_rate=1e-2)
    result = train(examples(40), options, backbone.load(bert), tmp_path / "a")

    assert len(passed) == 5
    assert result.held_out_accuracy == scores[best][0]
    saved = load_file(result.folder / "adapter_model.safetensors")
    head = load_file(result.folder / "head.safetensors")
    for number, weights in enumerate(passed):
        same = torch.equal(head["weight"], weights["head.weight"]) and all(
            torch.equal(t, weights[f"adapted.encoder.{_peft(name)}"]) for name, t in saved.items()
        )
        assert same is (number == best)


def _peft(name: str) -> str:
    return name.replace(".weight", ".default.weight")


def test_the_held_out_part_is_scored_as_the_model_answers(bert: str) -> None:
    loaded = backbone.load(bert)
    data = Dataset.of(examples(40), TrainingOptions(), loaded.tokenizer)
    torch.manual_seed(0)
    model = TextClassifier(loaded, Lora(), 3).eval()
    with torch.no_grad():
        logits = torch.cat([model(data.batch([place]))[0] for place in data.held])
    wanted = data.targets[data.held]
    accuracy, loss = trainer.score(model, data)
    assert accuracy == pytest.approx((logits.argmax(1) == wanted).float().mean().item())
    assert loss == pytest.approx(F.cross_entropy(logits, wanted).item(), abs=1e-5)


ANEW = TrainingOptions(epochs=2, batch_size=8)
ADDED = TrainingOptions(epochs=1, batch_size=8, continues=True)


def queue(jobs: Jobs, request_id: str, training: TrainingOptions = ANEW) -> Job:
    job = jobs.create("acme", request_id, "topics", training, RELEASE)
    uploads = [Upload(f"e{i}", row) for i, row in enumerate(examples(24))]
    append(jobs, job.id, "acme", 0, uploads, len(WORDS))
    return jobs.start(job.id, "acme", 24)


def test_what_goes_on_from_a_changed_adapter_is_trained_once_more(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = queue(jobs, "1")
    worker.run_next()
    queue(jobs, "2")
    worker.run_next()
    third = queue(jobs, "3", training=ADDED)
    of, seen = Base.of, []

    def moved(database: Database, job: Job) -> Base | None:
        found = of(database, job)
        seen.append(found.sha256 if found else "")
        if len(seen) == 1:
            reinstate(jobs, first.id)
        return found

    monkeypatch.setattr(Base, "of", moved)
    assert worker.run_next()
    assert jobs.get(third.id).state == State.SUCCEEDED
    assert len(set(seen)) == len(seen) == 2
    located = locate(jobs.database, "acme", "topics")
    assert located.folder.parent.parent.name == third.id
    assert adapters.load(located.folder).origin["base"] == seen[1]


def test_an_adapter_that_changes_each_time_ends_the_job(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = [queue(jobs, "1").id]
    worker.run_next()
    trained.append(queue(jobs, "2").id)
    worker.run_next()
    third = queue(jobs, "3", training=ADDED)
    of, rounds = Base.of, []

    def moved(database: Database, job: Job) -> Base | None:
        found = of(database, job)
        rounds.append(reinstate(jobs, trained[len(rounds) % 2]))
        assert len(rounds) <= ATTEMPTS
        return found

    monkeypatch.setattr(Base, "of", moved)
    assert worker.run_next()
    found = jobs.get(third.id)
    assert (found.state, len(rounds)) == (State.FAILED, ATTEMPTS)
    assert "the adapter was changed in each of 3 rounds" in found.message
    assert not worker.objects.place(f"jobs/{third.id}").exists()


def test_the_limit_of_time_holds_for_all_rounds_together(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = queue(jobs, "1")
    worker.run_next()
    queue(jobs, "2")
    worker.run_next()
    third = queue(jobs, "3", training=ADDED)
    of, rounds = Base.of, []

    def moved(database: Database, job: Job) -> Base | None:
        found = of(database, job)
        rounds.append(found)
        if len(rounds) == 1:
            reinstate(jobs, first.id)
        else:  # as if the first had taken so long
            with database.write() as transaction:
                change = "UPDATE jobs SET trained = 1e6 WHERE id = :job"
                transaction.change(change, job=third.id)
        return found

    monkeypatch.setattr(Base, "of", moved)
    assert worker.run_next()
    found = jobs.get(third.id)
    assert (found.state, found.trained) == (State.FAILED, 1e6)
    assert "training took longer" in found.message


def test_jobs_that_go_on_from_one_adapter_take_turns(worker: Worker, jobs: Jobs) -> None:
    queue(jobs, "1")
    worker.run_next()
    for request in "23":
        queue(jobs, request, training=ADDED)
    held = Queue(jobs.database).claim("another")
    assert held is not None
    assert not worker.run_next()
    Queue(jobs.database).finish(held[1], State.CANCELLED)
    assert worker.run_next()
    assert not worker.run_next()


def test_what_goes_on_from_an_adapter_that_is_deleted_fails_and_the_worker_goes_on(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = queue(jobs, "1")
    worker.run_next()
    second = queue(jobs, "2", training=ADDED)
    of = Base.of

    def deleted(database: Database, job: Job) -> Base | None:
        found = of(database, job)
        jobs.delete(first.id)
        return found

    monkeypatch.setattr(Base, "of", deleted)
    assert worker.run_next()
    found = jobs.get(second.id)
    assert found.state == State.FAILED
    assert "the adapter was deleted meanwhile" in found.message
    assert not [*(tmp_path / "jobs").rglob("*")]
    assert not worker.run_next()


def test_the_probe_is_the_logistic_regression_it_says() -> None:
    random = torch.Generator().manual_seed(0)
    centres = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 4.0]])
    targets = torch.arange(300) % 3
    features = centres[targets] + torch.randn(300, 2, generator=random)
    weight, bias = probe(features, targets, 0.01, 3)
    hits = (features @ weight.T + bias).argmax(1) == targets
    assert hits.float().mean() > 0.95
    # A constant column carries nothing and must not break the scaling.
    weight, bias = probe(torch.cat([features, torch.ones(300, 1)], 1), targets, 0.01, 3)
    assert bool(torch.isfinite(weight).all())


def test_a_label_that_no_example_has_is_an_outcome_all_the_same() -> None:
    random = torch.Generator().manual_seed(0)
    targets = torch.arange(60) % 2
    weight, bias = probe(torch.randn(60, 3, generator=random), targets, 0.01, 4)
    assert (weight.shape, bias.shape) == ((4, 3), (4,))
    assert int(bias.topk(2).indices.max()) == 1
