"""Which privacy space keeps most meaning at the same success of the attacker, and who pays?

Every space is judged at equal success of the maximum-a-posteriori attacker on the noisy vector
(.3, .6, .85), on text no count has seen: how close in meaning the replacements are, what is kept of
rare words and names, how much goes to a few hubs, and whether he does better on rare words or names
than on the rest. Then the levels of a bundle, with both attackers, and what a classifier loses.

    python -m bench.space --quick
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

from bench.data import DATA, require
from bench.space.evaluation import TARGETS, Language, Trial, at_targets, tails
from bench.space.probe import Probe
from bench.space.spaces import OURS, PREVIOUS, ablations, sweep
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.mechanisms.pct2t import PCT2T
from sottovoce.core.privacy.mechanisms.t2t import T2T

matplotlib.use("Agg")
from matplotlib import pyplot

DRAWS: Final = {True: (1_500, 500), False: (5_000, 2_000)}
"""Words drawn, quick or not: neither rare nor names, and of each other kind."""
POINTS: Final = {True: 5, False: 7}
"""Etas measured on a curve."""
PROBED: Final = {True: (1_500, 1), False: (4_000, 2)}
"""Texts the classifier is trained on, and repetitions."""

Progress = Callable[[str], None]


def compare(
    language: Language, mechanism: str, quick: bool, tell: Progress
) -> list[dict[str, Any]]:
    """The measures of every space at `TARGETS`, and the curves they come from."""
    held_out = language.text(mechanism, DRAWS[quick])
    hundredth = {
        kind: {name: language.hundredth(ids) for name, ids in by_class.items()}
        for kind, by_class in held_out.ids.items()
    }
    found = []
    few = quick and mechanism != T2T.name  # where rare words are protected least
    for each in [*ablations(few), *sweep(few)]:
        tell(f"{mechanism}: {each.name}, r = {each.r or 'full'}")
        rows = each.rows(language.words)
        curve = Trial(language, rows, mechanism, held_out, hundredth).curve(POINTS[quick])
        found.append(
            {
                "mechanism": mechanism,
                "space": each.name,
                "r": rows.shape[1],
                "at": at_targets(curve),
                "curve": curve,
            }
        )
    return found


def probes(
    language: Language, folder: Path, compared: list[dict[str, Any]], quick: bool, tell: Progress
) -> dict[str, Any]:
    """Accuracy of the classifier under T2T, at `TARGETS` of the attacker's success."""
    texts, repetitions = PROBED[quick]
    tell("classifier: clean")
    probe = Probe(folder, language, texts)
    spaces = [PREVIOUS, OURS] if quick else [ablations()[0], PREVIOUS, OURS]
    found: dict[str, Any] = {"texts": texts, "clean": probe.clean(), "spaces": []}
    for each in spaces:
        rows = each.rows(language.words)
        (met,) = (
            entry
            for entry in compared
            if (entry["mechanism"], entry["space"], entry["r"])
            == (T2T.name, each.name, rows.shape[1])
        )
        accuracy = {}
        for target in TARGETS[:2] if quick else TARGETS:
            tell(f"classifier: {each.name}, attacker at {target}")
            eta = met["at"][str(target)]["eta"]
            runs = [probe.at(rows, eta, seed) for seed in range(repetitions)]
            accuracy[str(target)] = float(np.mean(runs))
        found["spaces"].append({"space": each.name, "r": rows.shape[1], "accuracy": accuracy})
    return found


def show(console: Console, result: dict[str, Any]) -> None:
    """Prints the tables."""

    def shares(entry: dict[str, Any], measure: str, sign: str = "") -> str:
        return " ".join(f"{entry['at'][str(t)][measure]:{sign}.2f}" for t in TARGETS)

    targets = " / ".join(map(str, TARGETS))
    for mechanism in (T2T.name, PCT2T.name):
        table = Table(title=f"{mechanism}: attacker at {targets}", title_justify="left")
        columns = {
            "among 100 nearest": ("near", ""),
            "cosine": ("cosine", ""),
            "kept": ("kept", ""),
            "kept, rare": ("kept_rare", ""),
            "kept, names": ("kept_names", ""),
            "hubs": ("hubs", "+"),
            "attack, rare - rest": ("rare_less_rest", "+"),
            "names - rest": ("names_less_rest", "+"),
        }
        table.add_column("space", max_width=26)
        for column in ("r", *columns):
            table.add_column(column, justify="right", max_width=17)
        for entry in result["spaces"]:
            if entry["mechanism"] == mechanism:
                cells = [shares(entry, *measure) for measure in columns.values()]
                table.add_row(entry["space"], str(entry["r"]), *cells)
        console.print(table)
    table = Table(title="levels of the bundle: success of the attackers", title_justify="left")
    for column in ("mechanism", "level", "attacker", "all", "common", "rare", "others", "names"):
        table.add_column(column)
    for mechanism, levels in result["levels"].items():
        for level, attackers in levels.items():
            for attacker, found in attackers.items():
                kinds = (found[kind] for kind in ("all", "common", "rare", "others", "names"))
                table.add_row(mechanism, level, attacker, *(f"{share:.3f}" for share in kinds))
    console.print(table)
    if probe := result["probe"]:
        console.print(
            f"SST-2 accuracy under t2t.v1, {probe['texts']} texts; clean {probe['clean']:.3f}"
        )
        for each in probe["spaces"]:
            shown = "  ".join(f"at {t}: {a:.3f}" for t, a in each["accuracy"].items())
            console.print(f"  {each['space']}, r = {each['r']}: {shown}")


def plot(result: dict[str, Any], path: Path) -> None:
    """Closeness against attack, tails against attack, closeness against dimensions."""
    figure, axes = pyplot.subplots(1, 3, figsize=(16, 7), layout="constrained")
    entries = [entry for entry in result["spaces"] if entry["mechanism"] == T2T.name]
    ours = [entry for entry in entries if entry["space"] == OURS.name]
    shown = [entry for entry in entries if entry["space"] != OURS.name]
    shown += [entry for entry in ours if entry["r"] == OURS.r]
    for color, entry in zip(matplotlib.colormaps["tab20"](np.arange(20)), shown, strict=False):
        curve = entry["curve"]
        is_ours = entry["space"] == OURS.name
        style = {"linewidth": 3, "color": "black"} if is_ours else {"color": color}
        label = f"{entry['space']}, r = {entry['r']}"
        success = [point["map"] for point in curve]
        axes[0].plot(success, [point["near"] for point in curve], label=label, **style)
        axes[1].plot(success, [point["rare_less_rest"] for point in curve], **style)
    axes[0].set(xlabel="success of the MAP attacker", ylabel="replacements among the 100 nearest")
    axes[1].axhline(0, color="grey", linestyle=":")
    axes[1].set(xlabel="success of the MAP attacker", ylabel="his success on rare words - the rest")
    for target in TARGETS:
        by_r = sorted((entry["r"], entry["at"][str(target)]["near"]) for entry in ours)
        axes[2].plot(*zip(*by_r, strict=True), marker="o", label=f"attacker at {target}")
    axes[2].set(xscale="log", xlabel="dimensions of ours", ylabel="among the 100 nearest")
    axes[2].legend()
    figure.suptitle("Privacy spaces, t2t.v1, held-out text")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    """Prints tables and the JSON, and draws the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="fewer draws, and fewer spaces for pct2t.v1"
    )
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--data", type=Path, default=DATA, help="folder with ud_gum and sst2")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder of the PNG")
    arguments = parser.parse_args()
    require(parser, arguments.data, "ud_gum/train.conllu.gz")
    quick, start = arguments.quick, time.monotonic()

    def tell(stage: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {stage}", file=sys.stderr)

    tell("reading")
    treebank = arguments.data / "ud_gum" / "train.conllu.gz"
    language = Language.load(Bundle.open(arguments.bundle), arguments.models, treebank)
    spaces = [
        entry
        for mechanism in (T2T.name, PCT2T.name)
        for entry in compare(language, mechanism, quick, tell)
    ]
    tell("levels of the bundle")
    levels = {
        mechanism: tails(language, mechanism, DRAWS[quick]) for mechanism in (T2T.name, PCT2T.name)
    }
    texts = arguments.data / "sst2"
    probe = probes(language, texts, spaces, quick, tell) if texts.is_dir() else None
    result = {"quick": quick, "spaces": spaces, "levels": levels, "probe": probe}
    picture = arguments.out / "privacy_space.png"
    plot(result, picture)
    console = Console(width=200)
    show(console, result)
    console.print(f"picture: {picture}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
