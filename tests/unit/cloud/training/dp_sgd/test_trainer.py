"""A private run learns, spends the planned budget and publishes the last iterate alone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import Example, Progress, State, Stopped, TrainingOptions, Watch
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.models import adapters, backbone
from sottovoce.cloud.models.batches import Dataset
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.cloud.serving.predictor import Predictor
from sottovoce.cloud.store.adapters import AdapterFiles, locate
from sottovoce.cloud.training.dp_sgd import steps, trainer
from sottovoce.cloud.training.dp_sgd.trainer import (
    HEAD,
    DpHyperparameters,
    PrivatePlan,
    fit_head,
    pieces,
    train_private,
)
from sottovoce.cloud.training.run import Labelled, Losses, Result, fit
from sottovoce.cloud.training.worker import Worker
from sottovoce.core.privacy.gaussian import Budget
from tests.support.examples import RELEASE, examples

RECIPE = DpHyperparameters(epochs=2, checkpoint_seconds=0.0)
ROWS = examples(600)


def private(name: str, folder: Path, method: str = "lora", **given: Any) -> Result:
    options = TrainingOptions(method=method, dp_epsilon=4.0, seed=3)
    return train_private(ROWS, options, backbone.load(name), folder, recipe=RECIPE, **given)


def test_how_wide_a_pass_is_follows_from_each_text_alone(bert: str) -> None:
    """Rounding depends on the width.

    If it depended on other texts, one text could move all gradients, and their sum by more than the
    clip.
    """
    words = ROWS[0].text.split() * 40
    rows = [Example(" ".join(words[: 1 + at % 25]), ROWS[at].label) for at in range(400)]
    options = TrainingOptions(method="lora", dp_epsilon=4.0)
    data = Dataset.of(rows, options, backbone.load(bert).tokenizer)
    widths: dict[int, set[int]] = {}
    for seed in range(8):
        chosen = np.random.default_rng(seed).choice(400, 130, replace=False).tolist()
        for piece in pieces(data, chosen, torch.device("cpu")):
            for tokens in piece.batch.attention.sum(1).tolist():
                widths.setdefault(tokens, set()).add(piece.batch.ids.shape[1])
    assert all(len(found) == 1 for found in widths.values())
    assert all(0 <= width - tokens < 4 for tokens, (width,) in widths.items())


@pytest.mark.parametrize("method", ["lora", "prompt", "prefix"])
def test_products_in_bfloat16_take_rows_of_float32(
    bert: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU computes so: its encoder stays in float32."""
    monkeypatch.setattr(trainer, "fast_bfloat16", lambda: False)
    monkeypatch.setattr(steps, "computing", lambda _: torch.autocast("cpu", torch.bfloat16))
    assert private(bert, tmp_path / "a", method).labels


@pytest.mark.parametrize("method", ["lora", "prompt", "prefix", "head"])
def test_what_was_learnt_is_served(method: str, bert: str, tmp_path: Path) -> None:
    result = private(bert, tmp_path / "a", method)
    fresh = examples(60, seed=9)
    with closing(ModelThread(backbone.load(bert))) as thread:
        predictor = Predictor(thread)
        answers = [predictor.submit(AdapterFiles.of(result.folder), row.text) for row in fresh]
        hits = [a.result()[0][0] == row.label for a, row in zip(answers, fresh, strict=True)]
    # Chance is 1/3, whose 99.999 % quantile at n = 60 is .62.
    assert sum(hits) / len(hits) > 0.62
    assert adapters.load(result.folder).method == adapters.load(tmp_path / "a").method


def test_whoever_gets_the_adapter_is_told_what_holds_and_nothing_more(
    bert: str, tmp_path: Path
) -> None:
    result = private(bert, tmp_path / "a", origin={"job": "j"})
    facts = json.loads((result.folder / "adapter.json").read_text())
    said = facts["origin"]["private"]
    assert said["epsilon"] <= 4.0
    assert said["records"] == 600
    assert said["tuning"]["steps"] == 20
    assert said["tuning"]["share"] == 0.1
    assert (result.held_out, result.held_out_accuracy) == (0, 0.0)
    assert facts["origin"]["job"] == "j"


def test_progress_tells_of_steps_and_not_of_examples(bert: str, tmp_path: Path) -> None:
    seen: list[Progress] = []
    private(bert, tmp_path / "a", watch=Watch(seen.append))
    assert [p.step for p in seen] == list(range(1, 21))
    assert {(p.loss, p.held_out_accuracy, p.examples_per_second) for p in seen} == {(0, 0, 0)}
    assert seen[-1].seconds_left == 0


def test_every_example_is_in_training_and_steps_are_samples(
    bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    usual = trainer.sample

    def seen(n: int, share: float) -> list[int]:
        assert (n, share) == (600, 0.1)
        found = usual(n, share)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(trainer, "sample", seen)
    private(bert, tmp_path / "a")
    assert len(sizes) == 20
    assert len(set(sizes)) > 1, "batches of one size are no Poisson samples"


def test_a_resumed_run_makes_the_steps_that_were_planned_and_no_more(
    bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    heads: list[float] = []

    def counted(model: Any, batches: Any, *rest: Any) -> Iterator[Losses]:
        for losses in fit(model, batches, *rest):
            steps.append(1)
            yield losses

    usual = trainer.fit_head

    def head(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        heads.append(given[-1].noise)
        return usual(*given)

    monkeypatch.setattr(trainer, "fit", counted)
    monkeypatch.setattr(trainer, "fit_head", head)
    file = tmp_path / "checkpoints" / "last.safetensors"
    for asked in (26, 7):  # 19 before the passes for the head, then one a step
        with pytest.raises(Stopped):
            private(
                bert,
                tmp_path / "a",
                resume=file,
                watch=Watch(should_stop=partial(next, repeat(False, asked), True)),
            )
        assert not (tmp_path / "a").exists()
    made = len(steps)
    assert 0 < made < 20
    private(bert, tmp_path / "a", resume=file)
    assert len(steps) == 20
    assert len(heads) == 1


def test_the_rate_falls_to_nothing_and_goes_on_falling_where_it_was(
    bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[float]] = []

    def noted(model: Any, batches: Any, rates: Iterable[float], update: Any) -> Iterator[Losses]:
        begun.append([*rates])
        return fit(model, batches, begun[-1], update)

    monkeypatch.setattr(trainer, "fit", noted)
    file = tmp_path / "checkpoints" / "last.safetensors"
    with pytest.raises(Stopped):
        private(
            bert,
            tmp_path / "a",
            resume=file,
            watch=Watch(should_stop=partial(next, repeat(False, 26), True)),
        )
    private(bert, tmp_path / "a", resume=file)
    whole, rest = begun
    usual = 5 * from_options(TrainingOptions()).learning_rate
    assert whole == pytest.approx(np.linspace(usual, usual / 20, 20))
    assert 0 < len(rest) < 20
    assert rest == whole[-len(rest) :]


@pytest.mark.parametrize(
    ("records", "batch_size", "share"),
    [(2_000, 0, 0.1), (40_960, 0, 1_024 / 40_960), (2_000, 500, 0.25), (2_000, 4_000, 1.0)],
)
def test_a_step_sees_a_tenth_a_thousand_or_what_the_tenant_says(
    records: int, batch_size: int, share: float
) -> None:
    options = TrainingOptions(dp_epsilon=4.0, batch_size=batch_size)
    tuning = DpHyperparameters().plan(options, records).tuning
    assert tuning is not None
    assert (tuning.share, tuning.steps) == (share, math.ceil(4 / share))


def test_a_resumed_run_draws_other_noise(bert: str, tmp_path: Path) -> None:
    """From one checkpoint two different ends: the noise that is to come is in no file."""
    file = tmp_path / "checkpoints" / "last.safetensors"
    with pytest.raises(Stopped):
        private(
            bert,
            tmp_path / "a",
            resume=file,
            watch=Watch(should_stop=partial(next, repeat(False, 26), True)),
        )
    kept = file.read_bytes()
    ends = []
    for name in ("b", "c"):
        file.write_bytes(kept)
        result = private(bert, tmp_path / name, resume=file)
        ends.append(load_file(result.folder / "head.safetensors")["weight"])
    assert not torch.equal(*ends)


def test_the_last_weights_are_published(
    bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the best: to choose among iterates is to look at the examples once more."""
    last: dict[str, torch.Tensor] = {}
    usual = trainer.Private

    class Watched(usual):  # type: ignore[misc, valid-type]
        def __call__(self, model: Any, batch: Sequence[Labelled], rate: float) -> Losses:
            losses: Losses = super().__call__(model, batch, rate)
            last.update({n: v.clone() for n, v in self.trained.values.items()})
            return losses

    monkeypatch.setattr(trainer, "Private", Watched)
    result = private(bert, tmp_path / "a")
    head = load_file(result.folder / "head.safetensors")
    assert torch.equal(head["bias"], last["bias"])


def test_plan_and_run_agree(bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    updates: list[Any] = []
    usual = trainer.Private

    def watched(*given: Any) -> Any:
        updates.append(given)
        return usual(*given)

    monkeypatch.setattr(trainer, "Private", watched)
    result = private(bert, tmp_path / "a")
    said = json.loads((result.folder / "adapter.json").read_text())["origin"]["private"]
    ((_, _, stage, records),) = updates
    assert {name: getattr(stage, name) for name in said["tuning"]} == said["tuning"]
    assert records == said["records"] == 600
    assert isinstance(RECIPE.plan(TrainingOptions(dp_epsilon=4.0), 600), PrivatePlan)


def test_a_private_job_is_trained_privately(worker: Worker, jobs: Jobs) -> None:
    options = TrainingOptions(method="head", dp_epsilon=2.0)
    job = jobs.create("acme", "r", "topics", options, RELEASE)
    append(jobs, job.id, "acme", 0, [Upload(f"e{i}", row) for i, row in enumerate(examples(24))], 0)
    jobs.start(job.id, "acme", 24)
    assert worker.run_next()
    found = jobs.get(job.id)
    assert found.state == State.SUCCEEDED
    assert (found.progress.loss, found.progress.held_out_accuracy) == (0.0, 0.0)
    origin = adapters.load(locate(jobs.database, "acme", "topics").folder).origin
    assert 1.9 < origin["private"]["epsilon"] <= 2.0
    assert origin["job"] == job.id


def two_clouds(n: int = 4_000) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    targets = torch.arange(n) % 2
    features = torch.randn(n, 16, generator=random)
    features[:, 0] += 3.0 * targets - 1.5
    return features / 4, targets


def test_it_learns_at_epsilon_1() -> None:
    features, targets = two_clouds()
    plan = PrivatePlan.within(Budget(1.0, 1e-5), len(features), head=HEAD)
    weight, bias = fit_head(features, targets, 2, plan.head)
    hits = (features @ weight.T + bias).argmax(1) == targets
    assert hits.float().mean() > 0.9


def test_noise_alone_learns_nothing() -> None:
    features, targets = two_clouds()
    weight, bias = fit_head(features, targets, 2, replace(HEAD, noise=1e6))
    hits = (features @ weight.T + bias).argmax(1) == targets
    assert 0.1 < hits.float().mean() < 0.9


def test_what_a_step_sums_is_the_clipped_gradient_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """By autograd, one example at a time, at the first step."""
    features, targets = two_clouds(12)
    features[3] *= 100
    seen: list[Tensor] = []

    def caught(sums: dict[str, Tensor], *_: object) -> dict[str, Tensor]:
        seen.append(sums[""])
        return {"": torch.zeros_like(sums[""])}

    monkeypatch.setattr(trainer, "noisy_mean", caught)
    fit_head(features, targets, 3, replace(HEAD, steps=1))
    expected = torch.zeros(3, 17)
    for feature, target in zip(features, targets, strict=True):
        weight = torch.zeros(3, 17, requires_grad=True)
        logits = weight @ torch.cat([feature, torch.ones(1)])
        (alone,) = torch.autograd.grad(F.cross_entropy(logits[None], target[None]), weight)
        expected += alone * min(1.0, HEAD.clip / float(alone.norm()))
    assert torch.allclose(seen[0].float(), expected, atol=1e-5)


@pytest.mark.parametrize("n", [64, 30_000])
def test_one_example_more_moves_the_sum_by_at_most_the_clip(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for many parallel gradients: in float32 their sum would be rounded differently."""
    features, targets = two_clouds(n)
    targets = torch.zeros_like(targets)
    features = features / 50 + features[0]
    features[-1] *= 1e4
    seen: list[Tensor] = []

    def caught(sums: dict[str, Tensor], *_: object) -> dict[str, Tensor]:
        seen.append(sums[""])
        return {"": torch.zeros_like(sums[""])}

    monkeypatch.setattr(trainer, "noisy_mean", caught)
    for last in (n - 1, n):
        fit_head(features[:last], targets[:last], 2, replace(HEAD, steps=1))
    assert 0 < float((seen[1].double() - seen[0].double()).norm()) <= HEAD.clip * (1 + 1e-7)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_an_example_without_a_number_counts_as_nothing(wrong: float) -> None:
    features, targets = two_clouds(100)
    weights = []
    for spoilt in (0.0, wrong):
        features[3] = spoilt
        kept = slice(None) if spoilt else [at for at in range(100) if at != 3]
        weights.append(fit_head(features[kept], targets[kept], 2, replace(HEAD, noise=1e-12))[0])
    # Divided by one more: the rates differ by one in a hundred, and nothing else does.
    assert torch.nn.functional.cosine_similarity(*(w.flatten() for w in weights), dim=0) > 0.999
