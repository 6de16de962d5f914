"""How close do serving, training, embedding, writing and search come to this core's kernels?

For each task, the useful work is counted: operations that the answers need, without padding, and
the bytes of weights and activations that these operations must read and write. Serving and
embedding run real passes of the server, with 32 LoRA adapters of rank 8 and SST-2's lengths. Their
kernel is oneDNN's matrix product with the shapes of the backbone's layers, over the tokens of one
pass. Writing runs real passes of the generator, with the random Llama of
`bench.generation_serving`. Its kernel has one row for each text and reads all weights from memory,
which limits it at few rows. The search's kernel is numpy's product with a float32 matrix of the
search's shape.

The sides take turns in one run. Times are medians of one thread's processor time, so other load on
the machine changes the shares less than the speeds.

    python -m bench.roofline --quick
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from bench import console
from bench.console import Figures, Table, table
from bench.speed.generation_serving import random_decoder, save_adapters
from bench.speed.serving import sentences
from bench.speed.serving_sides import DTYPES, Shared, make_adapters, precisions
from bench.speed.training import ours
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.batches import Encoded, collate, encode
from sottovoce.cloud.models.decoder import Cache
from sottovoce.cloud.models.encoder import Encoder
from sottovoce.cloud.models.rows import key_value_shape
from sottovoce.cloud.serving.generator import (
    _NONE,
    Characters,
    Draw,
    Generator,
    Sampling,
    _Served,
    _Text,
)
from sottovoce.cloud.serving.model_thread import CPU_TOKENS, DeviceThread
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.search import ExactIndex
from sottovoce.core.rpc.streams import Stops

ADAPTERS: Final = 32
_MIXED: Final = (5, 200)
_PROMPT, _SEEN = 512, 64
"""Tokens of the prompt to read, and of each text that another token is written for."""

Turn = Callable[[], object]


class Shapes:
    """The products of a backbone or decoder.

    Args:
        rank: of the updates to the attention's four layers.
        writes: whether it is a decoder: its feed-forward layers are gated, its texts see no later
            tokens, and an output layer follows.

    Attributes:
        layers: (inputs, outputs) of every linear layer of all blocks.
        output: the same of the output layer, if any.
    """

    def __init__(self, config: Any, rank: int = 0, *, writes: bool = False) -> None:
        h, inner = config.hidden_size, config.intermediate_size
        self._depth, heads, width = key_value_shape(config)
        self._held, self._wide = heads * width, config.num_attention_heads * width
        attention = [(h, self._wide), (h, self._held), (h, self._held), (self._wide, h)]
        self._block = [*attention, *[(h, inner)] * (2 if writes else 1), (inner, h)]
        self.layers = self._depth * self._block
        self.output = [(h, config.vocab_size)] if writes else []
        self._updates = self._depth * sum(2 * rank * (i + o) for i, o in attention)

    def operations(self, lengths: Sequence[int], past: int = 0) -> float:
        """Return the operations of a pass: layers, attention, updates, and one output a text.

        Args:
            past: tokens of each text that were read before.
        """
        linear = sum(2 * i * o for i, o in self.layers) + self._updates
        output = sum(2 * i * o for i, o in self.output)
        pairs = sum(n * past + (n * (n + 1) / 2 if self.output else n * n) for n in lengths)
        attention = self._depth * 4 * self._wide * pairs
        return float(sum(lengths) * linear + len(lengths) * output + attention)

    def bytes(self, lengths: Sequence[int], size: int, past: int = 0) -> float:
        """Return the bytes of a pass: weights, each text's updates and cache, and activations."""
        weights = sum(i * o for i, o in (*self.layers, *self.output))
        activations = sum(lengths) * sum(i + o for i, o in self.layers)
        activations += len(lengths) * sum(i + o for i, o in self.output)
        own = len(lengths) * (past * self._depth * 2 * self._held + self._updates / 2)
        return float(size * (weights + activations + own))

    def kernel(self, tokens: int, dtype: torch.dtype) -> tuple[Turn, float]:
        """Return oneDNN's products over ``tokens`` rows, and their operations.

        They are the products of one block. Of a decoder all blocks count, because its weights fit
        into no cache.
        """
        block = [*self.layers, *self.output] if self.output else self._block
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


def generation(precision: str, rounds: int) -> list[Figures]:
    """Return rows for one token of 1, 8 and 32 texts, and for reading a prompt."""
    dtype = DTYPES[precision]
    with tempfile.TemporaryDirectory() as root, closing(DeviceThread(dtype=dtype)) as thread:
        files = save_adapters(random_decoder(torch.float32), Path(root))
        alone, shared = (Generator(thread, random_decoder(dtype)) for _ in range(2))
        served = [shared._adapters.acquire(each)[0] for each in files]
        return _generation(alone, shared, served, precision, rounds)


def _generation(
    alone: Generator, shared: Generator, served: Sequence[_Served], precision: str, rounds: int
) -> list[Figures]:
    config, dtype = alone._decoder.stack.config, DTYPES[precision]
    plain, adapted = (Shapes(config, rank, writes=True) for rank in (0, 8))
    loads = {f"writing {n} at once": (plain, [_NONE] * n, _SEEN, 1) for n in (1, 8, 32)}
    loads["writing 32 at once, of as many adapters"] = adapted, [*served], _SEEN, 1
    loads[f"reading a prompt of {_PROMPT} tokens"] = plain, [_NONE], 0, _PROMPT
    sides: dict[str, Turn] = {}
    work: dict[str, tuple[float, float]] = {}
    kernels: dict[str, tuple[str, float]] = {}
    for name, (shapes, those, past, new) in loads.items():
        generator = shared if shapes is adapted else alone  # it keeps its adapters stacked
        lengths, tokens = [new] * len(those), len(those) * min(new, generator._part)
        texts = [_text(generator, each, past + new) for each in those]
        sides[name] = partial(_write, generator, texts, past, new)
        work[name] = shapes.operations(lengths, past), shapes.bytes(lengths, dtype.itemsize, past)
        sides[f"kernel {tokens}"], of_kernel = plain.kernel(tokens, dtype)
        kernels[name] = f"kernel {tokens}", of_kernel
    times = in_turns(sides, rounds)
    return [
        row(name, precision, work[name], times[name], (times[kernel], of_kernel))
        for name, (kernel, of_kernel) in kernels.items()
    ]


def _text(generator: Generator, served: _Served, room: int) -> _Text:
    decoder = generator._decoder
    cache = Cache.begun(decoder.stack, served.row, room, generator._dtype)
    cache.held.zero_()
    draw, characters = Draw(Sampling()), Characters(decoder.tokenizer)
    return _Text(served, None, [], cache, draw, characters, Stops(()), room, sys.maxsize)


def _write(generator: Generator, texts: Sequence[_Text], past: int, new: int) -> None:
    """Read ``new`` tokens of each text after ``past`` others, and write one, in this thread."""
    for text in texts:
        text.cache.length, text.ids = past, [1] * new
    for _ in range(0, new, generator._part):
        for _, step in generator._step(texts):
            if isinstance(step, Exception):
                raise step


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
        found += generation(precision, rounds)
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
