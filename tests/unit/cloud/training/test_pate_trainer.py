"""The student learns from what teachers answered, once and for all, and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sottovoce.cloud.job import Example, Progress, State, Stopped, TrainingOptions, Watch
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.models import adapters, backbone
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.cloud.serving.predictor import Predictor
from sottovoce.cloud.store.adapters import AdapterFiles, locate
from sottovoce.cloud.training import pate_trainer
from sottovoce.cloud.training.pate_trainer import fit_teacher, train_pate
from sottovoce.cloud.training.run import Result
from sottovoce.cloud.training.trainer import Hyperparameters
from sottovoce.cloud.training.worker import Worker
from sottovoce.core.errors import NotReady
from sottovoce.core.privacy.votes import Ints, VotePlan, deal
from tests.support.examples import RELEASE, examples

RECIPE = Hyperparameters(least_steps=10, checkpoint_seconds=0.0)
OPTIONS = TrainingOptions(method="head", dp_epsilon=40.0, pate=True)
PUBLIC = [Example(row.text, "") for row in examples(80, seed=5)]
ROWS = [*examples(720), *PUBLIC]

Answers = dict[int, int]


def trained(
    name: str,
    folder: Path,
    rows: Sequence[Example] = ROWS,
    options: TrainingOptions = OPTIONS,
    **given: Any,
) -> Result:
    return train_pate(rows, options, backbone.load(name), folder, recipe=RECIPE, **given)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Ints, VotePlan, Answers]]:
    """Counts, plan and answers of every vote."""
    seen: list[tuple[Ints, VotePlan, Answers]] = []
    usual = pate_trainer.ask

    def ask(counts: Ints, plan: VotePlan) -> Answers:
        answers = usual(counts, plan)
        seen.append((counts, plan, answers))
        return answers

    monkeypatch.setattr(pate_trainer, "ask", ask)
    return seen


@pytest.mark.parametrize("method", ["head", "lora"])
def test_what_was_learnt_is_served(method: str, bert: str, tmp_path: Path) -> None:
    options = TrainingOptions(method=method, dp_epsilon=40.0, pate=True)
    result = trained(bert, tmp_path / "a", options=options)
    fresh = examples(60, seed=9)
    with closing(ModelThread(backbone.load(bert))) as thread:
        predictor = Predictor(thread)
        answers = [predictor.submit(AdapterFiles.of(result.folder), row.text) for row in fresh]
        hits = [a.result()[0][0] == row.label for a, row in zip(answers, fresh, strict=True)]
    # Chance is 1/3, whose 99.999 % quantile at n = 60 is .62.
    assert sum(hits) / len(hits) > 0.62


def test_whoever_gets_the_adapter_is_told_what_ran(
    bert: str, tmp_path: Path, asked: list[tuple[Ints, VotePlan, Answers]]
) -> None:
    result = trained(bert, tmp_path / "a", origin={"job": "j"})
    facts = json.loads((result.folder / "adapter.json").read_text())
    ((counts, plan, answers),) = asked
    assert facts["origin"]["private"] == json.loads(json.dumps(plan.to_dict()))
    assert facts["origin"]["private"]["mechanism"] == "pate"
    assert facts["origin"]["job"] == "j"
    assert 0 < plan.epsilon <= 40.0
    assert counts.shape == (80, 3)
    assert bool((counts.sum(1) == plan.teachers).all())
    assert len(answers) <= plan.answer.steps


def test_the_student_sees_public_texts_and_answers_alone(
    bert: str,
    tmp_path: Path,
    asked: list[tuple[Ints, VotePlan, Answers]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[list[Example]] = []
    usual = pate_trainer.train

    def train(rows: list[Example], options: TrainingOptions, *rest: Any, **more: Any) -> Result:
        assert (options.dp_epsilon, options.pate) == (0.0, False)
        given.append(rows)
        return usual(rows, options, *rest, **more)

    monkeypatch.setattr(pate_trainer, "train", train)
    result = trained(bert, tmp_path / "a")
    ((_, _, answers),) = asked
    assert result.labels == ("garden", "kitchen", "office")
    assert given == [
        [Example(PUBLIC[at].text, result.labels[label]) for at, label in sorted(answers.items())]
    ]


def test_labels_are_those_declared_and_not_those_voted_for(
    bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adapter without a label would tell that no teacher's vote for it came through."""
    monkeypatch.setattr(pate_trainer, "ask", lambda *_: dict.fromkeys(range(20), 1))
    result = trained(bert, tmp_path / "a")
    assert result.labels == ("garden", "kitchen", "office")
    assert len(adapters.load(result.folder).labels) == 3


def test_one_record_more_moves_one_vote_to_the_bit(
    bert: str,
    tmp_path: Path,
    asked: list[tuple[Ints, VotePlan, Answers]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pate_trainer, "deal", lambda n, k: deal(n, k, np.random.default_rng(3)))
    # Labels by chance, so that votes are close and a little moves them.
    labels = np.random.default_rng(4).choice(["garden", "kitchen", "office"], 720)
    close = [Example(row.text, label) for row, label in zip(ROWS, labels, strict=False)]
    odd = Example("leaf " * 60, "office")
    for rows in ([*close, odd, *PUBLIC], [*close, *PUBLIC]):
        trained(bert, tmp_path / "a", rows)
    (with_it, more, _), (without, fewer, _) = asked
    assert more.teachers == fewer.teachers == 12
    moved = np.abs(with_it - without).sum(1)
    assert int(moved.max()) == 2
    assert np.abs(with_it.max(1) - without.max(1)).max() <= 1


def test_answers_are_drawn_once(
    bert: str, tmp_path: Path, asked: list[tuple[Ints, VotePlan, Answers]]
) -> None:
    """Stopped while votes are counted, then while the student learns: one draw is ever used."""
    file = tmp_path / "checkpoints" / "last.safetensors"
    kept: list[int] = []

    def watched(**by: Any) -> Watch:
        return Watch(on_checkpoint=lambda: kept.append(1), **by)

    run = partial(
        trained,
        bert,
        tmp_path / "a",
        options=TrainingOptions(method="lora", dp_epsilon=40.0, pate=True),
        resume=file,
    )
    with pytest.raises(Stopped):
        run(watch=watched(should_stop=partial(next, repeat(False, 10), True)))
    assert (len(asked), kept) == (0, []), "nothing was written down, and nothing was told"
    with pytest.raises(Stopped):
        run(watch=watched(should_stop=lambda: len(kept) > 3))
    assert len(asked) == 1
    assert kept
    written = json.loads((file.parent / "answers.json").read_text())["answers"]
    steps: list[Progress] = []
    run(watch=watched(on_progress=steps.append))
    assert len(asked) == 1
    assert json.loads((file.parent / "answers.json").read_text())["answers"] == written
    assert steps[0].step > 1, "the student goes on where it was"


def test_a_student_never_goes_on_from_another_draws_checkpoint(bert: str, tmp_path: Path) -> None:
    file = tmp_path / "checkpoints" / "last.safetensors"
    for _ in range(2):
        trained(bert, tmp_path / "a", resume=file)
        (file.parent / "answers.json").unlink()
    assert len(list(file.parent.glob("*.safetensors"))) == 2


def test_too_few_answers_make_no_student(
    bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pate_trainer, "ask", lambda *_: {0: 1})
    with pytest.raises(NotReady, match="agreed on 1 of 80 public texts"):
        trained(bert, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_job_by_pate_is_trained_by_pate(worker: Worker, jobs: Jobs) -> None:
    job = jobs.create("acme", "r", "topics", OPTIONS, RELEASE)
    append(jobs, job.id, "acme", 0, [Upload(f"e{i}", row) for i, row in enumerate(ROWS)], 0)
    jobs.start(job.id, "acme", len(ROWS))
    assert worker.run_next()
    found = jobs.get(job.id)
    assert (found.state, found.labels) == (State.SUCCEEDED, ("garden", "kitchen", "office"))
    origin = adapters.load(locate(jobs.database, "acme", "topics").folder).origin
    assert origin["private"]["mechanism"] == "pate"
    assert origin["private"]["records"] == 720
    assert origin["training"]["pate"] is True


def test_a_job_without_public_texts_is_refused_at_the_start(jobs: Jobs) -> None:
    job = jobs.create("acme", "r", "topics", OPTIONS, RELEASE)
    rows = [*examples(40), *PUBLIC[:31]]
    append(jobs, job.id, "acme", 0, [Upload(f"e{i}", row) for i, row in enumerate(rows)], 0)
    with pytest.raises(NotReady, match="31 public texts, PATE needs at least 32"):
        jobs.start(job.id, "acme", len(rows))


def test_noise_is_of_the_operating_system_whatever_the_seed(
    bert: str, tmp_path: Path, asked: list[tuple[Ints, VotePlan, Answers]]
) -> None:
    for name in ("a", "b"):
        torch.manual_seed(0)
        trained(bert, tmp_path / name)
    (_, _, answers), (_, _, others) = asked
    assert answers != others


def test_a_teacher_learns_its_share() -> None:
    random = torch.Generator().manual_seed(0)
    targets = torch.arange(60) % 2
    features = torch.randn(60, 5, generator=random) + 2.0 * targets[:, None]
    weight = fit_teacher(torch.cat([features, torch.ones(60, 1)], 1), targets, 3)
    assert weight.shape == (6, 3)
    hits = (torch.cat([features, torch.ones(60, 1)], 1) @ weight).argmax(1) == targets
    assert hits.float().mean() > 0.9
