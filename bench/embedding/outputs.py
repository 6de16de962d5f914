"""A private sentence embedding from the device, or noisy tokens to the cloud: which tells less?

DPNR and CAPE run the whole backbone on the device and send its noisy embedding. Split-and-Denoise
sends noisy tokens, and the cloud makes the embedding from them. The bench judges the data that the
cloud then has. It measures how well classifiers tell sentiment, and the gender and age group of
bloggers. The attacker has not met these bloggers. All classifiers are two-layer networks, trained
on releases of the same kind.

    python -m bench.embedding.outputs --quick
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from bench import console, data
from bench.attacks.attributes import ATTRIBUTES, read_blogs
from bench.attacks.interface import Floats
from bench.baselines.cape import Cape
from bench.baselines.dpnr import DROPOUT, noised, shortened
from bench.console import Figures, share
from bench.embedding.study import Study
from bench.resampling import drawn, interval
from sottovoce.core.bundle.folder import Bundle
from sottovoce.edge.measure import Classifier
from sottovoce.models.denoiser_data import Passages

EPSILONS: Final = (0.5, 1.0, 2.0, 5.0, 20.0)
"""Privacy budgets of one entry; RAPT runs DPNR at 5."""
FILES: Final = ("sst2/train.tsv.gz", "sst2/dev.tsv.gz", "blogs/train.tsv.gz", "blogs/dev.tsv.gz")
_SENTIMENT: Final = "sentiment"
_HIDDEN: Final = 128
_WORDS: Final = 30
"""Words of a post; few, because the posterior mean of every token is slow."""

Labels = NDArray[np.int64]
Seen = dict[str, tuple[Floats, Floats]]
"""By set of texts, the cloud's data for the training texts and for the test texts."""


@dataclass(frozen=True)
class Texts:
    """Reviews and posts, for training and for testing, and their labels."""

    passages: Mapping[str, tuple[Passages, Passages]]
    labels: Mapping[str, tuple[Labels, Labels]]

    @classmethod
    def read(cls, folder: Path, study: Study, train: int, test: int) -> Texts:
        """Read ``train`` and ``test`` texts of each set, spread over the files."""
        passages: dict[str, list[Passages]] = {_SENTIMENT: [], "posts": []}
        labels: dict[str, list[Labels]] = {name: [] for name in (_SENTIMENT, *ATTRIBUTES)}
        for reviews, posts, n in zip(FILES[:2], FILES[2:], (train, test), strict=True):
            rows = data.rows(folder / reviews)
            rows = rows[:: max(1, len(rows) // n)][:n]
            passages[_SENTIMENT].append(study.read([row["text"] for row in rows]))
            labels[_SENTIMENT].append(np.array([int(row["label"]) for row in rows]))
            blogs = read_blogs(folder / posts, n, _WORDS)
            passages["posts"].append(study.read(blogs.texts))
            for name in ATTRIBUTES:
                labels[name].append(blogs.labels[name])
        return cls(
            {name: (learnt, judged) for name, (learnt, judged) in passages.items()},
            {name: (learnt, judged) for name, (learnt, judged) in labels.items()},
        )

    def seen(self, of: Callable[[Passages], Floats]) -> Seen:
        """Apply ``of`` to the texts of each set."""
        return {name: (of(a), of(b)) for name, (a, b) in self.passages.items()}


def told(seen: Seen, texts: Texts) -> Figures:
    """Return accuracy on each label with its interval, and accuracy of the commonest label."""
    found: Figures = {}
    for name, (wanted, truth) in texts.labels.items():
        train, test = (_even(rows, seen[_of(name)][0]) for rows in seen[_of(name)])
        fitted = Classifier.fit(train, [str(each) for each in wanted.tolist()], hidden=_HIDDEN)
        right = np.array([int(each) for each in fitted.predict(test)]) == truth
        found[name] = {
            "accuracy": float(right.mean()),
            "ci": interval(drawn(len(right)) @ right / len(right)),
            "majority": float(np.bincount(truth).max() / len(truth)),
        }
    return found


def _of(label: str) -> str:
    return label if label == _SENTIMENT else "posts"


def _even(rows: Floats, train: Floats) -> Floats:
    """Centre and scale rows by the training set, as the classifier expects."""
    mean = train.mean(axis=0)
    found: Floats = (rows - mean) / np.linalg.norm(train - mean, axis=1).mean()
    return found


def releases(
    study: Study, texts: Texts, levels: Mapping[str, float], random: Generator
) -> Iterator[tuple[str, str, Seen]]:
    """Yield mechanism, setting and the cloud's data."""
    clean = texts.seen(study.clean)
    yield "none", "clear", clean
    short = texts.seen(lambda each: study.clean(shortened(each, DROPOUT, random)))
    attributes = {name: texts.labels[name][0] for name in ATTRIBUTES}
    for epsilon in EPSILONS:
        yield "DPNR", f"epsilon {epsilon:g}", _noised(short, epsilon, random)
        task = (clean[_SENTIMENT][0], texts.labels[_SENTIMENT][0])
        cape = Cape.fit(task, clean["posts"][0], attributes, epsilon)
        mapped = {name: (cape.mapped(a), cape.mapped(b)) for name, (a, b) in clean.items()}
        yield "CAPE", f"epsilon {epsilon:g}", _noised(mapped, epsilon, random)
    for level, eta in levels.items():
        yield "token-embedding.v1", level, texts.seen(partial(study.answers, eta=eta, seed=1))


def _noised(seen: Seen, epsilon: float, random: Generator) -> Seen:
    return {
        name: (noised(a, epsilon, random), noised(b, epsilon, random))
        for name, (a, b) in seen.items()
    }


def main() -> None:
    """Print the table."""
    parser = console.parser("embedding.outputs", __doc__, quick="fewer texts", data="the data sets")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    data.require(parser, arguments.data, *FILES)
    torch.set_num_threads(arguments.threads)
    bundle = Bundle.open(arguments.bundle)
    study = Study.of(bundle)
    train, test = (1_500, 870) if arguments.quick else (5_000, 870)
    texts = Texts.read(arguments.data, study, train, test)
    levels = {name: level.eta for name, level in bundle.manifest.embed.items()}
    total = 1 + 2 * len(EPSILONS) + len(levels)
    made = releases(study, texts, levels, np.random.default_rng(0))
    rows: list[Figures] = [
        {"mechanism": mechanism, "setting": setting, "told": told(seen, texts)}
        for mechanism, setting, seen in console.track(made, "releases", total)
    ]
    figures = {"bundle": bundle.id, "train": train, "test": test, "rows": rows}
    shown = console.table(
        "attributes inferred from the cloud's data, 95 %",
        ("mechanism", "setting"),
        [*texts.labels],
        ((row["mechanism"], row["setting"], *_cells(row["told"])) for row in rows),
    )
    chance = (f"{name} {share(each['majority'])}" for name, each in rows[0]["told"].items())
    console.publish(arguments, figures, shown, f"naming the commonest: {', '.join(chance)}")


def _cells(found: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    return [
        f"{share(each['accuracy'])} ({'-'.join(share(end) for end in each['ci'])})"
        for each in found.values()
    ]


if __name__ == "__main__":
    main()
