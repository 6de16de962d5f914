"""Ways to serve many adapters, behind one interface, and one load for all.

`serving` compares them on the same cores with the same texts. Each side takes single requests and
answers through futures. The load is closed: every stream keeps a fixed number of requests in
flight, and sends the next one when an answer arrives.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from peft import set_peft_model_state_dict
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models import adapters, backbone
from sottovoce.cloud.models.backbone import fast_bfloat16
from sottovoce.cloud.models.batches import Encoded, collate, encode
from sottovoce.cloud.models.classifier import TextClassifier, encoder_of, pool
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.models.methods.lora import adapt, lora_config, targets
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.cloud.serving.predictor import Predictor
from sottovoce.cloud.store.adapters import AdapterFiles

__all__ = ["Processes", "Run", "Shared", "Side", "Switching"]
__all__ += ["drive", "make_adapters", "on_cores", "percentile", "precisions"]

LABELS = ("negative", "positive")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def precisions() -> list[str]:
    """Return the types of `DTYPES` that are fast on this machine."""
    return ["float32", "bfloat16"][: 2 if torch.cuda.is_available() or fast_bfloat16() else 1]


class Side(Protocol):
    """A way to answer texts; stream i uses adapter i."""

    def submit(self, adapter: int, text: str) -> Future[Any]: ...

    def close(self) -> None: ...


def make_adapters(root: Path, count: int) -> list[Path]:
    """Saves LoRA adapters of rank 8 with random numbers, as a trainer would save them."""
    loaded = backbone.load("default")
    model = TextClassifier(loaded, Lora(), len(LABELS))
    torch.manual_seed(0)
    folders = []
    for number in range(count):
        with torch.no_grad():
            for parameter in model.trained().values():
                parameter.copy_(0.05 * torch.randn_like(parameter))
        folder = root / f"job{number:03}" / "adapter"
        folder.parent.mkdir(parents=True)
        adapters.save(folder, model, LABELS, loaded, {})
        folders.append(folder)
    return folders


class Shared:
    """Ours: one forward pass for rows of all adapters."""

    def __init__(self, folders: Sequence[Path], precision: str) -> None:
        self.backbone = backbone.load("default")
        self._thread = ModelThread(self.backbone, dtype=DTYPES[precision])
        self._predictor = Predictor(self._thread)
        self._adapters = [AdapterFiles.of(folder) for folder in folders]
        for adapter in self._adapters:  # all in memory, as they are on the other sides
            self._predictor.submit(adapter, "warm").result()

    def submit(self, adapter: int, text: str) -> Future[Any]:
        """Submit one text of tenant ``adapter``."""
        return self._predictor.submit(self._adapters[adapter], text, tenant=str(adapter))

    def run(self, rows: Sequence[Encoded]) -> None:
        """Run the server's passes over texts of all adapters in turn, in the caller's thread."""
        held = [self._predictor._adapters.acquire(each) for each in self._adapters]
        served = [held[place % len(held)][0] for place in range(len(rows))]
        shapes = [each.shape(row) for each, row in zip(served, rows, strict=True)]
        for places in self._thread.encoder_passes(shapes):
            self._predictor._forward([served[p] for p in places], [rows[p] for p in places])
        for _, release in held:
            release()

    def close(self) -> None:
        """End the thread."""
        self._thread.close()


class Switching:
    """PEFT's usual way: all adapters loaded, `set_adapter`, one request at a time."""

    def __init__(self, folders: Sequence[Path], precision: str) -> None:
        loaded = backbone.load("default")
        encoder = encoder_of(loaded.model)
        layers = targets(encoder, False)
        self._tokenizer = loaded.tokenizer
        self.heads: list[tuple[Tensor, Tensor]] = []
        model: Any = None
        for number, folder in enumerate(folders):
            adapter = adapters.load(folder)
            assert isinstance(adapter.method, Lora)
            assert adapter.weight is not None
            assert adapter.bias is not None
            config = lora_config(adapter.method, layers)
            if model is None:
                model = adapt(encoder, config, f"a{number}")
            else:
                model.add_adapter(f"a{number}", config)
            set_peft_model_state_dict(model, adapter.tensors, adapter_name=f"a{number}")
            self.heads.append((adapter.weight, adapter.bias))
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self._device, DTYPES[precision]).eval()
        self._active = -1
        self._queue: queue.SimpleQueue[tuple[int, str, Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def submit(self, adapter: int, text: str) -> Future[Any]:
        """Submit one text; answers come in the order of arrival."""
        answer: Future[Any] = Future()
        self._queue.put((adapter, text, answer))
        return answer

    def close(self) -> None:
        """End the thread."""
        self._queue.put(None)
        self._thread.join()

    @torch.inference_mode()
    def answer(self, adapter: int, text: str) -> Tensor:
        """Return the logits: Float (2,)."""
        if adapter != self._active:
            self.model.set_adapter(f"a{adapter}")
            self._active = adapter
        batch = collate(encode(self._tokenizer, [text]), 0).to(self._device)
        found = self.model(input_ids=batch.ids, attention_mask=batch.attention)
        pooled = pool(found.last_hidden_state.float(), batch.text)[0].cpu()
        return F.linear(pooled, *self.heads[adapter])

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            adapter, text, answer = item
            answer.set_result(self.answer(adapter, text).softmax(-1).tolist())


def _serve_one(pipe: Connection, folder: Path, precision: str, threads: int) -> None:
    torch.set_num_threads(threads)
    side = Shared([folder], precision)
    pipe.send(_private_bytes())
    lock = threading.Lock()

    def reply(number: int, answer: Future[Any]) -> None:
        with lock:
            pipe.send((number, answer.result()))

    while (item := pipe.recv()) is not None:
        number, text = item
        side.submit(0, text).add_done_callback(partial(reply, number))
    side.close()


def _private_bytes() -> int:
    """Return the bytes of this process's unshared memory; 0 if unknown."""
    try:
        rows = Path("/proc/self/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    found = [int(row.split()[1]) for row in rows if row.startswith("Private")]
    return sum(found) << 10


class Processes:
    """A process with a separate model for every adapter; each process batches its requests."""

    def __init__(self, folders: Sequence[Path], precision: str, threads: int) -> None:
        # Libraries are imported once and shared: processes at their cheapest.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._pipes: list[Connection] = []
        self._started = []
        for folder in folders:
            ours, theirs = context.Pipe()
            arguments = (theirs, folder, precision, threads)
            process = context.Process(target=_serve_one, args=arguments, daemon=True)
            process.start()
            self._started.append(process)
            self._pipes.append(ours)
        self.bytes = [pipe.recv() for pipe in self._pipes]
        self._waiting: dict[int, Future[Any]] = {}
        self._numbers = iter(range(1 << 62))
        self._closing = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def submit(self, adapter: int, text: str) -> Future[Any]:
        """Submit one text to the adapter's process."""
        answer: Future[Any] = Future()
        number = next(self._numbers)
        self._waiting[number] = answer
        self._pipes[adapter].send((number, text))
        return answer

    def close(self) -> None:
        """End the processes."""
        self._closing = True
        self._thread.join()
        for pipe, process in zip(self._pipes, self._started, strict=True):
            pipe.send(None)
            process.join()

    def _read(self) -> None:
        while not self._closing:
            for pipe in wait(self._pipes, 0.2):
                assert isinstance(pipe, Connection)
                number, scores = pipe.recv()
                self._waiting.pop(number).set_result(scores)


@dataclass(frozen=True)
class Run:
    """Timings of a load: the total in seconds, and each stream's seconds for every request."""

    seconds: float
    latencies: list[list[float]]

    @property
    def rate(self) -> float:
        """Requests a second."""
        return sum(map(len, self.latencies)) / self.seconds


def drive(
    submit: Callable[[int, str], Future[Any]], streams: Sequence[Sequence[str]], window: int
) -> Run:
    """Sends stream i's texts to adapter i, ``window`` in flight at a time, until all are answered.

    Requests follow answers from the thread that gave them, so the load itself takes no thread.
    """
    latencies: list[list[float]] = [[] for _ in streams]
    total = sum(map(len, streams))
    failed: list[Future[Any]] = []
    left = threading.Semaphore(0)
    waiting = [iter(texts) for texts in streams]
    locks = [threading.Lock() for _ in streams]

    def send(stream: int) -> None:
        with locks[stream]:
            text = next(waiting[stream], None)
        if text is None:
            return
        since = time.perf_counter()

        def answered(answer: Future[Any]) -> None:
            latencies[stream].append(time.perf_counter() - since)
            if answer.exception() is not None:
                failed.append(answer)
                left.release(total)  # nothing more will come
                return
            send(stream)
            left.release()

        submit(stream, text).add_done_callback(answered)

    start = time.perf_counter()
    for _ in range(window):
        for stream in range(len(streams)):
            send(stream)
    for _ in range(total):
        left.acquire()
    for answer in failed:
        answer.result()
    return Run(time.perf_counter() - start, latencies)


def percentile(seconds: Sequence[float], share: float) -> float:
    """Return a percentile in milliseconds."""
    return float(np.quantile(seconds, share)) * 1e3


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Restrict this process and its children to ``count`` cores, if the system allows it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
