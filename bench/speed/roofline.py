"""How close do serving, training, embedding and the device's search come to this core's kernels?

For each, the useful work is counted: operations that the answers need, without padding, and the
bytes of weights and activations that they must read and write. Serving and embedding run real
passes of the server, with 32 LoRA adapters of rank 8 and SST-2's lengths. The kernel is oneDNN's
matrix product of the very shapes of the backbone's layers, over as many tokens as one pass holds.
For the device it is numpy's product of a float32 matrix of the search's shape.

The sides take turns in one run. Times are medians of one thread's processor time, so other load on
the machine changes the shares less than the speeds.

    python -m bench.roofline --quick
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from bench import console
from bench.console import Figures, Table, table
from bench.speed.serving import sentences
from bench.speed.serving_sides import DTYPES, Shared, make_adapters, precisions
from bench.speed.training import ours
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.batches import Encoded, collate, encode
from sottovoce.cloud.models.encoder import Encoder
from sottovoce.cloud.serving.model_thread import CPU_TOKENS
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.search import ExactIndex

ADAPTERS: Final = 32
_MIXED: Final = (5, 200)
Turn = Callable[[], object]


class Shapes:
    """The products of a backbone's blocks.

    Attributes:
        layers: (inputs, outputs) of every linear layer of all blocks.
    """

    def __init__(self, config: Any, rank: int = 0) -> None:
        h, inner = config.hidden_size, config.intermediate_size
        self.layers = config.num_hidden_layers * [*[(h, h)] * 4, (h, inner), (inner, h)]
        self._config, self._rank = config, rank

    def operations(self, lengths: Sequence[int]) -> float:
        """Return the operations of a pass: layers, attention, and updates of rank ``rank``."""
        h, depth = self._config.hidden_size, self._config.num_hidden_layers
        linear = sum(2 * i * o for i, o in self.layers)
        updates = depth * 4 * 2 * self._rank * 2 * h
        return float(sum(n * (linear + updates) + depth * 4 * n * n * h for n in lengths))

    def bytes(self, lengths: Sequence[int], size: int) -> float:
        """Return the bytes of a pass: weights once, and each layer's inputs and outputs."""
        weights = sum(i * o for i, o in self.layers)
        activations = sum(lengths) * sum(i + o for i, o in self.layers)
        return float(size * (weights + activations))

    def kernel(self, tokens: int, dtype: torch.dtype) -> tuple[Turn, float]:
        """Return oneDNN's products of one block over ``tokens`` rows, and their operations."""
        block = self.layers[: len(self.layers) // self._config.num_hidden_layers]
        ready = [
            (
                torch.randn(tokens, i).to(dtype),
                torch.ops.mkldnn._reorder_linear_weight(torch.randn(o, i).to(dtype), None),
                torch.zeros(o, dtype=dtype),
            )
            for i, o in block
        ]

        @torch.inference_mode()
        def run() -> None:
            for inputs, weight, bias in ready:
                torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")

        return run, float(sum(2 * tokens * i * o for i, o in block))


def in_turns(sides: dict[str, Turn], rounds: int) -> dict[str, list[float]]:
    """Return each side's seconds of processor time; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in console.track(range(rounds + 1), "taking turns"):
        for name, run in sides.items():
            start = time.thread_time()
            run()
            if turn:
                times[name].append(time.thread_time() - start)
    return times


def row(
    what: str,
    numbers: str,
    work: tuple[float, float],
    times: Sequence[float],
    kernel: tuple[Sequence[float], float],
) -> Figures:
    """Return the figures of one side.

    Args:
        work: operations and bytes of one turn.
        times: seconds of its turns.
        kernel: seconds of the kernel's turns beside them, and the operations of one.
    """
    operations, moved = work
    seconds, of_kernel = kernel
    return {
        "what": what,
        "numbers": numbers,
        "gigaoperations": operations / 1e9,
        "megabytes": moved / 1e6,
        "gflops": operations / statistics.median(times) / 1e9,
        "kernel_gflops": of_kernel / statistics.median(seconds) / 1e9,
        "share": statistics.median(
            (operations / mine) / (of_kernel / its)
            for mine, its in zip(times, seconds, strict=True)
        ),
    }


def serving(texts: Sequence[str], precision: str, rounds: int) -> list[Figures]:
    """Return rows for SST-2's lengths, and for mixed and equal lengths; and for embedding."""
    with tempfile.TemporaryDirectory() as root:
        side = Shared(make_adapters(Path(root), ADAPTERS), precision)
        try:
            return _serving(side, texts, precision, rounds)
        finally:
            side.close()


def _serving(side: Shared, texts: Sequence[str], precision: str, rounds: int) -> list[Figures]:
    dtype = DTYPES[precision]
    loaded = side.backbone
    shapes, plain = (Shapes(loaded.model.config, rank) for rank in (8, 0))
    random = np.random.default_rng(0)
    least, most = _MIXED
    uneven = random.integers(least, most + 1, 24).tolist()
    loads: dict[str, list[Encoded]] = {
        "serving, SST-2's lengths": encode(loaded.tokenizer, texts),
        f"serving, {least} to {most} tokens": [_drawn(n, loaded, random) for n in uneven],
    }
    equal = sum(uneven) // len(uneven)
    loads[f"serving, {equal} tokens each"] = [_drawn(equal, loaded, random) for _ in uneven]
    sides: dict[str, Turn] = {
        name: lambda rows=rows: side.run(rows)  # type: ignore[misc]
        for name, rows in loads.items()
    }
    embedder = Encoder(loaded)
    inputs = [embedder.token_embeddings(each.ids[1:-1]) for each in next(iter(loads.values()))]
    sides["embedding, SST-2's lengths"] = lambda: [
        embedder.encode(inputs[at : at + 16]) for at in range(0, len(inputs), 16)
    ]
    loads["embedding, SST-2's lengths"] = next(iter(loads.values()))
    sides["kernel"], of_kernel = shapes.kernel(CPU_TOKENS, dtype)
    times = in_turns(sides, rounds)
    size = torch.finfo(dtype).bits // 8
    found = []
    for name, rows in loads.items():
        lengths = [len(each.ids) for each in rows]
        counted = plain if name.startswith("embedding") else shapes
        work = counted.operations(lengths), counted.bytes(lengths, size)
        found.append(row(name, precision, work, times[name], (times["kernel"], of_kernel)))
    return found


def _drawn(n: int, loaded: Any, random: np.random.Generator) -> Encoded:
    return Encoded(tuple(random.integers(1_000, len(loaded.tokenizer), n).tolist()), (True,) * n)


def training(texts: Sequence[str], precision: str, rounds: int, size: int = 32) -> Figures:
    """Return the row of a training step of LoRA.

    A step needs three times the operations of a pass, less the gradients of frozen weights.
    """
    dtype = DTYPES[precision]
    loaded = backbones.load()
    rows = sorted(encode(loaded.tokenizer, texts), key=lambda each: len(each.ids))[:size]
    batch, labels = collate(rows, 0), torch.zeros(len(rows), dtype=torch.int64)
    step = ours(precision == "bfloat16", 1, torch.device("cpu"))
    shapes, plain = (Shapes(loaded.model.config, rank) for rank in (8, 0))
    lengths = [len(each.ids) for each in rows]
    kernel, of_kernel = shapes.kernel(sum(lengths), dtype)
    times = in_turns({"step": lambda: step(batch, labels), "kernel": kernel}, rounds)
    # Forward and backward of frozen layers, and one more product for the gradients of updates.
    operations = 3 * shapes.operations(lengths) - plain.operations(lengths)
    moved = 2 * shapes.bytes(lengths, torch.finfo(dtype).bits // 8)
    kernels = times["kernel"], of_kernel
    return row("training step, LoRA", precision, (operations, moved), times["step"], kernels)


def device(bundle: Bundle, rounds: int, queries: int) -> Figures:
    """Return the row of exact search for ``queries`` words of the largest class at once."""
    manifest = bundle.manifest
    largest = max(manifest.classes, key=lambda name: manifest.classes[name].words)
    words = bundle.class_rows(largest)
    random = np.random.default_rng(0)
    asked = words[random.integers(len(words), size=queries)]
    asked = asked + 0.1 * random.standard_normal(asked.shape).astype(np.float32)
    index = ExactIndex(words)
    columns = np.ascontiguousarray(words.T)
    room = np.empty((queries, len(words)), np.float32)
    with threadpool_limits(1):
        times = in_turns(
            {
                "search": lambda: index.nearest(asked),
                "kernel": lambda: np.matmul(asked, columns, out=room),
            },
            rounds,
        )
    operations = 2.0 * queries * words.size
    moved = 4.0 * (words.size + asked.size)
    name = f"device, search of {queries} words among {len(words):,}"
    return row(name, "float32", (operations, moved), times["search"], (times["kernel"], operations))


def show(figures: Figures) -> Table:
    """Return the one table."""
    return table(
        "Useful work beside the kernel's speed, one thread",
        ("what", "numbers"),
        ("operations, G", "bytes, MB", "GFLOP/s", "kernel, GFLOP/s", "share"),
        (
            (
                each["what"],
                each["numbers"],
                f"{each['gigaoperations']:,.2f}",
                f"{each['megabytes']:,.0f}",
                f"{each['gflops']:,.0f}",
                f"{each['kernel_gflops']:,.0f}",
                f"{100 * each['share']:.0f} %",
            )
            for each in figures["rows"]
        ),
    )


def measure(options: argparse.Namespace) -> Figures:
    """Return all rows."""
    rounds, count = (3, 32) if options.quick else (15, 256)
    source, texts = sentences(options.data)
    bundle = Bundle.open(options.bundle)
    found = []
    for precision in precisions():
        console.STEPS.print(precision)
        found += serving(texts[:count], precision, rounds)
        found.append(training(texts[:count], precision, rounds))
    found += [device(bundle, 5 * rounds, queries) for queries in (1, 10, 512)]
    return {"texts": source, "rows": found, "versions": console.versions("torch", "transformers")}


def main() -> None:
    """Measure in turns, and print the table."""
    parser = console.parser(
        "roofline", __doc__, quick="fewer texts and turns", data="sst2/dev.tsv.gz"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    figures = measure(options)
    console.publish(options, figures, show(figures))


if __name__ == "__main__":
    main()
