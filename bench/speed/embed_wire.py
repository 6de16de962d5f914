"""What does the round trip of an embedding weigh, and what do rounding and batching do to it?

Messages of the helpdesk example, whole and cut to 12 words, leave as a device sends them. Measured:
(a) the bytes of a query and its answer with the vectors in float32, in float16 (what is sent), and
    in 8 and 4 bits a number with a scale a row, and how far the cloud's answer moves with each;
(b) the cloud's processor time for a query, one at a time and in batches, the sides taking turns.

    python -m bench.speed.embed_wire
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.encoder import Encoder
from sottovoce.cloud.serving.embedder import Embedder, Query
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.token_embedding import LONGEST, TokenEmbedding, pack, unpack
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.v1 import inference_pb2 as wire

MESSAGES: Final = Path(__file__).parents[2] / "examples" / "helpdesk" / "test.tsv"
SHORT: Final = 12
BATCHES: Final = (1, 8, 32)

Figures = dict[str, Any]


def in_steps(bits: int) -> Callable[[Floats2d], Floats2d]:
    """Rounds each row to whole steps of its largest number."""
    top = 2 ** (bits - 1) - 1

    def rounded(rows: Floats2d) -> Floats2d:
        step = np.abs(rows).max(axis=1, keepdims=True) / top
        back: Floats2d = (np.rint(rows / step) * step).astype(np.float32)
        return back

    return rounded


FORMS: Final[dict[str, tuple[Callable[[int], float], Callable[[Floats2d], Floats2d] | None]]] = {
    "float32": (lambda r: 4.0 * r, lambda rows: rows),
    "float16": (lambda r: 2.0 * r, None),  # by the code that ships
    "8 bits": (lambda r: r + 2.0, in_steps(8)),
    "4 bits": (lambda r: r / 2 + 2.0, in_steps(4)),
}
"""Bytes of a token's vector of r numbers, and what arrives of it."""


def texts(count: int) -> dict[str, list[str]]:
    """The messages, cut and whole."""
    lines = MESSAGES.read_text(encoding="utf-8").splitlines()[1 : count + 1]
    messages = [line.split("\t")[0] for line in lines]
    return {
        f"{SHORT} words": [" ".join(text.split()[:SHORT]) for text in messages],
        "whole": messages,
    }


def sizes(bundle: Bundle, messages: Sequence[str], eta: float) -> Figures:
    """Medians of tokens and of the bytes of the two messages, without gRPC's own."""
    r, width = bundle.manifest.dimensions, bundle.manifest.backbone.hidden_size
    answer = wire.EncodeResponse(request_id="0" * 16, embedding=[0.1] * width)
    tokens = [len(ids_of(bundle, text)) for text in messages]
    up = [
        wire.EncodeRequest(
            request_id="0" * 16,
            bundle_id=bundle.id,
            mechanism=TokenEmbedding.name,
            eta=eta,
            tokens=n,
            vectors=bytes(2 * r * n),
        ).ByteSize()
        for n in tokens
    ]
    return {
        "tokens": statistics.median(tokens),
        "text_bytes": statistics.median(len(text.encode()) for text in messages),
        "bytes_up": statistics.median(up),
        "bytes_down": answer.ByteSize(),
    }


def ids_of(bundle: Bundle, text: str) -> list[int]:
    """Token ids as the device cuts them."""
    ids: list[int] = bundle.tokenizer.ids(text)
    return ids[:LONGEST]


class Serving:
    """The cloud's part, in this process."""

    def __init__(self, bundle: Bundle) -> None:
        loaded = backbones.load("default")
        self.bundle = bundle
        self.encoder = Encoder(loaded)
        self.thread = ModelThread(loaded, batch=max(BATCHES))
        self.embedder = Embedder(self.thread, {bundle.id: bundle})

    def answers(self, vectors: Sequence[Floats2d], eta: float) -> NDArray[np.float32]:
        """The answers to queries sent together: Floats2d (queries, width)."""
        waiting = [self.embedder.submit(Query(self.bundle.id, v, eta)) for v in vectors]
        return np.array([answer.result() for answer in waiting])


def forms(cloud: Serving, messages: Sequence[str], eta: float) -> dict[str, Figures]:
    """How far the answer moves with each form, from that to float32; mean and worst cosine."""
    mechanism, bundle = TokenEmbedding(eta), cloud.bundle
    random = np.random.default_rng(0)
    noisy = []
    for text in messages:
        units = unit_rows(bundle.tokens[ids_of(bundle, text)])
        noisy.append(mechanism.draw(len(units), units.shape[1], random).add_to(units))
    clean = cloud.encoder.encode_clean(messages).numpy()
    found: dict[str, NDArray[np.float32]] = {}
    r = bundle.manifest.dimensions
    for name, (_, arrives) in FORMS.items():
        sent = [
            arrives(rows) if arrives else unpack(pack(rows, mechanism), len(rows), r, mechanism)
            for rows in noisy
        ]
        found[name] = cloud.answers(sent, eta)
    exact = found["float32"]
    return {
        name: {
            "bytes_a_token": FORMS[name][0](r),
            "cosine_mean": float((answers * exact).sum(axis=1).mean()),
            "cosine_least": float((answers * exact).sum(axis=1).min()),
            "cosine_to_clean": float((answers * clean).sum(axis=1).mean()),
        }
        for name, answers in found.items()
    }


def batching(
    cloud: Serving, messages: Sequence[str], eta: float, rounds: int
) -> dict[str, Figures]:
    """Milliseconds of processor time a query: medians over rounds, and the gain over one alone."""
    units = [unit_rows(cloud.bundle.tokens[ids_of(cloud.bundle, text)]) for text in messages]
    queries = [TokenEmbedding(eta).draw(*rows.shape).add_to(rows) for rows in units]
    queries = [queries[n % len(queries)] for n in range(max(BATCHES))]
    spent: dict[int, list[float]] = {size: [] for size in BATCHES}
    for _ in range(rounds):
        for size in BATCHES:
            start = time.process_time()
            for first in range(0, len(queries), size):
                cloud.answers(queries[first : first + size], eta)
            spent[size].append((time.process_time() - start) / len(queries) * 1_000)
    alone = statistics.median(spent[1])
    return {
        str(size): {"ms": statistics.median(times), "gain": alone / statistics.median(times)}
        for size, times in spent.items()
    }


def picture(result: Figures, path: Path) -> None:
    """Left: bytes against how far the answer moves. Right: the gain of batches."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for level, found in result["forms"].items():
        rows = [(f["bytes_a_token"], 1 - f["cosine_mean"]) for f in found.values()]
        shown = [(x, max(y, 1e-8)) for x, y in rows]
        left.plot(*zip(*shown, strict=True), "o-", label=level)
    left.set(xlabel="bytes a token", ylabel="1 - cosine to float32", yscale="log")
    left.legend()
    for name, found in result["batching"].items():
        gains = [found[str(size)]["gain"] for size in BATCHES]
        right.plot(BATCHES, gains, "o-", label=name)
    right.set(xlabel="queries in a batch", ylabel="queries a second, one alone = 1")
    right.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def show(result: Figures) -> None:
    """The tables."""
    console = Console()
    table = Table(title="What travels, median of a query (gRPC's own bytes left out)")
    for column in ("texts", "tokens", "text", "bytes up", "bytes down"):
        table.add_column(column, justify="right")
    for name, found in result["sizes"].items():
        table.add_row(name, *(f"{value:.0f}" for value in found.values()))
    console.print(table)
    table = Table(title="The form of the upload")
    for column in ("level", "form", "bytes a token", "cosine", "least", "to clean"):
        table.add_column(column, justify="right")
    for level, found in result["forms"].items():
        for name, f in found.items():
            cosines = (f["cosine_mean"], f["cosine_least"], f["cosine_to_clean"])
            table.add_row(level, name, f"{f['bytes_a_token']:.0f}", *(f"{c:.4f}" for c in cosines))
    console.print(table)
    table = Table(title="The cloud's processor time, one thread")
    for column in ("texts", "batch", "ms a query", "gain"):
        table.add_column(column, justify="right")
    for texts_of, found in result["batching"].items():
        for size, f in found.items():
            table.add_row(texts_of, size, f"{f['ms']:.1f}", f"{f['gain']:.2f}")
    console.print(table)


def main() -> None:
    """Measures, prints tables and, last, one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    parser.add_argument("--texts", type=int, default=24, help="messages (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of batching (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder of the PNG")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    bundle = Bundle.open(arguments.bundle)
    levels = {name: level.eta for name, level in bundle.manifest.embed.items()}
    if not levels:
        sys.exit("the bundle has no levels for embeddings: build it with a denoiser")
    cloud = Serving(bundle)
    kinds = texts(arguments.texts)
    short = kinds[f"{SHORT} words"]
    steps = Console(stderr=True)
    result: Figures = {
        "dimensions": bundle.manifest.dimensions,
        "sizes": {name: sizes(bundle, found, levels["balanced"]) for name, found in kinds.items()},
        "forms": {
            name: forms(cloud, short, eta)
            for name, eta in track(levels.items(), "forms", console=steps)
        },
        "batching": {
            name: batching(cloud, found, levels["balanced"], arguments.rounds)
            for name, found in track(kinds.items(), "batching", console=steps)
        },
    }
    cloud.thread.close()
    picture(result, arguments.out / "embed_wire.png")
    show(result)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
