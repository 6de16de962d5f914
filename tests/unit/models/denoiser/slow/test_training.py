"""Training learns, resumes exactly, and leaves a model that works with and without answers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sottovoce.models import denoiser_training
from sottovoce.models.denoiser_data import Answers, Passages
from sottovoce.models.denoiser_training import DenoiserHyperparameters, Model, Size

TOKENS, WIDTH = 60, 16
SIZE = Size(width=WIDTH, table=8, state=12, layers=1, heads=2, hidden=12, mixing=16)
RECIPE = DenoiserHyperparameters(epochs=6, helped_epochs=6, tokens=256, size=SIZE)


@pytest.fixture(scope="module")
def passages() -> Passages:
    random = np.random.default_rng(0)
    lengths = random.integers(1, 12, 400)
    return Passages(random.integers(0, TOKENS, lengths.sum()).astype(np.int32), lengths.cumsum())


@pytest.fixture(scope="module")
def meanings() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((TOKENS, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def targets(passages: Passages, meanings: np.ndarray) -> np.ndarray:
    """Sums of meanings that no narrow table can hold exactly."""
    rows = np.stack([meanings[passages[place]].mean(axis=0) for place in range(len(passages))])
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


@pytest.fixture
def answers(targets: np.ndarray) -> Answers:
    """Clean embeddings under noise that grows as eta falls."""
    random = np.random.default_rng(2)
    eta = random.uniform(10, 40, len(targets)).astype(np.float32)
    noisy = targets + random.standard_normal(targets.shape) * (4 / eta[:, None])
    return Answers(eta, (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float16))


def start(meanings: np.ndarray) -> Model:
    torch.manual_seed(0)
    return denoiser_training.first_rows(
        meanings, np.full(TOKENS, -np.log(TOKENS), np.float32), SIZE
    )


def cosine(found: np.ndarray, targets: np.ndarray) -> float:
    return float((found * targets.astype(np.float32)).sum(axis=1).mean())


def test_answers_help_and_the_encoder_stays_good_without(
    passages: Passages, targets: np.ndarray, meanings: np.ndarray, answers: Answers
) -> None:
    model = start(meanings)
    first = cosine(denoiser_training.predict(model, passages), targets)
    denoiser_training.fit(model, passages, targets, RECIPE)
    local = cosine(denoiser_training.predict(model, passages), targets)
    denoiser_training.fit(model, passages, targets, RECIPE, answers=answers)
    still = cosine(denoiser_training.predict(model, passages), targets)
    helped = cosine(denoiser_training.predict(model, passages, answers), targets)

    assert local > first
    assert still > local - 0.06  # few steps, and all of them shared with the answers
    assert helped > still + 0.01


def test_a_stopped_run_ends_as_the_whole_one(
    passages: Passages,
    targets: np.ndarray,
    meanings: np.ndarray,
    answers: Answers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(denoiser_training, "_KEPT_EVERY", 0.0)
    whole = denoiser_training.fit(start(meanings), passages, targets, RECIPE, answers=answers)
    kept = tmp_path / "run.safetensors"

    def stop(stage: str, done: int, total: int) -> None:
        if done > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        denoiser_training.fit(
            start(meanings), passages, targets, RECIPE, answers=answers, kept=kept, progress=stop
        )
    again = denoiser_training.fit(
        start(meanings), passages, targets, RECIPE, answers=answers, kept=kept
    )
    for name, parameter in whole.named_parameters():
        torch.testing.assert_close(again.get_parameter(name), parameter, atol=1e-5, rtol=1e-3)

    seen: list[int] = []
    denoiser_training.fit(
        start(meanings),
        passages,
        targets,
        RECIPE,
        answers=answers,
        kept=kept,
        progress=lambda stage, done, total: seen.append(done),
    )
    assert seen == []  # a finished run is not run again


def test_a_damaged_checkpoint_starts_over(
    passages: Passages, targets: np.ndarray, meanings: np.ndarray, tmp_path: Path
) -> None:
    kept = tmp_path / "run.safetensors"
    kept.write_bytes(b"not safetensors")
    recipe = replace(RECIPE, epochs=1)
    found = denoiser_training.fit(start(meanings), passages, targets, recipe, kept=kept)
    wanted = denoiser_training.fit(start(meanings), passages, targets, recipe)
    torch.testing.assert_close(found.table.weight, wanted.table.weight)


def test_batches_hold_every_passage_once_and_no_more_than_asked(passages: Passages) -> None:
    lengths = passages.lengths
    found = denoiser_training.batches(lengths, 64, np.random.default_rng(0))

    assert sorted(np.concatenate(found).tolist()) == list(range(len(passages)))
    assert all(len(batch) * lengths[batch].max() <= 64 for batch in found)
