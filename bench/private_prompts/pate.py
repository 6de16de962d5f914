"""How do adapters learnt from public texts and noisy votes compare with private training?

PATE runs with the product's plan, shares, votes and noise. Teachers and students are heads on the
frozen backbone. The rows are the same as in PromptPATE's paper: no training, the teachers together
without noise, one head trained on all examples, then the student at each epsilon. Students use
public texts of the same kind or of another kind. Epsilon is data-independent. A second table shows
the papers' data-dependent epsilon. A privately trained head stands beside them.

    python -m bench.private_prompts.pate --quick
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench import console
from bench.console import Figures, Table, percent, table
from bench.data import require, rows
from bench.private_prompts.by_votes import Price, price
from bench.resampling import mean
from bench.utility.tasks import files, load
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.batches import encode
from sottovoce.cloud.models.methods.interface import Head
from sottovoce.cloud.training.dp_sgd.trainer import HEAD, PrivatePlan, begin, features, fit_head
from sottovoce.cloud.training.pate_trainer import fit_teacher, standardised
from sottovoce.cloud.training.trainer import Hyperparameters, probe
from sottovoce.core.privacy.gaussian import Budget
from sottovoce.core.privacy.votes import Ints, VotePlan, ask, deal, tally

__all__ = ["OTHER", "measure", "show", "show_prices"]

OTHER: Final = {"sst2": "blogs", "trec": "blogs", "agnews": "dbpedia", "dbpedia": "agnews"}
"""Source of the public texts of another kind."""

_QUICK: Final = ("sst2", "trec", "agnews")
_LONGEST: Final = 300
"""Maximum characters of a public text of another kind, because posts are longer than questions."""

Bools = NDArray[np.bool_]


def measure(
    seen: dict[str, Tensor], targets: dict[str, Tensor], epsilons: Sequence[float], seeds: int
) -> tuple[dict[str, Bools], dict[str, Price]]:
    """Return correct answers by model, and the prices of the first seed's votes.

    Answers are Bools2d (seeds, questions). Prices are by public texts and epsilon.

    Args:
        seen: states of the parts "private", "dev", "same" and "other", Float (n, h).
        targets: labels of "private" and "dev", Int (n,).
        epsilons: privacy budgets of students and private heads.
        seeds: number of draws of shares and noise.
    """
    private, wanted = targets["private"], targets["dev"]
    n, labels = len(private), int(private.max()) + 1
    found: dict[str, list[Tensor]] = {}
    prices: dict[str, Price] = {}

    def note(name: str, answers: Tensor) -> None:
        found.setdefault(name, []).append(answers == wanted)

    for _ in range(seeds):
        note("lower", torch.full_like(wanted, int(private.bincount().argmax())))
        head = probe(seen["private"], private, Hyperparameters().probe_penalty, labels)
        note("upper", _answers(seen["dev"], *head))
        votes = _Votes(seen, private, labels)
        ensemble = votes.of(seen["dev"], seen["same"]).argmax(1)
        note("ensemble", torch.from_numpy(ensemble))
        for epsilon in epsilons:
            budget = Budget.of(epsilon, 0.0, n)
            stage = PrivatePlan.within(budget, n, head=HEAD).head
            own = fit_head(seen["private"], private, labels, stage)
            note(f"private head {epsilon:g}", _answers(seen["dev"], *own))
            for public in ("same", "other"):
                plan = VotePlan.within(budget, n, len(seen[public]))
                asked = seen[public][: plan.check.steps]
                counts = votes.of(asked, asked, plan.teachers)
                answers = ask(counts, plan)
                if f"{public} {epsilon:g}" not in prices:
                    prices[f"{public} {epsilon:g}"] = price(counts, [*answers], plan)
                places = torch.tensor([*answers])
                learnt = torch.tensor([*answers.values()])
                student = probe(asked[places], learnt, Hyperparameters().probe_penalty, labels)
                note(f"{public} {epsilon:g}", _answers(seen["dev"], *student))
    return {name: torch.stack(each).numpy() for name, each in found.items()}, prices


class _Votes:
    """Teachers on shares that are drawn once."""

    def __init__(self, seen: dict[str, Tensor], targets: Tensor, labels: int) -> None:
        self._seen, self._targets, self._labels = seen["private"], targets, labels
        plan = VotePlan.within(Budget.of(1.0, 0.0, len(targets)), len(targets), len(seen["same"]))
        self._shares = deal(len(targets), plan.teachers)

    def of(self, texts: Tensor, public: Tensor, teachers: int | None = None) -> Ints:
        """Counts, Ints2d (Q, C); ``public`` says where the middle of the states is."""
        assert teachers in (None, len(self._shares))
        inputs = standardised(texts, public)
        votes = (
            (inputs @ fit_teacher(own, self._targets[share], self._labels)).argmax(1).numpy()
            for share in self._shares
            if share
            for own in [standardised(self._seen[share], public)]
        )
        return tally(votes, len(texts), self._labels)


def _answers(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return (states @ weight.T + bias).argmax(1)


def _states(texts: Sequence[str]) -> Tensor:
    backbone = backbones.load()
    model, _ = begin(backbone, Head(), torch.device("cpu"), bfloat16=True)
    return features(model, encode(backbone.tokenizer, texts), backbone.tokenizer.pad_token_id or 0)


def _parts(
    name: str, data: Path, examples: int, public: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the states and targets of a task; see `measure`."""
    task = load(name, data, examples + public)
    learnt = np.random.default_rng(0).permutation(len(task.train))
    other = rows(data / OTHER[name] / "train.tsv.gz")
    taken = np.random.default_rng(0).choice(len(other), public, replace=False)
    index = {label: at for at, label in enumerate(sorted(set(task.train.labels)))}
    texts = {
        "private": [task.train.texts[at] for at in learnt[public:]],
        "dev": [*task.dev.texts],
        "same": [task.train.texts[at] for at in learnt[:public]],
        "other": [other[at]["text"][:_LONGEST] for at in taken],
    }
    targets = {
        "private": torch.tensor([index[task.train.labels[at]] for at in learnt[public:]]),
        "dev": torch.tensor([index[label] for label in task.dev.labels]),
    }
    return {part: _states(each) for part, each in texts.items()}, targets


def show(figures: Figures) -> Table:
    """Return a row for each task, kind of public text and epsilon."""

    return table(
        f"accuracy (95 % over {figures['seeds']} seeds and questions); data-independent epsilon",
        ("task", "public texts", "epsilon"),
        ("examples", "lower", "ensemble", "upper", "student", "private head"),
        (
            (
                row["task"],
                OTHER[row["task"]] if public == "other" else "its own",
                f"{epsilon:g}",
                f"{row['examples']:,}",
                *(f"{100 * row[name]['mean']:.1f}" for name in ("lower", "ensemble", "upper")),
                percent(row[f"{public} {epsilon:g}"]),
                percent(row[f"private head {epsilon:g}"]),
            )
            for row in figures["rows"]
            for public in ("same", "other")
            for epsilon in figures["epsilons"]
        ),
    )


def show_prices(figures: Figures) -> Table:
    """Return the votes' epsilons by Renyi accounting, data-independent and data-dependent."""
    return table(
        "epsilon of the first seed's votes, by Renyi accounting (the product shows another)",
        ("task", "public texts", "epsilon"),
        ("data-independent", "data-dependent", "data-dependent, with noise"),
        (
            (
                row["task"],
                OTHER[row["task"]] if public == "other" else "its own",
                f"{epsilon:g}",
                *(f"{value:.2f}" for value in row["prices"][f"{public} {epsilon:g}"].values()),
            )
            for row in figures["rows"]
            for public in ("same", "other")
            for epsilon in figures["epsilons"]
        ),
    )


def main() -> None:
    """Measure every task, and print the tables."""
    quick = f"{', '.join(_QUICK)} alone: 4 minutes on 2 idle cores"
    parser = console.parser("private_prompts.pate", __doc__, quick=quick, data="the tasks")
    parser.add_argument("--examples", type=int, default=6_000, help="most examples of each task")
    parser.add_argument("--public", type=int, default=800, help="public texts of either kind")
    parser.add_argument("--epsilons", type=float, nargs="*", default=[8.0, 3.0, 1.0])
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    tasks = _QUICK if arguments.quick else tuple(OTHER)
    others = [f"{OTHER[name]}/train.tsv.gz" for name in tasks]
    require(parser, arguments.data, *files(tasks), *others)
    found: list[Figures] = []
    for name in console.track(tasks, "tasks"):
        seen, targets = _parts(name, arguments.data, arguments.examples, arguments.public)
        right, prices = measure(seen, targets, arguments.epsilons, arguments.seeds)
        row: Figures = {each: mean(answers) for each, answers in right.items()}
        row["prices"] = {each: asdict(of) for each, of in prices.items()}
        found.append({"task": name, "examples": len(targets["private"]), **row})
    figures: Figures = {
        "public": arguments.public,
        "epsilons": arguments.epsilons,
        "seeds": arguments.seeds,
        "versions": console.versions("torch", "transformers", "dp-accounting", "numpy"),
        "rows": found,
    }
    console.publish(arguments, figures, show(figures), show_prices(figures))


if __name__ == "__main__":
    main()
