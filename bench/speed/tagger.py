"""How right is the tagger that ships, how fast, and how large?

Universal parts of speech on the test part of UD English EWT, from whose training part it learned,
and on the development part of UD English GUM, another treebank that it never saw; words a second on
one thread, by processor time, hashing included. Needs the treebanks (see `--data`).

    python -m bench.tagger
"""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np

from bench import console
from bench.console import Figures, share, table
from bench.data import require
from sottovoce.cloud.corpus.treebanks import Sentence, read_conllu
from sottovoce.cloud.tagger.training import measure
from sottovoce.core.text.tagger import UPOS, OnnxTagger

PARTS: Final = {
    "UD English EWT, test": "ud_ewt/test.conllu.gz",
    "UD English GUM, dev": "ud_gum/dev.conllu.gz",
}
_WORDS: Final = 20_000
_ROUNDS: Final = 7


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


def main() -> None:
    """Judges the tagger, and prints the table."""
    parser = console.parser("tagger", __doc__, data="the treebanks")
    parser.add_argument("--tagger", type=Path, default=Path("models/tagger"))
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
    speed = round(words_per_second(tagger, running))
    size = sum(file.stat().st_size for file in arguments.tagger.glob("tagger.*"))
    figures = {"parts": parts, "words_per_second": speed, "bytes": size}
    shown = table(
        "the shipped tagger",
        ("sentences",),
        ("words", "right", "sure", "right if sure", "calibration error"),
        (
            (
                name,
                f"{part['words']:,.0f}",
                *(
                    share(part[key], 4)
                    for key in ("accuracy", "sure", "sure_accuracy", "calibration_error")
                ),
            )
            for name, part in parts.items()
        ),
    )
    said = f"{speed:,} words a second of one core; {size:,} bytes"
    console.publish(arguments, figures, shown, said)


if __name__ == "__main__":
    main()
