"""How fast is training, with reconstruction and without, beside plain transformers and peft?

One step (forward, backward, clipping, AdamW) over the same batches of released SST-2 phrases, LoRA
of rank 8 in the attention of the default backbone:

    ours    the trainer's own step: `Clipped` on an `Objective` (`sottovoce.cloud.training`)
    peft    a plain loop: AutoModelForSequenceClassification, get_peft_model, loss.backward(), its
            model in training mode; for reconstruction a head on the last hidden states

Each side runs with texts alone and with plain tokens in front. Each runs in float32, and in
bfloat16 where the processor supports it (peft: ``from_pretrained(dtype=bfloat16)``). All take turns
on every batch. A side's time is the sum over batches of its median processor time (on a GPU:
wall-clock time), so other work on the machine hardly changes the ratios. A job has plain tokens
before every k-th batch only, so its time is one part with and k - 1 parts without.

A second table sets private steps (see `sottovoce.cloud.training.dp_sgd.steps`) beside plain ones. A
private step works through its sample in pieces, with a copy of the adapter for every row, and draws
noise once. So the cost of each example falls with the size of the sample.

    python -m bench.training --quick
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its customary name
from transformers import AutoModelForSequenceClassification

from bench import console, data
from bench.console import Figures, Table, table
from bench.speed.serving_sides import precisions
from bench.utility import tasks
from sottovoce.cloud.job import Example, TrainingOptions
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.backbone import fast_bfloat16, to_bfloat16
from sottovoce.cloud.models.batches import Batch, Dataset
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import Lora, from_options
from sottovoce.cloud.models.methods.lora import targets
from sottovoce.cloud.training.dp_sgd import trainer
from sottovoce.cloud.training.dp_sgd.steps import BIAS, WEIGHT, Private, RowObjective, Trained
from sottovoce.cloud.training.run import Clipped, Labelled, Objective, batches
from sottovoce.cloud.training.trainer import Hyperparameters
from sottovoce.core.bundle.backbone import resolve
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import token_embedding
from sottovoce.core.privacy.gaussian import Stage
from sottovoce.core.privacy.policies import Setting

RATE: Final = 1e-3

PAPERS: Final = 40
"""Plain tokens before every example in RAPT v2, section V-A."""

PLAIN: Final = (10, PAPERS)
"""Plain tokens of an example: the device's default, and the paper's number."""

METHODS: Final = ("lora", "prompt", "prefix")
_STAGE: Final = Stage(steps=1, share=0.1, noise=1.0, clip=0.5)

Step = Callable[[Batch, Tensor], object]


def ours(light: bool, vocabulary: int, device: torch.device) -> Step:
    """A step as the trainer makes it."""
    loaded = backbones.load()
    model = TextClassifier(loaded, Lora(), 2, vocabulary=vocabulary).to(device).eval()
    if light and device.type == "cpu":
        to_bfloat16(model.encoder)
    optimizer = torch.optim.AdamW(model.trained().values(), lr=RATE)
    update, objective = Clipped(optimizer), Objective(model, weight=0.1)
    return lambda batch, labels: update(objective, Labelled(batch, labels), RATE)


def peft(light: bool, vocabulary: int, device: torch.device) -> Step:
    """The usual training loop with transformers and peft."""
    on_cpu = device.type == "cpu"
    model: Any = AutoModelForSequenceClassification.from_pretrained(
        resolve("default"),
        num_labels=2,
        dtype=torch.bfloat16 if light and on_cpu else torch.float32,
        use_safetensors=True,
    )
    lora = Lora()
    config = LoraConfig(
        task_type=TaskType.SEQ_CLS,
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=targets(model, False),
    )
    model = get_peft_model(model, config).to(device).train()
    width = Hyperparameters().reconstruction_width
    head = nn.Sequential(
        nn.Linear(model.config.hidden_size, width, bias=False),
        nn.Linear(width, vocabulary, bias=False),
    ).to(device)
    trained = [*(p for p in model.parameters() if p.requires_grad), *head.parameters()]
    optimizer = torch.optim.AdamW(trained, lr=RATE)

    def run(batch: Batch, labels: Tensor) -> None:
        plain = batch.plain >= 0
        wanted = bool(plain.any())
        with torch.autocast(device.type, torch.bfloat16, enabled=light and not on_cpu):
            found = model(
                input_ids=batch.ids,
                attention_mask=batch.attention,
                labels=labels,
                output_hidden_states=wanted,
            )
            loss = found.loss
            if wanted:
                named = head(found.hidden_states[-1][plain].float())
                loss = loss + 0.1 * F.cross_entropy(named, batch.plain[plain])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()

    return run


def examples(bundle: Bundle, folder: Path, count: int, plain: int) -> list[Example]:
    """Phrases as a device releases them, with plain tokens of their own."""
    task = tasks.load("sst2", folder, count)
    released = tasks.released(bundle, task.train.texts, Setting(), 0)
    words = token_embedding.vocabulary(bundle, Setting().policy)
    random = np.random.default_rng(0)
    made = []
    for text, label in zip(released, task.train.labels, strict=True):
        ids = words.draw(plain, random)
        made.append(Example(text, label, tuple(bundle.words[i] for i in ids), tuple(ids)))
    return made


def measure(sets: dict[int, Dataset], size: int, count: int, repeats: int) -> Figures:
    """Seconds for ``count`` batches by precision, side and plain tokens (0 for none)."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    first = next(iter(sets.values()))
    everything = range(len(first.alone))
    chosen = batches(everything, [len(row.ids) for row in first.alone], size, 0, 0)[:count]
    vocabulary = max(len(each.vocabulary) for each in sets.values())
    made = {
        (precision, name): make(precision == "bfloat16", vocabulary, device)
        for precision in reversed(precisions())
        for name, make in (("ours", ours), ("peft", peft))
    }
    forms = [(0, first), *sets.items()]
    times: dict[tuple[str, str, int, int], list[float]] = {}
    for turn in console.track(range(repeats + 1), "taking turns"):
        for place, some in enumerate(chosen):
            labels = first.targets[some].to(device)
            for plain, each in forms:
                batch = each.batch(some, plain=plain > 0).to(device)
                for side, run in made.items():
                    taken = seconds(run, batch, labels)
                    if turn:  # the first one warms up
                        times.setdefault((*side, plain, place), []).append(taken)
    found: Figures = {}
    for (precision, name, plain, _), turns in times.items():
        by_plain = found.setdefault(precision, {}).setdefault(name, {})
        by_plain[plain] = by_plain.get(plain, 0.0) + statistics.median(turns)
    return found


def seconds(run: Step, batch: Batch, labels: Tensor) -> float:
    """Return the time of one step: processor time, or wall-clock time on a GPU."""
    if not batch.ids.is_cuda:
        start = time.process_time()
        run(batch, labels)
        return time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    run(batch, labels)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def rows(times: Figures, every: dict[int, int], examples: int) -> list[Figures]:
    """Return a row for each form of training."""
    forms = [("ours", 0, 1)]
    forms += [("ours", plain, every[plain]) for plain in PLAIN]
    forms += [("ours", PAPERS, 1), ("peft", 0, 1), ("peft", PAPERS, 1)]
    made = []
    for name, plain, k in forms:
        row: Figures = {"side": name, "plain_tokens": plain, "every": k}
        for precision, sides in times.items():
            taken = (sides[name][plain] + (k - 1) * sides[name][0]) / k
            without = sides[name][0]
            theirs = (sides["peft"][PAPERS] if plain else sides["peft"][0]) / taken
            row[precision] = {
                "examples_per_second": round(examples / taken, 1),
                "of_without": round(without / taken, 3),
                "times_peft": round(theirs, 2),
            }
        made.append(row)
    return made


def show(figures: Figures) -> Table:
    """Return the table, a row for each form."""
    measured = [*figures["seconds"]]

    def cells(row: Figures) -> Iterator[str]:
        one_of = {0: "-", 1: "all"}.get(row["every"] if row["plain_tokens"] else 0)
        yield from (row["side"], str(row["plain_tokens"] or "-"), one_of or f"1 of {row['every']}")
        for found in (row[precision] for precision in measured):
            yield f"{found['examples_per_second']:,.0f}"
            yield f"{found['of_without']:.2f}"
            yield f"{found['times_peft']:.2f} x"

    return table(
        "training LoRA, examples a second of one thread's time",
        ("", "plain tokens", "before batches"),
        [each for precision in measured for each in (precision, "of without", "times peft")],
        ([*cells(row)] for row in figures["forms"]),
    )


def show_private(figures: Figures) -> Table:
    """Return the table of private steps, a row for each method."""
    return table(
        "private steps over a sample of 256 examples",
        ("method",),
        ("examples a second of one thread's time", "times a plain step's time"),
        (
            (method, f"{found['examples_per_second']:,.0f}", f"{found['times_plain']:.2f}")
            for method, found in figures["private"].items()
        ),
    )


def private_steps(method: str, labels: int) -> dict[str, Callable[[Sequence[Labelled]], object]]:
    """Return a plain and a private step over pieces, built as the trainers build them."""
    options = TrainingOptions(method=method)
    plain = TextClassifier(backbones.load(), from_options(options), labels).eval()
    if fast_bfloat16():
        to_bfloat16(plain.encoder)
    follow = Clipped(torch.optim.AdamW(plain.trained().values(), lr=RATE))
    objective = Objective(plain)

    loaded = backbones.load()
    model, begin = trainer.begin(loaded, from_options(options), torch.device("cpu"), True)
    width = loaded.hidden_size
    trained = Trained({**begin, WEIGHT: torch.zeros(labels, width), BIAS: torch.zeros(labels)})
    private = Private(trained, torch.optim.Adam(trained.values.values()), _STAGE, 1_000)
    own = RowObjective(model, trained)
    return {
        "plain": lambda pieces: [follow(objective, piece, RATE) for piece in pieces],
        "private": lambda pieces: private(own, pieces, RATE),
    }


def measure_private(data: Dataset, pieces: int, repeats: int) -> Figures:
    """Processor seconds by method and side over ``pieces`` times 32 examples, in turn: medians."""
    rows = list(range(32 * pieces))
    sample = trainer.pieces(data, rows, torch.device("cpu"))
    found: Figures = {}
    for method in METHODS:
        made = private_steps(method, len(data.labels))
        times: dict[str, list[float]] = {side: [] for side in made}
        for turn in console.track(range(repeats + 1), f"private steps, {method}"):
            for side, step in made.items():
                start = time.process_time()
                step(sample)
                if turn:  # the first one warms up
                    times[side].append(time.process_time() - start)
        ratios = [a / b for a, b in zip(times["private"], times["plain"], strict=True)]
        found[method] = {
            "examples_per_second": round(len(rows) / statistics.median(times["private"]), 1),
            "times_plain": round(statistics.median(ratios), 3),
        }
    return found


def main() -> None:
    """Measure in turns, and print the tables."""
    parser = console.parser("training", __doc__, quick="8 batches, 4 turns: 2 minutes", data="sst2")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--turns", type=int, default=9, help="repetitions on every batch")
    parser.add_argument("--batch-size", type=int, default=Hyperparameters().batch_size)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    data.require(parser, arguments.data, *tasks.files(["sst2"]))
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    count, repeats = (8, 4) if arguments.quick else (arguments.batches, arguments.turns)
    bundle = Bundle.open(arguments.bundle)
    tokenizer = backbones.load().tokenizer
    recipe = Hyperparameters()
    sets = {}
    for plain in PLAIN:
        options = TrainingOptions(reconstruction=True, plain_tokens=plain)
        released = examples(bundle, arguments.data, 2_000, plain)
        sets[plain] = Dataset.of(released, options, tokenizer)
    every = {plain: recipe.every(each.overhead) for plain, each in sets.items()}
    size = arguments.batch_size
    times = measure(sets, size, count, repeats)
    figures = {
        "batch_size": size,
        "batches": count,
        "repeats": repeats,
        "threads": arguments.threads,
        "every": every,
        "seconds": times,
        "forms": rows(times, every, size * count),
        "private": measure_private(next(iter(sets.values())), 8, repeats),
        "versions": console.versions("torch", "transformers", "peft"),
    }
    console.publish(arguments, figures, show(figures), show_private(figures))


if __name__ == "__main__":
    main()
