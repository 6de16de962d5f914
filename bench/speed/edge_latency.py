"""How long does the device take from text to text, stage by stage?

PCT2T of documents of 1 to 50,000 words takes turns with two rivals, on one thread of one process.

(a) Exact search over the backbone's embeddings in full width. It is one float32 matrix product of
    the noisy words with all words, and the best of each row.
(b) The loop of published code. For each word it lists the tokenizer's vocabulary, gathers its
    embeddings, subtracts, and takes the smallest norm. It is timed on single words and multiplied.

Our side is the agent's release under a key. Figures are medians of the thread's processor time,
which other work on the machine does not lengthen.

    python -m bench.edge_latency

With --predict, over a bundle with an encoder: one text of 25 tokens to the scores of an adapter of
rank 8. Its numbers do not change the time.

    python -m bench.edge_latency --predict

With --prompt: one prompt of 25 tokens under the policy of conversations, with each finder of names
that the bundle has.

    python -m bench.edge_latency --prompt

With --socket: calls to a daemon over its socket, in processor time of both processes. The empty
call shows the least that gRPC takes.

    python -m bench.edge_latency --socket
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import grpc
import numpy as np
import torch
from grpc_health.v1 import health_pb2, health_pb2_grpc
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bench import console
from bench.console import Figures, Table, table
from bench.data import document
from bench.speed.edge_memory import started
from sottovoce.cloud.models import backbone as backbones
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.full_finder import FullFinder
from sottovoce.core.privacy.noise import Floats2d, Key, draw
from sottovoce.core.privacy.policies import PrivacyLimits, Setting, Treatment
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.edge.measure import Stopwatch, latency, wait_until_settled
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc

SIZES: Final = (1, 10, 32, 100, 1_000, 10_000, 50_000)
TOKENS: Final = 25
QUANTILES: Final = {"least": 0.0, "median": 0.5, "p90": 0.9, "p99": 0.99, "most": 1.0}
_SCORES: Final = 1 << 24  # 64 MiB of scores at once in (a): larger was not faster
_MOST_EXACT: Final = 10_000
"""Words of (a) that are searched at most; beyond, the time of these is multiplied."""


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
        # Kept, as to be given that much memory anew takes a fifth of the time of a product.
        room = max(1, _SCORES // len(self._words))
        self._scores = np.empty((room, len(self._words)), np.float32)
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
        step = len(self._scores)
        for start in range(0, len(queries), step):
            chunk = slice(start, start + step)
            scores = np.matmul(queries[chunk], self._words.T, out=self._scores[: len(found[chunk])])
            scores -= self._halves
            scores.argmax(axis=1, out=found[chunk])
        return found

    def loop(self, query: Floats2d) -> int:
        """(b), for one word: Floats2d (1, width)."""
        ids = torch.tensor([number for _, number in self._tokenizer.vocab.items()])
        embeddings = torch.nn.functional.embedding(ids, self._tokens)
        expanded = torch.from_numpy(query).expand(embeddings.shape)
        return int(ids[torch.norm(expanded - embeddings, 2, dim=1).argmin()])


def measure(sizes: Sequence[int], bundle: Bundle, setting: Setting, repeats: int) -> list[Figures]:
    """One row a size; see the module's docstring."""
    watch = Stopwatch(time.thread_time)
    privatizer = Privatizer.of(bundle, stage=watch.stage)
    rivals = FullWidth(bundle)
    rows = []
    for size in console.track(sizes, "measuring"):
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
    """Return a text of ``size`` words, and the number of words that need a search (at least 1)."""
    for start in itertools.count():
        text = document(size, start)
        words = privatizer.release(text, setting).each_word()
        searched = sum(word.treatment is Treatment.NOISE for word in words)
        if searched:
            return text, searched
    raise AssertionError("unreachable")


def show(figures: Figures) -> Table:
    """Ours, and how many times faster it is than both rivals."""
    return table(
        f"text to text, {figures['level']}, medians, one thread",
        (),
        (
            *("words", "searched", "text to text", "its search", "(a) exact", "(b) loop"),
            *("search / (a)", "whole / (a)", "search / (b)", "whole / (b)"),
        ),
        (
            (
                f"{row['words']:,}",
                f"{row['searched']:,}",
                f"{row['text_to_text_ms']:,.2f} ms",
                f"{row['stages_ms']['search']:,.3f} ms",
                f"{row['exact_full_width_ms']:,.2f} ms",
                f"{row['published_loop_ms'] / 1e3:,.2f} s",
                f"{row['search_times_faster_than_exact']:,.1f} x",
                f"{row['whole_times_faster_than_exact_search']:,.1f} x",
                f"{row['search_times_faster_than_loop']:,} x",
                f"{row['whole_times_faster_than_loop']:,} x",
            )
            for row in figures["documents"]
        ),
    )


def by_stage(figures: Figures) -> Table:
    """Where the time goes."""
    rows = figures["documents"]
    return table(
        "milliseconds by stage",
        (),
        ("words", *rows[0]["stages_ms"]),
        (
            (f"{row['words']:,}", *(f"{ms:,.2f}" for ms in row["stages_ms"].values()))
            for row in rows
        ),
    )


def at_home(bundle: Bundle, repeats: int) -> Figures:
    """Milliseconds from a text of `TOKENS` tokens to an adapter's scores."""
    from sottovoce.core.bundle.adapter import LocalAdapter
    from sottovoce.core.bundle.encoder import Additions, Encoder

    encoder = Encoder.load(bundle)
    shape = encoder.shape
    names = tuple(layer.name for layer in shape.layers)
    rows = np.random.default_rng(0).standard_normal((8, shape.lora), np.float32)
    added = replace(Additions.none(shape), lora=rows / np.float32(100))
    head = np.zeros((6, shape.width), np.float32)
    labels = tuple("abcdef")
    adapter = LocalAdapter(labels, shape.backbone_sha256, names, added, head, head[:, 0])
    room = TOKENS - len(shape.before) - len(shape.after)
    text = next(
        t for n in range(TOKENS, 0, -1) if len(bundle.tokenizer.ids(t := document(n))) <= room
    )
    adapter.scores(encoder, text)
    taken = sorted(milliseconds(lambda: adapter.scores(encoder, text)) for _ in range(repeats))
    at = {name: round(float(np.quantile(taken, q)), 2) for name, q in QUANTILES.items()}
    return {"tokens": len(bundle.tokenizer.ids(text)) + TOKENS - room, "ms": at}


_PROMPT: Final = (
    "My landlord Priya Nair, 12 Rose Lane, keeps my deposit of 900 pounds. What can I do about it"
    " without a lawyer?"
)


def prompts(bundle: Bundle, repeats: int) -> dict[str, dict[str, float]]:
    """Milliseconds from a prompt to its release under `personal`, by finder; they take turns."""
    readers: dict[str, Callable[[], FullFinder] | None] = {"small": None}
    if bundle.has_full_finder:
        readers["full"] = lambda: FullFinder.load(bundle)
    floors = PrivacyLimits(least_policy="personal")
    sides = {
        name: Privatizer.of(bundle, floors=floors, reader=reader)
        for name, reader in readers.items()
    }
    setting, key = Setting(policy="personal"), Key(bytes(32))
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(repeats):
        for name, privatizer in sides.items():
            text = f"{_PROMPT} ({number})"  # no result may be remembered
            taken[name].append(milliseconds(partial(privatizer.release, text, setting, key=key)))
    return {
        name: {at: round(float(np.quantile(ms[1:], q)), 2) for at, q in QUANTILES.items()}
        for name, ms in taken.items()
    }


_CALLS: Final = 50
"""Calls of one kind in a row, so that what a process does beside them hardly counts."""


def over_socket(bundle: Bundle, repeats: int) -> dict[str, dict[str, float]]:
    """Milliseconds of processor time of a call, in the daemon and in the client, by kind of call.

    The kinds take turns. A text is new if the ledger has not charged it yet.
    """
    with tempfile.TemporaryDirectory() as folder:
        daemon, _ = started(Path(folder), bundle.folder)
        assert daemon.process is not None
        pid = daemon.process.pid
        own, theirs = time.CLOCK_PROCESS_CPUTIME_ID, ~pid << 3 | 2  # clock_getcpuclockid(3)
        try:
            wait_until_settled(pid)
            with grpc.insecure_channel(daemon.address) as channel:
                health = health_pb2_grpc.HealthStub(channel)
                stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
                texts = [document(10, place) for place in range((1 + repeats) * _CALLS)]
                new = iter([agent.PrivatizeRequest(text=text) for text in texts])
                again = agent.PrivatizeRequest(text=texts[0])
                kinds: dict[str, Callable[[], object]] = {
                    "empty call": lambda: health.Check(health_pb2.HealthCheckRequest()),
                    "10 words, new": lambda: stub.Privatize(next(new)),
                    "10 words, again": lambda: stub.Privatize(again),
                }
                taken: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
                for _ in range(1 + repeats):
                    for name, call in kinds.items():
                        begin = time.clock_gettime(theirs), time.clock_gettime(own)
                        for _ in range(_CALLS):
                            call()
                        end = time.clock_gettime(theirs), time.clock_gettime(own)
                        taken[name].append((end[0] - begin[0], end[1] - begin[1]))
        finally:
            daemon.stop()
    return {
        name: {
            side: round(statistics.median(column[1:]) / _CALLS * 1e3, 3)
            for side, column in zip(("daemon", "client"), zip(*rows, strict=True), strict=True)
        }
        for name, rows in taken.items()
    }


def main() -> None:
    """Measures one thread, and prints the tables."""
    parser = console.parser("edge_latency", __doc__)
    parser.add_argument("--level", default="balanced")
    parser.add_argument("--repeats", type=int, default=21, help="a fifth of it for long documents")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="leave out longer documents")
    parser.add_argument("--predict", action="store_true", help="an answer at home instead")
    parser.add_argument("--prompt", action="store_true", help="a prompt of a conversation instead")
    parser.add_argument("--socket", action="store_true", help="calls to a daemon instead")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    bundle = Bundle.open(arguments.bundle)
    setting = Setting(level=arguments.level)
    sizes = [size for size in SIZES if size <= arguments.most]
    width = bundle.manifest.backbone.hidden_size
    if arguments.socket:
        arguments.name += "_socket"
        calls = over_socket(bundle, arguments.repeats)
        shown = table(
            "a call over the daemon's socket, ms of processor time",
            ("call",),
            ("daemon", "client"),
            [(name, *sides.values()) for name, sides in calls.items()],
        )
        console.publish(arguments, calls, shown)
        return
    if arguments.prompt:
        arguments.name += "_prompt"
        with threadpool_limits(1):
            ms = prompts(bundle, 10 * arguments.repeats)
        tokens = len(bundle.tokenizer.ids(_PROMPT))
        title = f"a prompt of {tokens} tokens under personal, ms of one core"
        rows = [(name, *at.values()) for name, at in ms.items()]
        console.publish(
            arguments,
            {"tokens": tokens, "ms": ms},
            table(title, ("finder",), tuple(QUANTILES), rows),
        )
        return
    if arguments.predict:
        arguments.name += "_predict"
        found = at_home(bundle, 10 * arguments.repeats)
        title = f"a text of {found['tokens']} tokens, answered at home, ms of one core"
        console.publish(
            arguments, found, table(title, (), tuple(found["ms"]), [found["ms"].values()])
        )
        return
    with threadpool_limits(1):
        figures = {
            "bundle": bundle.id,
            "level": arguments.level,
            "full_width": {"words": len(bundle.words), "dimensions": width},
            "documents": measure(sizes, bundle, setting, arguments.repeats),
        }
    console.publish(arguments, figures, show(figures), by_stage(figures))


if __name__ == "__main__":
    main()
