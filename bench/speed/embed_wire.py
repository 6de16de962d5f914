"""What does the round trip of an embedding weigh, and what do batches gain the cloud?

Messages of the helpdesk example, whole and cut to 12 words, leave as a device sends them. Measured:
(a) the bytes of a query and its answer;
(b) the cloud's processor time for a query, one at a time and in batches, the sides taking turns.

    python -m bench.embed_wire
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from rich.table import Table

from bench import console
from bench.console import Figures, table
from bench.data import messages
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.serving.embedder import Embedder, Query
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Floats2d, SecureRandom
from sottovoce.core.privacy.token_embedding import LONGEST, TokenEmbedding
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.v1 import inference_pb2 as wire

SHORT: Final = 12
BATCHES: Final = (1, 8, 32)


def texts(count: int) -> dict[str, list[str]]:
    """The messages, cut and whole."""
    whole = messages("test")[:count]
    return {f"{SHORT} words": [" ".join(text.split()[:SHORT]) for text in whole], "whole": whole}


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
        self.thread = ModelThread(loaded, batch=max(BATCHES))
        self.embedder = Embedder(self.thread, {bundle.id: bundle})

    def answers(self, vectors: Sequence[Floats2d], eta: float) -> NDArray[np.float32]:
        """The answers to queries sent together: Floats2d (queries, width)."""
        waiting = [self.embedder.submit(Query(self.bundle.id, v, eta)) for v in vectors]
        return np.array([answer.result() for answer in waiting])


def batching(
    cloud: Serving, messages: Sequence[str], eta: float, rounds: int
) -> dict[str, Figures]:
    """Milliseconds of processor time a query: medians over rounds, and the gain over one alone."""
    units = [unit_rows(cloud.bundle.tokens[ids_of(cloud.bundle, text)]) for text in messages]
    queries = [TokenEmbedding(eta).perturb(rows, SecureRandom()) for rows in units]
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


def show(result: Figures) -> Iterator[Table]:
    """The tables."""
    yield table(
        "what travels, median of a query (gRPC's own bytes left out)",
        ("texts",),
        ("tokens", "text", "bytes up", "bytes down"),
        ((name, *(f"{n:.0f}" for n in found.values())) for name, found in result["sizes"].items()),
    )
    yield table(
        "the cloud's processor time, one thread",
        ("texts",),
        ("batch", "ms a query", "gain"),
        (
            (name, size, f"{found['ms']:.1f}", f"{found['gain']:.2f}")
            for name, by_size in result["batching"].items()
            for size, found in by_size.items()
        ),
    )


def main() -> None:
    """Sends messages, and prints tables."""
    parser = console.parser("embed_wire", __doc__)
    parser.add_argument("--texts", type=int, default=24, help="messages (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of batching (default %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    bundle = Bundle.open(arguments.bundle)
    levels = {name: level.eta for name, level in bundle.manifest.embed.items()}
    if not levels:
        sys.exit("the bundle has no levels for embeddings: build it with a denoiser")
    cloud = Serving(bundle)
    kinds = texts(arguments.texts)
    eta = levels["balanced"]
    result: Figures = {
        "dimensions": bundle.manifest.dimensions,
        "sizes": {name: sizes(bundle, found, eta) for name, found in kinds.items()},
        "batching": {
            name: batching(cloud, found, eta, arguments.rounds)
            for name, found in console.track(kinds.items(), "batching")
        },
    }
    cloud.thread.close()
    console.publish(arguments, result, *show(result))


if __name__ == "__main__":
    main()
