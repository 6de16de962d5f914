"""Train, certify and measure a denoiser for one bundle, from text files to the shipped folder.

The work folder holds each step's result under a name made from its inputs. So a stopped run
continues. A new privacy space reuses the clean embeddings and the sentence encoder, which do not
depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.encoder import Encoder, PosteriorMean
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import EmbedLevel
from sottovoce.core.errors import BundleMismatch, InvalidInput, NotReady
from sottovoce.core.privacy.denoiser import Denoiser, vocabulary_hash
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.models import denoiser_data, denoiser_training
from sottovoce.models.calibration_attack import calibrate_tokens
from sottovoce.models.denoiser_data import Answers, Passages, Progress
from sottovoce.models.denoiser_training import DenoiserHyperparameters, Model

BEYOND: Final = (0.75, 1.35)
"""Lowest and highest eta of training, in parts of the strongest and the lightest level's eta."""

CERTIFIED: Final = 0.999
"""Least mean cosine of the int8 denoiser with the float network, at every level."""

_FIRST_STAGE: Final = ("epochs", "tokens", "learning_rate", "seed", "size")
"""The hyperparameters that the sentence encoder depends on."""

HELD_OUT: Final = 2_000
"""Passages kept from training, to measure on; a tenth if passages are few."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Mean cosines with the clean embedding over held-out passages, at one level.

    Attributes:
        eta: of the level.
        map_attack: share of tokens the strongest attacker recovers there.
        answer: of the cloud's raw answer.
        local: of the shipped denoiser without an answer.
        denoised: of the shipped denoiser with an answer.
        int8: of the shipped denoiser with the float network.
    """

    eta: float
    map_attack: float
    answer: float
    local: float
    denoised: float
    int8: float


@dataclass(frozen=True, slots=True)
class _Cloud:
    """The parts that make answers: one backbone, one privacy space."""

    encoder: Encoder
    posterior: PosteriorMean
    space: NDArray[np.float32]
    facts: Mapping[str, Any]

    def answers(
        self,
        passages: Passages,
        eta_range: tuple[float, float],
        work: Path,
        seed: int,
        progress: Progress | None = None,
    ) -> Answers:
        """Return `sottovoce.models.denoiser_data.answers`, kept under the name of its inputs."""
        facts = {**self.facts, "eta": eta_range, "seed": seed, "passages": passages.sha256}
        folder = denoiser_data.named(work, "answers", **facts)
        return denoiser_data.answers(
            passages,
            self.encoder,
            self.posterior,
            self.space,
            eta_range,
            folder,
            seed=seed,
            progress=progress,
        )


def train_denoiser(
    paths: Sequence[Path],
    bundle: Bundle,
    out: Path,
    *,
    work: Path,
    backbone: str = "default",
    recipe: DenoiserHyperparameters | None = None,
    most: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> dict[str, Measured]:
    """Train a denoiser for ``bundle`` and writes it to ``out``.

    Args:
        paths: see `sottovoce.models.denoiser_data.read`.
        bundle: gives the privacy space and token frequencies. It needs no denoiser.
        out: folder to write.
        work: folder for intermediate results.
        backbone: name or path, of the weights the bundle was made from.
        most: the most passages to use.
        progress: called after every step.

    Returns:
        The figures, by level.

    Raises:
        InvalidInput: the data are not usable.
        BundleMismatch: the bundle is for another backbone.
        NotReady: the bundle lacks token frequencies, or the int8 network is too far from the
            float network.
    """
    recipe = recipe or DenoiserHyperparameters()
    model = backbones.load(backbone)
    size = replace(recipe.size, width=model.hidden_size)
    recipe = replace(recipe, size=replace(size, table=min(size.table, size.width)))
    if model.sha256 != bundle.manifest.backbone.sha256:
        raise BundleMismatch(
            f"the bundle is for backbone {bundle.manifest.backbone.name!r}, not {model.name!r}",
            fix="build a bundle from this backbone first",
            subject="bundle",
        )
    encoder = Encoder(model, device)
    log_prior = _log_prior(bundle)
    space = unit_rows(np.asarray(bundle.tokens))
    embeddings = backbones.input_embeddings(model)
    posterior = PosteriorMean(space, embeddings, log_prior, device)
    cloud = _Cloud(
        encoder,
        posterior,
        space,
        {"backbone": model.sha256, **denoiser_data.space_facts(bundle.tokens)},
    )
    if progress:
        progress("reading", 0, 1)
    texts = denoiser_data.passages(denoiser_data.read(paths))[:most]
    everything = denoiser_data.tokenize(model.tokenizer, texts)
    learnt, held = _split(everything)
    kept = {"backbone": model.sha256, "passages": everything.sha256}
    targets = denoiser_data.clean(
        everything, encoder, denoiser_data.named(work, "clean", **kept), progress
    )

    choices = asdict(recipe)
    first = {**kept, **{name: choices[name] for name in _FIRST_STAGE}}
    torch.manual_seed(recipe.seed)
    tokens = [encoder.token_embeddings([token]) for token in range(len(embeddings))]
    fitted = denoiser_training.first_rows(
        denoiser_data.encode(encoder, tokens), log_prior, recipe.size
    )
    denoiser_training.fit(
        fitted,
        learnt,
        targets[: len(learnt)],
        recipe,
        kept=denoiser_data.named(work, "encoder", **first).with_suffix(".safetensors"),
        device=device,
        progress=progress,
    )

    levels = calibrate_tokens(space, log_prior)
    eta_range = _eta_range(levels)
    answered = learnt.first(min(recipe.answers, len(learnt)))
    second = {**first, **cloud.facts, "eta": eta_range, "recipe": choices}
    denoiser_training.fit(
        fitted,
        answered,
        targets[: len(answered)],
        recipe,
        answers=cloud.answers(answered, eta_range, work, recipe.seed, progress),
        kept=denoiser_data.named(work, "helped", **second).with_suffix(".safetensors"),
        device=device,
        progress=progress,
    )

    facts = {
        "backbone": {"name": model.name, "sha256": model.sha256},
        "vocabulary": vocabulary_hash(bundle.tokenizer_file),
        "space": denoiser_data.space_facts(bundle.tokens),
        "eta": eta_range,
        "recipe": choices,
    }
    denoiser_training.write(fitted.cpu(), out, facts)
    shipped = Denoiser.load(out, bundle)
    truth = targets[len(learnt) :].astype(np.float32)
    found = {
        name: _measure(fitted, shipped, held, truth, cloud, level, work)
        for name, level in levels.items()
    }
    _certify(found, out)
    denoiser_training.write(
        fitted, out, {**facts, "levels": {n: asdict(m) for n, m in found.items()}}
    )
    return found


def _log_prior(bundle: Bundle) -> NDArray[np.float32]:
    try:
        log_prior: NDArray[np.float32] = np.load(
            bundle.folder / "token_prior.npy", allow_pickle=False
        )
    except OSError as error:
        raise NotReady(
            "the bundle has no token frequencies",
            fix="build it again with `sotto-cloud build-bundle`",
            subject="bundle",
        ) from error
    return log_prior


def _split(passages: Passages) -> tuple[Passages, Passages]:
    held = min(HELD_OUT, len(passages) // 10)
    if not held:
        raise InvalidInput(
            f"{len(passages)} passages are too few to train on", fix="add text", subject="data"
        )
    learnt = passages.first(len(passages) - held)
    end = learnt.ends[-1]
    return learnt, Passages(passages.flat[end:], passages.ends[len(learnt) :] - end)


def _eta_range(levels: Mapping[str, EmbedLevel]) -> tuple[float, float]:
    etas = [level.eta for level in levels.values()]
    return round(min(etas) * BEYOND[0], 2), round(max(etas) * BEYOND[1], 2)


def _measure(
    model: Model,
    shipped: Denoiser,
    held: Passages,
    truth: NDArray[np.float32],
    cloud: _Cloud,
    level: EmbedLevel,
    work: Path,
) -> Measured:
    answers = cloud.answers(held, (level.eta, level.eta), work, seed=1)
    exact = denoiser_training.predict(model, held, answers)
    places = range(len(held))
    local = np.stack([shipped.local(held[place].tolist()) for place in places])
    denoised = np.stack(
        [
            shipped.denoise(held[i].tolist(), answers.embeddings[i].astype(np.float32), level.eta)
            for i in places
        ]
    )

    def mean_cosine(found: NDArray[Any], wanted: NDArray[np.float32]) -> float:
        return float((found.astype(np.float32) * wanted).sum(axis=1).mean())

    return Measured(
        eta=level.eta,
        map_attack=level.map_attack,
        answer=mean_cosine(answers.embeddings, truth),
        local=mean_cosine(local, truth),
        denoised=mean_cosine(denoised, truth),
        int8=mean_cosine(denoised, exact),
    )


def _certify(found: Mapping[str, Measured], out: Path) -> None:
    for name, figures in found.items():
        if figures.int8 < CERTIFIED:
            raise NotReady(
                f"in {out}, at level {name!r}, int8 has cosine {figures.int8:.4f} with float32",
                fix=f"at least {CERTIFIED} is asked; train longer or with another seed",
                subject="denoiser",
            )
