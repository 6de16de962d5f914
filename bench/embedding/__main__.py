"""What does the cloud's help buy, at which attack success, and what does it cost the device?

Split-and-Denoise three ways on the same public text and with the same budget: (a) the published
denoiser on noise over the full width, (b) an encoder on the device with no help, (c) the same
encoder with answers from a cloud that takes posterior means of noise in the privacy space. All are
compared at equal success of the strongest attacker, never at equal eta. Beside them the denoiser
that ships, trained longer, with and without the answer. Held-out text is GLUE's, which trained
nothing; sentences of films are in none of the training text.

    python -m bench.embedding --quick
"""

from __future__ import annotations

import argparse
import copy
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from bench.data import DATA, require
from bench.embedding import measures as measure
from bench.embedding.costs import LENGTHS, costs
from bench.embedding.pipelines import (
    TASKS,
    Published,
    Study,
    ask_paper,
    etas_within,
    fit_paper,
    read_task,
    say,
    shipped_estimates,
)
from sottovoce.cloud.denoiser import corpus, data, training
from sottovoce.cloud.denoiser.training import Recipe
from sottovoce.cloud.models import backbone as backbones
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.denoiser import Denoiser

SUCCESSES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
TASKED = (0.3, 0.6)
"""Attack successes at which classifiers are trained."""


@dataclass(frozen=True)
class Budget:
    """How much of everything."""

    passages: int
    epochs: int
    """Of (b) and (c) together."""
    further: int
    """Of (b) without answers, of (c) with them; (a) gets the sum."""
    sentences: int
    train: int
    test: int


QUICK = Budget(passages=8_000, epochs=4, further=2, sentences=800, train=800, test=400)
FULL = Budget(passages=40_000, epochs=6, further=3, sentences=1_600, train=2_400, test=1_000)


def main() -> None:
    """Prints the tables and the JSON, writes the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    parser.add_argument("--data", type=Path, default=DATA, help="The project's data folder.")
    parser.add_argument("--quick", action="store_true", help="Small trainings: 15 minutes.")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    require(
        parser,
        arguments.data,
        "text",
        "ud_ewt/train.conllu.gz",
        *(file for file, *_ in TASKS.values()),
    )
    torch.set_num_threads(arguments.threads)
    budget = QUICK if arguments.quick else FULL
    bundle = Bundle.open(arguments.bundle)
    world = Study.of(bundle)
    shipped = Denoiser.load(bundle.denoiser_folder, bundle)
    tokenizer = backbones.load().tokenizer

    say("etas of equal attack success")
    narrow_etas = measure.eta_for(world.narrow, SUCCESSES)
    wide_etas = measure.eta_for(world.wide, SUCCESSES)
    privacy = []
    for mechanism, etas in ((world.narrow, narrow_etas), (world.wide, wide_etas)):
        for success, eta in zip(SUCCESSES, etas, strict=True):
            found = measure.attacks(mechanism, eta)
            information = measure.mutual_information(mechanism, eta)
            row = {"mechanism": mechanism.name, "success": success, "eta": eta, **found}
            privacy.append({**row, "information": information})

    say("training (b) and (c)")
    texts = [text for text in corpus.passages(corpus.read([arguments.data])) if len(text) < 240]
    learnt = data.tokenize(tokenizer, texts[: budget.passages])
    targets = world.clean(learnt)
    recipe = replace(Recipe(), epochs=budget.epochs, helped_epochs=budget.further)
    tokens = len(world.wide.rows)
    alone = data.encode(
        world.encoder, [world.encoder.token_embeddings([token]) for token in range(tokens)]
    )
    answers = world.helped(learnt, etas_within(narrow_etas, len(learnt), 1), 1)
    halves = targets.astype(np.float16)
    torch.manual_seed(7)
    local = training.first_rows(alone, world.narrow.log_prior, recipe.size)
    training.fit(local, learnt, halves, recipe)
    ours = copy.deepcopy(local)  # from here on as many steps with answers as (b) gets without
    training.fit(ours, learnt, halves, recipe, answers=answers)
    gentler = replace(
        recipe, epochs=recipe.helped_epochs, learning_rate=recipe.helped_learning_rate
    )
    training.fit(local, learnt, halves, gentler)
    say("training (a)")
    seen = Published.of(world, learnt, etas_within(wide_etas, len(learnt), 2), 2)
    paper = fit_paper(seen, targets, learnt.lengths, budget.epochs + budget.further)

    say("held-out sentences")
    each = budget.sentences // len(TASKS)
    sentences = [text for name in TASKS for text in read_task(arguments.data, name, each)[0][0]]
    held = data.tokenize(tokenizer, sentences)
    truth = world.clean(held)
    fixed = {
        "(b) local": training.predict(local, held),
        "(b) shipped": shipped_estimates(shipped, held, None),
    }
    quality: list[dict[str, Any]] = []
    pays: list[float] = []
    for success, eta, wide_eta in zip(SUCCESSES, narrow_etas, wide_etas, strict=True):
        say(f"attack success {success}")
        asked = world.helped(held, np.full(len(held), eta, np.float32), 3)
        sent = Published.of(world, held, np.full(len(held), wide_eta, np.float32), 3)
        estimates = {
            "e_n published": sent.answers,
            "e_n posterior": asked.embeddings.astype(np.float32),
            "(a) published": ask_paper(paper, sent),
            **fixed,
            "(c) helped": training.predict(ours, held, asked),
            "(c) shipped": shipped_estimates(shipped, held, asked),
        }
        cosines = {name: (found * truth).sum(axis=1) for name, found in estimates.items()}
        errors = {n: float(np.square(f - truth).mean()) for n, f in estimates.items()}
        gains = {
            "(c) over (a)": measure.difference(cosines["(c) helped"], cosines["(a) published"]),
            "(c) over (b)": measure.difference(cosines["(c) helped"], cosines["(b) local"]),
            "shipped (c) over (b)": measure.difference(
                cosines["(c) shipped"], cosines["(b) shipped"]
            ),
        }
        means = {name: float(each.mean()) for name, each in cosines.items()}
        measured: dict[str, Any] = {"cosine": means, "mse": errors, "gains": gains}
        quality.append({"success": success, "eta": eta, **measured})
        if gains["shipped (c) over (b)"][1] > 0:
            pays.append(success)
    by_success = dict(zip(SUCCESSES, narrow_etas, strict=True))
    lengths = by_length(world, shipped, arguments.data, by_success)
    heads = classify(world, shipped, arguments.data, by_success, budget)
    say("costs")
    torch.set_num_threads(1)
    priced = costs(bundle, shipped, learnt.flat)
    figures = {
        "bundle": bundle.id,
        "budget": asdict(budget),
        "privacy": privacy,
        "quality": quality,
        "round_trip_pays_from": min(pays) if pays else None,
        "lengths": lengths,
        "heads": heads,
        "costs": priced,
    }
    show(figures)
    draw(figures, arguments.out)
    print(json.dumps(figures))


def by_length(
    world: Study, shipped: Denoiser, folder: Path, etas: dict[float, float]
) -> list[dict[str, Any]]:
    """Mean cosines over 60 stretches of news of each length."""
    texts = read_task(folder, "RTE", 600)[0][0]
    flat = data.tokenize(backbones.load().tokenizer, texts).flat
    rows: list[dict[str, Any]] = []
    for tokens in LENGTHS:
        say(f"{tokens} tokens")
        parts = data.Passages(flat[: 60 * tokens], np.arange(1, 61) * tokens)
        truth = world.clean(parts)
        local = (shipped_estimates(shipped, parts, None) * truth).sum(axis=1).mean()
        for success in TASKED:
            asked = world.helped(parts, np.full(60, etas[success], np.float32), 9)
            found = shipped_estimates(shipped, parts, asked)
            row = {"tokens": tokens, "success": success}
            row["e_n posterior"] = float((asked.embeddings * truth).sum(axis=1).mean())
            row["(b) shipped"] = float(local)
            rows.append(row | {"(c) shipped": float((found * truth).sum(axis=1).mean())})
    return rows


def classify(
    world: Study, shipped: Denoiser, folder: Path, etas: dict[float, float], budget: Budget
) -> list[dict[str, Any]]:
    """Accuracy and AUC of a two-layer head on each kind of embedding."""
    rows: list[dict[str, Any]] = []
    tokenizer = backbones.load().tokenizer
    for name in TASKS:
        say(f"classifiers for {name}")
        texts, labels = read_task(folder, name, budget.train + budget.test)
        columns = [data.tokenize(tokenizer, column) for column in texts]
        kinds = {
            "clean": [world.clean(column) for column in columns],
            "(b) shipped": [shipped_estimates(shipped, column, None) for column in columns],
        }
        for success in TASKED:
            asked = [
                world.helped(column, np.full(len(column), etas[success], np.float32), 4 + i)
                for i, column in enumerate(columns)
            ]
            kinds[f"e_n posterior {success}"] = [a.embeddings.astype(np.float32) for a in asked]
            kinds[f"(c) shipped {success}"] = [
                shipped_estimates(shipped, column, answers)
                for column, answers in zip(columns, asked, strict=True)
            ]
        for kind, found in kinds.items():
            joined = found[0]
            if len(found) == 2:  # a pair: what differs and what agrees
                joined = np.hstack([np.abs(found[0] - found[1]), found[0] * found[1]])
            cut = budget.train
            accuracy, auc = measure.head(joined[:cut], labels[:cut], joined[cut:], labels[cut:])
            most = max(float(labels[cut:].mean()), 1 - float(labels[cut:].mean()))
            rows.append(
                {"task": name, "on": kind, "accuracy": accuracy, "auc": auc, "majority": most}
            )
    return rows


def show(figures: dict[str, Any]) -> None:
    """The tables."""
    console = Console(width=110)
    titles = {
        "privacy": "what attackers recover",
        "lengths": "cosine by length of the text, shipped denoiser",
        "heads": "two-layer heads on the device",
        "costs": "a query's cost for the device",
    }
    for part, title in titles.items():
        console.print(_table(title, figures[part]))
    quality = figures["quality"]
    for measured, title in (
        ("cosine", "cosine with the clean embedding, held-out sentences, by attack success"),
        ("mse", "mean squared error, by attack success"),
    ):
        rows = [
            {"": name} | {f"{row['success']}": row[measured][name] for row in quality}
            for name in quality[0][measured]
        ]
        console.print(_table(title, rows))
    rows = [
        {"success": row["success"]}
        | {n: f"{m:+.3f} [{low:+.3f}, {high:+.3f}]" for n, (m, low, high) in row["gains"].items()}
        for row in quality
    ]
    console.print(_table("gain in cosine, 95 % interval over sentences", rows))
    console.print(f"the round trip pays from attack success {figures['round_trip_pays_from']}")


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title)
    for heading in rows[0]:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    return table


def draw(figures: dict[str, Any], out: Path) -> None:
    """Quality against attack success."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    successes = [row["success"] for row in figures["quality"]]
    for name in figures["quality"][0]["cosine"]:
        style = {"(": "-", "e": ":"}[name[0]]
        heights = [row["cosine"][name] for row in figures["quality"]]
        axes.plot(successes, heights, style, marker="o", label=name)
    axes.set_xlabel("tokens the MAP attacker recovers")
    axes.set_ylabel("cosine with the clean embedding")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "snd.png", dpi=130)


if __name__ == "__main__":
    main()
