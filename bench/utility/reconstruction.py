"""Does learning to name plain tokens make a tenant's adapter better, and at what cost?

RAPT v2 (section III-B2) puts plain tokens before every example and adds the loss of naming them.
Here that form stands beside none at all, beside its control (plain tokens, no loss), beside cheaper
forms, and beside two that ask nothing of the device: the mechanism and the bundle are public, so
the cloud can release public text itself and learn from the pairs, along with a tenant's task or
once before all of them.

SST-2 phrases released under `pct2t.v1` at the share replaced that is named, one epoch, the whole
dev set released three times. Differences are paired by seed (phrases, releases, first weights and
order are the same); p is that of a paired t-test, two-sided, not corrected for the number of forms.
Runs are kept, so a stopped study goes on. All forms and four seeds: about an hour on one idle core.

    python -m bench.utility.reconstruction --seeds 4
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import stats

from bench import data
from bench.utility import tasks
from bench.utility.reconstruction_runs import TEXTS, Form, Scale, Study
from bench.utility.runs import METHODS
from sottovoce.core.bundle.folder import Bundle

NONE: Final = "none"

FORMS: Final = {
    NONE: Form(),
    "published": Form("fixed", weight=1.0),
    "published, weight .1": Form("fixed"),
    "control: no loss": Form("fixed", weight=0.0),
    "varied": Form("varied"),
    "1 batch of 8": Form("varied", every=8),
    "10 tokens, 1 of 2": Form("varied", tokens=10, every=2),
    "public text beside": Form(rows=4, weight=0.3),
    "public text before": Form(start="words"),
    "states before": Form(start="states"),
}

Figures = dict[str, Any]


def kept(world: Study, bundle: str, folder: Path, name: str, **facts: Any) -> Figures:
    """A run's figures, from disk where it was made before."""
    form, method = FORMS[name], METHODS[facts["method"]]
    identity = json.dumps([bundle, asdict(form), asdict(world.scale), facts], sort_keys=True)
    file = folder / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"
    if not file.is_file():
        found = world.run(form, facts["share"], facts["seed"], method)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"form": name, **facts, **found}))
    return json.loads(file.read_text())  # type: ignore[no-any-return]


def against_none(runs: Sequence[Figures]) -> list[Figures]:
    """Each form's accuracy, its difference to none in points, and its cost, by share."""
    rows = []
    for share in sorted({run["share"] for run in runs}, reverse=True):
        by_form: dict[str, dict[int, Figures]] = {}
        for run in runs:
            if run["share"] == share:
                by_form.setdefault(run["form"], {})[run["seed"]] = run
        for name, own in by_form.items():
            seeds = sorted(own)
            row: Figures = {"form": name, "share": share, "seeds": seeds}
            for key in ("accuracy", "accuracy_with_plain_tokens", "before"):
                if key in own[seeds[0]]:
                    row[key] = float(np.mean([own[seed][key] for seed in seeds]))
            row["seconds_of_none"] = float(
                np.mean([own[s]["seconds"] / by_form[NONE][s]["seconds"] for s in seeds])
            )
            if name != NONE:
                base = [by_form[NONE][seed]["accuracy"] for seed in seeds]
                found = [own[seed]["accuracy"] for seed in seeds]
                row |= _paired(found, base)
                if "accuracy_with_plain_tokens" in row:
                    asked = [own[seed]["accuracy_with_plain_tokens"] for seed in seeds]
                    row["with_plain_tokens"] = _paired(asked, base)
            rows.append(row)
    return rows


def _paired(found: Sequence[float], base: Sequence[float]) -> Figures:
    points = 100 * (np.array(found) - np.array(base))
    several = len(points) > 1
    return {
        "points": float(points.mean()),
        "error": float(stats.sem(points)) if several else math.nan,
        "p": float(stats.ttest_1samp(points, 0).pvalue) if several else math.nan,
    }


def show(rows: Sequence[Figures], console: Console) -> None:
    """Prints the table."""
    table = Table(title="what plain tokens gain, in points of accuracy against none")
    table.add_column("form")
    for heading in ("replaced", "seeds", "accuracy", "gain", "p", "asked with them", "time"):
        table.add_column(heading, justify="right")
    for row in rows:
        gain, p, asked = "", "", ""
        if "points" in row:
            gain, p = f"{row['points']:+.2f} ± {row['error']:.2f}", f"{row['p']:.3f}"
        if other := row.get("with_plain_tokens"):
            asked = f"{other['points']:+.2f} ± {other['error']:.2f}"
        table.add_row(
            row["form"],
            f"{row['share']:.2f}",
            str(len(row["seeds"])),
            f"{row['accuracy']:.4f}",
            gain,
            p,
            asked,
            f"{row['seconds_of_none']:.2f} x",
        )
    console.print(table)


def plot(rows: Sequence[Figures], path: Path) -> None:
    """Gain against cost."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.axhline(0, color="grey", linewidth=0.8)
    for share in sorted({row["share"] for row in rows}):
        some = [row for row in rows if row["share"] == share and "points" in row]
        cost = [row["seconds_of_none"] for row in some]
        points, errors = [r["points"] for r in some], [r["error"] for r in some]
        axes.errorbar(cost, points, yerr=errors, fmt="o", capsize=3, label=f"{share:.2f} replaced")
        for row in some:
            axes.annotate(row["form"], (row["seconds_of_none"], row["points"]), fontsize=7)
    axes.set(xlabel="time of a step, times that without", ylabel="points gained ± standard error")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Prints the table and the JSON; writes the picture."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.utility.reconstruction", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--forms",
        nargs="+",
        choices=list(FORMS),
        default=list(FORMS),
        metavar="FORM",
        help="any of: " + "; ".join(FORMS) + "; default: all",
    )
    parser.add_argument("--shares", nargs="+", type=float, default=[0.45])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--method", choices=list(METHODS), default="lora")
    parser.add_argument("--phrases", type=int, default=Scale().phrases)
    parser.add_argument("--warm", type=int, default=Scale().warm, help="steps on public text")
    parser.add_argument("--pieces", type=int, default=Scale().pieces, help="of public text")
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    parser.add_argument("--data", type=Path, default=data.DATA, help="folder of data sets")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="for the picture")
    arguments = parser.parse_args()
    texts = [f"text/{name}.txt.gz" for name in TEXTS]
    data.require(parser, arguments.data, *tasks.files(["sst2"]), *texts)
    torch.set_num_threads(arguments.threads)
    scale = Scale(arguments.phrases, warm=arguments.warm, pieces=arguments.pieces)
    bundle = Bundle.open(arguments.bundle)
    world = Study(bundle, arguments.data, scale)
    forms = list(dict.fromkeys([NONE, *arguments.forms]))
    wanted = [
        (share, seed, name)
        for seed in range(arguments.seeds)
        for share in arguments.shares
        for name in forms
    ]
    runs = [
        kept(
            world,
            bundle.id,
            tasks.CACHE / "reconstruction",
            name,
            share=share,
            seed=seed,
            method=arguments.method,
        )
        for share, seed, name in track(wanted, "training", console=Console(stderr=True))
    ]
    rows = against_none(runs)
    show(rows, Console(width=130))
    plot(rows, arguments.out / "reconstruction.png")
    figures = {
        "method": arguments.method,
        "scale": asdict(scale),
        "rows": rows,
        "versions": {name: version(name) for name in ("torch", "transformers", "peft")},
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
