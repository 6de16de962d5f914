"""How right is the tagger that ships, how fast, and how large?

Universal parts of speech on the test part of UD English EWT, from whose training part it learned,
and on the development part of UD English GUM, another treebank that it never saw; words a second on
one thread, by processor time, hashing included. Needs the treebanks (see `--data`).

    python -m bench.speed.tagger
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from bench.data import DATA, require
from sottovoce.cloud.corpus.treebanks import Sentence, read_conllu
from sottovoce.cloud.tagger.training import measure
from sottovoce.core.text.tagger import UPOS, OnnxTagger

PARTS: Final = {
    "UD English EWT, test": "ud_ewt/test.conllu.gz",
    "UD English GUM, dev": "ud_gum/dev.conllu.gz",
}
_WORDS: Final = 20_000
_ROUNDS: Final = 7

Figures = dict[str, Any]


def by_tag(tagger: OnnxTagger, sentences: list[Sentence]) -> dict[str, Figures]:
    """How often each part of speech occurs and is recognised."""
    words = [word for sentence in sentences for word in sentence.words]
    allowed = np.array([tag for sentence in sentences for tag in sentence.allowed])
    found = 1 << tagger.tag(words).ids.astype(np.int64)
    return {
        tag: {
            "words": int((allowed == 1 << number).sum()),
            "right": round(float((found == allowed)[allowed == 1 << number].mean()), 4),
        }
        for number, tag in enumerate(UPOS)
        if (allowed == 1 << number).any()
    }


def words_per_second(tagger: OnnxTagger, words: list[str]) -> float:
    """Median over rounds, of this thread's processor time."""
    speeds = []
    for _ in range(_ROUNDS):
        begin = time.thread_time()
        tagger.tag(words)
        speeds.append(len(words) / (time.thread_time() - begin))
    return statistics.median(speeds)


def plot(figures: Figures, path: Path) -> None:
    """Accuracy by part of speech on both treebanks."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots()
    names = [
        tag for tag in UPOS if all(tag in part["by_tag"] for part in figures["parts"].values())
    ]
    places = np.arange(len(names))
    for number, (part, found) in enumerate(figures["parts"].items()):
        right = [found["by_tag"][tag]["right"] for tag in names]
        axes.bar(places + 0.4 * number - 0.2, right, 0.4, label=f"{part}: {found['accuracy']:.3f}")
    axes.set_xticks(places, names)
    axes.set_ylabel("recognised")
    axes.legend(loc="lower left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Prints the table and the JSON; writes the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tagger", type=Path, default=Path("models/tagger"))
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the treebanks")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="for the picture")
    arguments = parser.parse_args()
    require(parser, arguments.data, *PARTS.values())
    tagger = OnnxTagger.load(arguments.tagger)
    parts: dict[str, Figures] = {}
    running: list[str] = []
    for name, path in PARTS.items():
        sentences = read_conllu(arguments.data / path)
        found = {key: round(value, 4) for key, value in asdict(measure(tagger, sentences)).items()}
        parts[name] = {**found, "by_tag": by_tag(tagger, sentences)}
        running = running or [word for sentence in sentences for word in sentence.words][:_WORDS]
    figures = {
        "parts": parts,
        "words_per_second": round(words_per_second(tagger, running)),
        "bytes": sum(file.stat().st_size for file in arguments.tagger.glob("tagger.*")),
    }
    table = Table(title="the shipped tagger")
    for heading in ("sentences", "words", "right", "sure", "right if sure", "calibration error"):
        table.add_column(heading, justify="right")
    for name, part in parts.items():
        shares = (part[k] for k in ("accuracy", "sure", "sure_accuracy", "calibration_error"))
        table.add_row(name, f"{part['words']:,.0f}", *(f"{share:.4f}" for share in shares))
    console = Console(width=110)
    console.print(table)
    console.print(
        f"{figures['words_per_second']:,} words a second of one core; {figures['bytes']:,} bytes"
    )
    plot(figures, arguments.out / "tagger.png")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
