"""Membership inference against adapters: the online likelihood ratio attack.

LiRA (Carlini et al., 2022) trains shadow models on random halves of a pool. For every example it
compares the target model's confidence with the confidence of shadow models that were trained with
the example and without it. Each model is the target in turn and the others are its shadows, so
every figure is over models times examples.

The attacker knows the labelled pool, the trainer and its settings, and may query the adapter for
probabilities. This is the strongest position in the paper of PromptDPSGD. That paper's own attacker
takes high confidence for membership; this attacker is measured as well. Two attackers query an
adapter trained on releases: one holds the same releases, as the cloud does, and one knows only the
texts.

    python -m bench.attacks.membership --quick
    python -m bench.attacks.membership --methods lora --epsilons 8 --releases clear,balanced
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from bench import console
from bench.attacks.interface import Floats
from bench.attacks.shadows import CLEAR, HEAD, METHODS, Bools, Pool, Target, seen_by
from bench.console import Figures, share, span, table
from bench.data import require
from bench.resampling import drawn, interval

__all__ = ["chance", "halves", "likelihood_ratios", "main", "success"]

ALARMS: Final = (0.01, 0.001)
"""False positive rates at which the found members are counted."""

TASKS: Final = ("sst2", "trec", "agnews", "dbpedia")

_DEALS: Final = 100
"""Number of reassignments of memberships, for the range of chance."""

_FEW: Final = 64
"""With fewer models, deviations are estimated over all examples together."""

_SHADOWS: Final = {True: 255, False: 32}
"""Number of models: of heads, which train in a second, and of slower methods."""
_QUICK: Final = 63


def halves(models: int, examples: int, random: np.random.Generator) -> Bools:
    """Return each model's members, Bools2d (models, examples); each is in half the models."""
    order = random.permuted(np.tile(np.arange(models)[:, None], examples), axis=0)
    return order < models // 2


def likelihood_ratios(seen: Floats, members: Bools) -> NDArray[np.float64]:
    """log p(seen | in) - log p(seen | out), each model judged by all the others.

    Args:
        seen: Floats2d (models, examples), see `confidences`.
        members: Bools2d (models, examples).

    Returns:
        Floats2d (models, examples).
    """
    scores = np.zeros(seen.shape)
    seen = seen - seen.mean(axis=0, dtype=np.float64)  # no digits lost between squares
    for group, sign in ((members, 1.0), (~members, -1.0)):
        others = group.sum(axis=0) - group
        mean, squares = (
            ((each * group).sum(axis=0) - each * group) / others for each in (seen, seen**2)
        )
        spread = np.maximum(squares - mean**2, 0.0)
        if len(seen) < _FEW:
            spread = np.average(spread, axis=1, weights=others, keepdims=True)
        scores += sign * norm.logpdf(seen, mean, np.sqrt(spread) + 1e-6)
    return scores


def success(scores: NDArray[np.float64], members: Bools) -> Figures:
    """Area under the curve and members found at few false alarms, with intervals over models."""
    picks = drawn(len(scores))

    def figures(of: Callable[[NDArray[np.float64], Bools], float]) -> dict[str, Any]:
        alone = np.array([of(*each) for each in zip(scores, members, strict=True)])
        return {"mean": float(alone.mean()), "interval": interval(picks @ alone / len(alone))}

    table_row: Figures = {"auc": figures(_auc)}
    pooled = np.sort(scores[~members])[::-1]
    for alarms in ALARMS:
        bar = float(pooled[int(alarms * len(pooled))])
        table_row[f"found_at_{alarms:g}"] = figures(partial(_above, bar))
    return table_row


def chance(seen: Floats, members: Bools, random: np.random.Generator) -> list[float]:
    """Return the 95 % range of the area under the curve for an attacker without information.

    Every model gets the memberships of another model, drawn anew each time. The range is not
    exactly centred on a half, because each model is missing from its own group's mean.

    Args:
        seen: Floats2d (models, examples).
        members: Bools2d (models, examples).
        random: generator that assigns the memberships.

    Returns:
        Lower and upper end.
    """
    dealt = (random.permutation(members) for _ in range(_DEALS))
    return interval(
        np.array([_areas(likelihood_ratios(seen, each), each).mean() for each in dealt])
    )


def _areas(scores: NDArray[np.float64], members: Bools) -> NDArray[np.float64]:
    return np.array([_auc(*model) for model in zip(scores, members, strict=True)])


def _above(bar: float, scores: NDArray[np.float64], members: Bools) -> float:
    return float((scores > bar)[members].mean())


def _auc(scores: NDArray[np.float64], members: Bools) -> float:
    ranks, inside = rankdata(scores), members.sum()
    above = ranks[members].sum() - inside * (inside + 1) / 2
    return float(above / (inside * (~members).sum()))


def main(given: Sequence[str] | None = None) -> None:
    """Attacks every target, and prints the table.

    Args:
        given: arguments; by default the program's.
    """
    quick = "heads of 63 shadows in place of 255: 3 minutes on an idle core"
    parser = console.parser("attacks.membership", __doc__, quick=quick, data="the tasks")
    parser.add_argument("--task", choices=TASKS, default="sst2")
    parser.add_argument("--members", type=int, default=200, help="training examples of each model")
    parser.add_argument(
        "--shadows", type=int, help="shadow models; default: heads 255, adapters 32"
    )
    console.ask_names(parser, "--methods", METHODS, (HEAD,))
    parser.add_argument(
        "--epsilons",
        type=float,
        nargs="*",
        default=[0.0, 8.0, 1.0],
        help="0 trains without privacy",
    )
    parser.add_argument(
        "--releases",
        type=console.names(),
        default=(CLEAR,),
        metavar="NAMES",
        help=f"training texts: {CLEAR}, or levels of the bundle; default: {CLEAR}",
    )
    arguments = parser.parse_args(given)
    require(parser, arguments.data, f"{arguments.task}/train.tsv.gz")
    torch.manual_seed(0)
    pool = Pool(arguments.data, arguments.task, 2 * arguments.members, arguments.bundle)
    found: list[Figures] = []
    for each in product(arguments.methods, arguments.releases, arguments.epsilons):
        target = Target(*each)
        shadows = _SHADOWS[target.method == HEAD]
        if arguments.quick:
            shadows = min(shadows, _QUICK)
        models = 1 + (arguments.shadows or shadows)
        members = halves(models, len(pool.labels), np.random.default_rng(0))
        cache = arguments.out / "cache" / "membership"
        for attacker, seen in seen_by(pool, target, members, cache).items():
            row = success(likelihood_ratios(seen, members), members)
            row["chance"] = chance(seen, members, np.random.default_rng(1))
            row["confidence_alone"] = success(seen.astype(np.float64), members)["auc"]
            found.append({"target": str(target), "asks with": attacker, "models": models, **row})
    figures = {"task": arguments.task, "members": arguments.members, "rows": found}
    console.publish(arguments, figures, show(figures))


def show(figures: Figures) -> Any:
    """Return a row for each target and attacker."""

    def cell(found: dict[str, Any]) -> str:
        return f"{share(found['mean'])} ({span(found['interval'])})"

    return table(
        f"members found, {figures['task']}, {figures['members']} each (95 % over models)",
        ("target", "asks with"),
        (
            "models",
            "area under the curve",
            "by chance",
            *(f"found at {alarms:.1%}" for alarms in ALARMS),
            "by confidence alone",
        ),
        (
            (
                row["target"],
                row["asks with"],
                row["models"],
                cell(row["auc"]),
                span(row["chance"]),
                *(cell(row[f"found_at_{alarms:g}"]) for alarms in ALARMS),
                cell(row["confidence_alone"]),
            )
            for row in figures["rows"]
        ),
    )


if __name__ == "__main__":
    main()
