"""Was this example among those an adapter learnt from? The likelihood ratio attack, on line.

Why it is here: an adapter is an output too. LiRA (Carlini et al., 2022) trains shadow models on
random halves of a pool and asks of every example whether the confidence of the model at hand is
more like that of models that had it or of those that had not. Each model is in turn the one at
hand and the others its shadows, so every figure is over models times examples.

The attacker here knows the pool with its labels, the trainer and its settings, and may ask the
adapter for probabilities: the strongest position that the paper of PromptDPSGD considers.

    python -m bench.attacks.membership --quick
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from bench import console
from bench.attacks.interface import Floats
from bench.console import Figures, table
from bench.data import require, rows
from bench.resampling import drawn, interval
from sottovoce.cloud.job import Example, TrainingOptions
from sottovoce.cloud.models import adapters, backbone
from sottovoce.cloud.models.batches import collate, encode
from sottovoce.cloud.models.classifier import encoder_of, pool
from sottovoce.cloud.models.rows import Row, run
from sottovoce.cloud.private.head import HEAD, fit_head
from sottovoce.cloud.private.plan import Budget, PrivatePlan
from sottovoce.cloud.training.linear_probe import probe
from sottovoce.cloud.training.private_trainer import train_private
from sottovoce.cloud.training.trainer import Recipe, train

__all__ = ["confidences", "halves", "likelihood_ratios", "success"]

Bools = NDArray[np.bool_]
Learner = Callable[[Bools], torch.Tensor]
"""From who is in training, Bools1d (N,), to log-probabilities of all labels, Float (N, C)."""

ALARMS: Final = (0.01, 0.001)
"""False alarms at which the members found are counted."""

TASKS: Final = ("sst2", "trec", "agnews", "dbpedia")

_FEW: Final = 64
"""With fewer shadows, spreads are estimated over all examples together."""
_ROWS: Final = 64


def halves(models: int, examples: int, random: np.random.Generator) -> Bools:
    """Who is in which model's training: Bools2d (models, examples), each in half of the models."""
    order = random.permuted(np.tile(np.arange(models)[:, None], examples), axis=0)
    return order < models // 2


def confidences(log_probabilities: torch.Tensor, targets: torch.Tensor) -> Floats:
    """log p / (1 - p) of the right label: Floats1d (N,). Nearly normal over models."""
    right = log_probabilities.double().gather(1, targets[:, None])[:, 0]
    wrong = torch.log(-torch.expm1(right.clamp(max=-1e-12)))
    found: Floats = (right - wrong).numpy()
    return found


def likelihood_ratios(seen: Floats, members: Bools) -> NDArray[np.float64]:
    """log p(seen | in) - log p(seen | out), each model judged by all the others.

    Args:
        seen: Floats2d (models, examples), see `confidences`.
        members: Bools2d (models, examples).

    Returns:
        Floats2d (models, examples).
    """
    scores = np.zeros(seen.shape)
    for at in range(len(seen)):
        others = np.arange(len(seen)) != at
        for inside, sign in ((True, 1.0), (False, -1.0)):
            chosen = np.where(members[others] == inside, seen[others], np.nan)  # (models - 1, N)
            mean, spread = np.nanmean(chosen, axis=0), np.nanstd(chosen, axis=0)
            if len(seen) < _FEW:
                spread = np.sqrt(np.nanmean((chosen - mean) ** 2))
            scores[at] += sign * norm.logpdf(seen[at], mean, spread + 1e-6)
    return scores


def success(scores: NDArray[np.float64], members: Bools) -> Figures:
    """Area under the curve and members found at few false alarms, with intervals over models."""
    picks = drawn(len(scores))

    def figures(of: Callable[[NDArray[np.float64], Bools], float]) -> dict[str, Any]:
        alone = np.array([of(*each) for each in zip(scores, members, strict=True)])
        return {"mean": float(alone.mean()), "interval": interval(picks @ alone / len(alone))}

    table_row: Figures = {"auc": figures(_auc)}
    pooled = np.sort(scores[~members])[::-1]
    for share in ALARMS:
        bar = float(pooled[int(share * len(pooled))])
        table_row[f"found_at_{share:g}"] = figures(partial(_above, bar))
    return table_row


def _above(bar: float, scores: NDArray[np.float64], members: Bools) -> float:
    return float((scores > bar)[members].mean())


def _auc(scores: NDArray[np.float64], members: Bools) -> float:
    ranks, inside = rankdata(scores), members.sum()
    above = ranks[members].sum() - inside * (inside + 1) / 2
    return float(above / (inside * (~members).sum()))


class Pool:
    """The examples that members are drawn from, and ways to learn from some of them."""

    def __init__(self, data: Path, task: str, size: int) -> None:
        found = rows(data / task / "train.tsv.gz")
        chosen = np.random.default_rng(1).choice(len(found), size, replace=False)
        labels = sorted({found[at]["label"] for at in chosen})
        self.examples = [Example(found[at]["text"], found[at]["label"]) for at in chosen]
        self.targets = torch.tensor([labels.index(each.label) for each in self.examples])
        self.labels = len(labels)
        self.features = self._states(backbone.load(), Row())
        self.scale = float(self.features.norm(dim=1).mean())

    def learners(self, epsilons: tuple[float, ...], methods: tuple[str, ...]) -> dict[str, Learner]:
        """By name; heads on frozen states first."""
        found: dict[str, Learner] = {"head": self._head}
        for epsilon in epsilons:
            found[f"head, epsilon {epsilon:g}"] = self._private_head(epsilon)
        for method in methods:
            found[method] = self._adapter(TrainingOptions(method=method))
            for epsilon in epsilons:
                asked = TrainingOptions(method=method, dp_epsilon=epsilon)
                found[f"{method}, epsilon {epsilon:g}"] = self._adapter(asked)
        return found

    def _head(self, inside: Bools) -> torch.Tensor:
        rows = torch.from_numpy(np.flatnonzero(inside))
        weight, bias = probe(self.features[rows], self.targets[rows], Recipe().probe_penalty)
        return torch.log_softmax(self.features @ weight.T + bias, 1)

    def _private_head(self, epsilon: float) -> Learner:
        size = len(self.examples) // 2
        stage = PrivatePlan.within(Budget.of(epsilon, 0.0, size), size, head=HEAD).head
        features = self.features / self.scale

        def learn(inside: Bools) -> torch.Tensor:
            rows = torch.from_numpy(np.flatnonzero(inside))
            weight, bias = fit_head(features[rows], self.targets[rows], self.labels, stage)
            return torch.log_softmax(features @ weight.T + bias, 1)

        return learn

    def _adapter(self, options: TrainingOptions) -> Learner:
        def learn(inside: Bools) -> torch.Tensor:
            rows = [self.examples[at] for at in np.flatnonzero(inside)]
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "adapter"
                made = train_private if options.dp_epsilon else train
                made(rows, options, backbone.load(), place)
                adapter = adapters.load(place)
            loaded = backbone.load()
            row = adapter.method.row(encoder_of(loaded.model), adapter.tensors)
            states = self._states(loaded, row)
            assert adapter.weight is not None
            assert adapter.bias is not None
            return torch.log_softmax(states @ adapter.weight.T + adapter.bias, 1)

        return learn

    @torch.no_grad()
    def _states(self, loaded: backbone.LoadedBackbone, row: Row) -> torch.Tensor:
        encoder = encoder_of(loaded.model)
        encoded = encode(loaded.tokenizer, [each.text for each in self.examples])
        found = []
        for start in range(0, len(encoded), _ROWS):
            batch = collate(encoded[start : start + _ROWS], loaded.tokenizer.pad_token_id or 0)
            hidden = run(encoder, batch.ids, batch.attention, [row] * len(batch.ids))
            found.append(pool(hidden, batch.text))
        return torch.cat(found)


def main() -> None:
    """Attacks every learner, and prints the table."""
    quick = "heads alone, of 64 models: 3 minutes on an idle core"
    parser = console.parser("membership", __doc__, quick=quick, data="the tasks")
    parser.add_argument("--task", choices=TASKS, default="sst2")
    parser.add_argument("--members", type=int, default=200, help="examples that each learns from")
    parser.add_argument("--models", type=int, help="shadows and one more: 256, with --quick 64")
    parser.add_argument("--methods", type=console.comma_separated, default=(), metavar="NAMES")
    parser.add_argument("--epsilons", type=float, nargs="*", default=[8.0, 1.0])
    arguments = parser.parse_args()
    require(parser, arguments.data, f"{arguments.task}/train.tsv.gz")
    models = arguments.models or (64 if arguments.quick else 256)
    torch.manual_seed(0)
    known = Pool(arguments.data, arguments.task, 2 * arguments.members)
    members = halves(models, len(known.examples), np.random.default_rng(0))
    found: Figures = {}
    learners = known.learners(tuple(arguments.epsilons), tuple(arguments.methods))
    for name, learn in learners.items():
        turns = console.track(list(members), name)
        seen = np.stack([confidences(learn(inside), known.targets) for inside in turns])
        found[name] = success(likelihood_ratios(seen, members), members)
    figures = {
        "task": arguments.task,
        "members": arguments.members,
        "models": models,
        "rows": found,
    }
    console.publish(arguments, figures, show(figures))


def show(figures: Figures) -> Any:
    """A row a learner."""

    def cell(found: dict[str, Any]) -> str:
        low, high = found["interval"]
        return f"{found['mean']:.3f} ({low:.3f} to {high:.3f})"

    return table(
        f"members found, {figures['task']}, {figures['members']} each, {figures['models']} models",
        ("learner",),
        ("area under the curve", *(f"found at {share:.1%} false alarms" for share in ALARMS)),
        (
            (name, cell(row["auc"]), *(cell(row[f"found_at_{share:g}"]) for share in ALARMS))
            for name, row in figures["rows"].items()
        ),
    )


if __name__ == "__main__":
    main()
