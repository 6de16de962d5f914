"""How long does the device take from text to text, and how far is each stage from its floor?

PCT2T of documents of 1 to 50,000 words, one thread, in one process, beside
(a) what exact search over the backbone's own embeddings costs: one float32 matrix product of the
    noisy words with all words in full width, and the best of each row;
(b) the loop of published code: for one word after the other, list the tokenizer's vocabulary,
    gather its embeddings, subtract, take the norm of each row, and the smallest.
The sides take turns on one thread; figures are medians of its processor time, which other work on
the machine does not lengthen. (b) is timed on single words and multiplied.

    python -m bench.speed.edge_latency
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

from bench.speed.texts import document
from sottovoce.cloud.models import backbone as backbones
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Floats2d, SecureRandom, draw
from sottovoce.core.privacy.privatizer import STAGES, WINDOW, Privatizer
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.text.tagger import OnnxTagger
from sottovoce.core.text.words import Kind, split
from sottovoce.edge.measure.latency import Stopwatch, latency

SIZES: Final = (1, 10, 32, 100, 1_000, 10_000, 50_000)
_SCORES: Final = 1 << 24  # 64 MiB of scores at once in (a): larger was not faster
_MOST_EXACT: Final = 10_000
"""Words of (a) that are searched at most; beyond, the time of these is multiplied."""

Figures = dict[str, Any]


def milliseconds(run: Callable[[], object]) -> float:
    """One run, by this thread's processor time."""
    start = time.thread_time()
    run()
    return (time.thread_time() - start) * 1e3


class FullWidth:
    """The two rivals: exact search among all words in the backbone's full width.

    Args:
        bundle: whose words to search; their embeddings are the means of their tokens' (RAPT v2
            section III-A2), as the builder takes them.
    """

    def __init__(self, bundle: Bundle) -> None:
        model = backbones.load(bundle.manifest.backbone.name)
        tokens = backbones.input_embeddings(model)
        pieces = model.tokenizer(list(bundle.words), add_special_tokens=False)["input_ids"]
        self._words: Floats2d = np.stack([tokens[ids].mean(axis=0) for ids in pieces])
        self._halves = (self._words * self._words).sum(axis=1) / 2
        self._tokenizer = model.tokenizer
        self._tokens = torch.from_numpy(tokens)
        self.shape = self._words.shape

    def noisy(self, n: int) -> Floats2d:
        """``n`` of the words, with noise: Floats2d (n, width)."""
        random = np.random.default_rng(0)
        width = self.shape[1]
        chosen = self._words[random.integers(len(self._words), size=n)]
        return chosen + draw(random, n, width, 75.0)

    def exact(self, queries: Floats2d) -> NDArray[np.int64]:
        """(a): ||q - x||^2 is least where q x - ||x||^2 / 2 is largest."""
        found = np.empty(len(queries), np.int64)
        step = max(1, _SCORES // len(self._words))
        for start in range(0, len(queries), step):
            chunk = slice(start, start + step)
            scores = queries[chunk] @ self._words.T
            scores -= self._halves
            scores.argmax(axis=1, out=found[chunk])
        return found

    def loop(self, query: Floats2d) -> int:
        """(b), for one word: Floats2d (1, width)."""
        ids = torch.tensor([number for _, number in self._tokenizer.vocab.items()])
        embeddings = torch.nn.functional.embedding(ids, self._tokens)
        expanded = torch.from_numpy(query).expand(embeddings.shape)
        return int(ids[torch.norm(expanded - embeddings, 2, dim=1).argmin()])


def measure(
    sizes: Sequence[int], bundle: Bundle, setting: Setting, repeats: int, console: Console
) -> list[Figures]:
    """One row a size; see the module's docstring."""
    watch = Stopwatch(time.thread_time)
    tagger = OnnxTagger.load(bundle.tagger_folder)
    privatizer = Privatizer(bundle, tagger, stage=watch.stage)
    rivals = FullWidth(bundle)
    rows = []
    for size in track(sizes, "measuring", console=console):
        text, searched = protected_text(privatizer, size, setting)
        queries = rivals.noisy(min(searched, _MOST_EXACT))
        scale = searched / len(queries)
        exact: list[float] = []
        loop: list[float] = []

        def rival(
            queries: Floats2d = queries,
            exact: list[float] = exact,
            loop: list[float] = loop,
            scale: float = scale,
        ) -> None:
            exact.append(milliseconds(lambda: rivals.exact(queries)) * scale)
            loop.append(milliseconds(lambda: rivals.loop(queries[:1])))

        rounds = repeats if size <= 1_000 else max(3, repeats // 5)
        total, stages = latency(privatizer, watch, text, setting, rounds, between=rival)
        a, b = statistics.median(exact[1:]), statistics.median(loop[1:]) * searched
        search = stages["search"]
        rows.append(
            {
                "words": size,
                "searched": searched,
                "text_to_text_ms": round(total, 3),
                "stages_ms": {name: round(taken, 4) for name, taken in stages.items()},
                "exact_full_width_ms": round(a, 3),
                "published_loop_ms": round(b, 1),
                "search_times_faster_than_exact": round(a / search, 1),
                "whole_times_faster_than_exact_search": round(a / total, 2),
                "search_times_faster_than_loop": round(b / search),
                "whole_times_faster_than_loop": round(b / total),
            }
        )
    return rows


def protected_text(privatizer: Privatizer, size: int, setting: Setting) -> tuple[str, int]:
    """A text of ``size`` words, and for how many of them a search is made: at least one."""
    for start in itertools.count():
        text = document(size, start)
        words = privatizer.release(text, setting).each_word()
        searched = sum(word.protected and word.tag != "IDENTIFIER" for word in words)
        if searched:
            return text, searched
    raise AssertionError("unreachable")


def floors(bundle: Bundle, repeats: int) -> dict[str, Figures]:
    """The least each stage could take for one window of words, measured on this machine.

    words: `str.split` of the text. tags: the network alone, on rows already looked up. vectors: the
    gather of as many rows. noise: the random bytes. search: the matrix products alone, class by
    class, without looking for the best. text: joining as many strings.
    """
    text = document(WINDOW)
    words = split(text, bundle.manifest.clitics)[:WINDOW]
    watch = Stopwatch(time.thread_time)
    tagger = OnnxTagger.load(bundle.tagger_folder)
    privatizer = Privatizer(bundle, tagger, stage=watch.stage)
    release = privatizer.release(" ".join(word.text for word in words), Setting())
    report = release.words
    protected = [word.tag for word in report if word.protected and word.tag != "IDENTIFIER"]
    r = bundle.manifest.dimensions
    classes = {
        tag: (
            bundle.class_rows(tag),
            np.ones((protected.count(tag), r), np.float32),
        )
        for tag in set(protected)
        if tag in bundle.manifest.classes
    }
    ids = np.zeros(sum(word.kind is Kind.WORD for word in words), np.int32)
    numbers = len(protected) * (r + 2 * math.ceil(r / 2))
    texts = [word.text for word in words]
    network = tagger.network_alone(texts)

    def product() -> None:
        for rows, queries in classes.values():
            step = max(1, (1 << 17) // min(len(queries), 128))
            for start in range(0, len(queries), 128):
                for place in range(0, len(rows), step):
                    _ = queries[start : start + 128] @ rows[place : place + step].T

    least: Mapping[str, Callable[[], object]] = {
        "words": text.split,
        "tags": network,
        "vectors": lambda: bundle.space[ids],
        "noise": lambda: SecureRandom().random((numbers,)),
        "search": product,
        "text": lambda: " ".join(texts),
    }
    taken: dict[str, list[float]] = {name: [] for name in STAGES}
    stages: dict[str, float] = {}

    def interleaved() -> None:
        for name, run in least.items():
            taken[name].append(milliseconds(run))

    joined = " ".join(texts)
    _, stages = latency(privatizer, watch, joined, Setting(), repeats, between=interleaved)
    return {
        name: {
            "ms": round(stages[name], 4),
            "floor_ms": round(statistics.median(taken[name]), 4),
            "times_floor": round(stages[name] / statistics.median(taken[name]), 1),
        }
        for name in STAGES
    }


def show(figures: Figures, console: Console) -> None:
    """The two tables."""
    table = Table(title=f"text to text, {figures['level']}, medians, one thread")
    headings = ("words", "searched", "text to text", "its search", "(a) exact", "(b) loop")
    for heading in (*headings, "search / (a)", "whole / (a)", "search / (b)", "whole / (b)"):
        table.add_column(heading, justify="right")
    for row in figures["documents"]:
        fast, loop = row["search_times_faster_than_exact"], row["search_times_faster_than_loop"]
        table.add_row(
            f"{row['words']:,}",
            f"{row['searched']:,}",
            f"{row['text_to_text_ms']:,.2f} ms",
            f"{row['stages_ms']['search']:,.3f} ms",
            f"{row['exact_full_width_ms']:,.2f} ms",
            f"{row['published_loop_ms'] / 1e3:,.2f} s",
            f"{fast:,.1f} x",
            f"{row['whole_times_faster_than_exact_search']:,.1f} x",
            f"{loop:,} x",
            f"{row['whole_times_faster_than_loop']:,} x",
        )
    console.print(table)
    parts = Table(title=f"one window of {WINDOW:,} words, stage by stage")
    for heading in ("stage", "ms", "floor ms", "times its floor"):
        parts.add_column(heading, justify="right")
    for name, part in figures["stages"].items():
        parts.add_row(name, *(f"{part[key]:,}" for key in ("ms", "floor_ms", "times_floor")))
    console.print(parts)


def plot(figures: Figures, path: Path) -> None:
    """Time by length, ours by stage and both rivals, on logarithmic axes."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    lines, bars = figure.subplots(1, 2)
    rows = figures["documents"]
    sizes = [row["words"] for row in rows]
    for key, label in (
        ("published_loop_ms", "(b) published loop, search only"),
        ("exact_full_width_ms", "(a) exact, full width, search only"),
        ("text_to_text_ms", "ours, text to text"),
    ):
        lines.plot(sizes, [row[key] for row in rows], "o-", label=label)
    lines.plot(sizes, [row["stages_ms"]["search"] for row in rows], "o--", label="ours, search")
    lines.set(xscale="log", yscale="log", xlabel="words", ylabel="milliseconds")
    lines.legend()
    lines.grid(alpha=0.3)
    parts = figures["stages"]
    places = np.arange(len(parts))
    bars.bar(places - 0.2, [part["ms"] for part in parts.values()], 0.4, label="stage")
    bars.bar(places + 0.2, [part["floor_ms"] for part in parts.values()], 0.4, label="its floor")
    bars.set_xticks(places, list(parts))
    bars.set(yscale="log", ylabel=f"milliseconds for {WINDOW:,} words")
    bars.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Prints the tables and the JSON; writes the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    parser.add_argument("--level", default="balanced")
    parser.add_argument("--repeats", type=int, default=21, help="a fifth of it for long documents")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="leave out longer documents")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="for the picture")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(stderr=True)
    bundle = Bundle.open(arguments.bundle)
    setting = Setting(level=arguments.level)
    sizes = [size for size in SIZES if size <= arguments.most]
    width = bundle.manifest.backbone.hidden_size
    with threadpool_limits(1):
        figures = {
            "bundle": bundle.id,
            "level": arguments.level,
            "full_width": {"words": len(bundle.words), "dimensions": width},
            "documents": measure(sizes, bundle, setting, arguments.repeats, console),
            "stages": floors(bundle, arguments.repeats),
        }
    show(figures, Console(width=130))
    plot(figures, arguments.out / "edge_latency.png")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
