"""How many tokens a second do texts of many tenants get together, and how soon the first?

It requests texts of equal length at once: 1, 8 and 32 texts from the base model, and 32 texts from
32 LoRA adapters of rank 8. The rival is `transformers`' own ``generate``, one text after the other,
on the same cores. The default model is random, with 8 layers, a width of 512 and 16,384 tokens;
random weights do not change the time.

The decoding rate counts the tokens written while all texts are being written. The total rate also
includes reading the prompts: all tokens, from the first request to the last token. On one core the
times are processor times, which other work does not lengthen. Figures are medians over rounds. A
gain is the median of the rounds' ratios.

    python -m bench.generation_serving
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from bench import console
from bench.console import Figures, Table, table
from bench.speed.serving_sides import DTYPES, on_cores
from sottovoce.cloud.models import adapters, decoder
from sottovoce.cloud.models.backbone import fast_bfloat16
from sottovoce.cloud.models.decoder import SENTENCE, Decoder, TextGenerator
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.serving.generator import Asked, Generator, Sampling
from sottovoce.cloud.serving.model_thread import DeviceThread
from sottovoce.cloud.store.adapters import AdapterFiles

LAYERS, WIDTH, TOKENS = 8, 512, 16_384
PROMPT = 32
STREAMS = (1, 8, 32)
ADAPTERS = 32
TENANTS = 8

Clock = Callable[[], float]


@dataclass(frozen=True)
class Run:
    """Arrival times of each text's tokens, in seconds from the first request."""

    times: list[list[float]]

    @property
    def first(self) -> float:
        """Median time to a text's first token, in milliseconds."""
        return statistics.median(times[0] for times in self.times) * 1e3

    @property
    def rate(self) -> float:
        """Tokens a second, including the time to read the prompts."""
        return sum(map(len, self.times)) / max(times[-1] for times in self.times)

    @property
    def writing(self) -> float:
        """Tokens a second while all texts are being written."""
        begin = max(times[0] for times in self.times)
        end = min(times[-1] for times in self.times)
        written = sum(begin < when <= end for times in self.times for when in times)
        return written / (end - begin) if end > begin else self.rate


def random_decoder(dtype: torch.dtype) -> Decoder:
    """Return a Llama with one word for each token, so a word is shown as soon as it is written."""
    words = list(dict.fromkeys(SENTENCE.split()))
    words += [f"w{number}" for number in range(TOKENS - len(words) - 1)]
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["<end>", *words])}, "<end>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")  # noqa: S106
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=TOKENS,
        hidden_size=WIDTH,
        intermediate_size=11 * WIDTH // 4,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        max_position_embeddings=2_048,
        eos_token_id=0,
    )
    model = LlamaForCausalLM(config).to(dtype)
    return decoder.assemble("random", "random", model, tokenizer, Path())


def opened(options: argparse.Namespace, precision: str) -> Decoder:
    """The decoder, set to continue past any end token."""
    dtype = DTYPES[precision]
    found = decoder.load(options.decoder, dtype=dtype) if options.decoder else random_decoder(dtype)
    found.model.generation_config.eos_token_id = None
    return replace(found, chat=replace(found.chat, ends=frozenset()))


def save_adapters(spent: Decoder, root: Path) -> list[AdapterFiles]:
    """LoRA adapters with random numbers, as a trainer would save them."""
    model = TextGenerator(spent, Lora())
    found = []
    for number in range(ADAPTERS):
        with torch.no_grad():
            for parameter in model.trained().values():
                parameter.copy_(0.05 * torch.randn_like(parameter))
        folder = root / f"job{number:03}" / "adapter"
        folder.parent.mkdir(parents=True)
        adapters.save(folder, model, (), spent.backbone, {})
        found.append(AdapterFiles.of(folder))
    return found


def write(
    generator: Generator,
    prompts: Sequence[str],
    files: Sequence[AdapterFiles | None],
    tokens: int,
    clock: Clock,
) -> Run:
    """Write all texts at once, each read by a separate thread."""
    times: list[list[float]] = [[] for _ in prompts]
    start = clock()

    def read(stream: Any, own: list[float]) -> None:
        own += [clock() - start for piece in stream if piece.text]

    readers = []
    for number, (prompt, adapter, own) in enumerate(zip(prompts, files, times, strict=True)):
        asked = Asked(prompt, Sampling(tokens))
        stream = generator.submit(asked, adapter, tenant=str(number % TENANTS))
        readers.append(threading.Thread(target=read, args=(stream, own)))
        readers[-1].start()
    for reader in readers:
        reader.join()
    return Run(times)


def alone(reference: Decoder, prompt: str, tokens: int, clock: Clock) -> float:
    """Return the tokens a second of `transformers` itself, one text at a time."""
    ids = torch.tensor([reference.chat.opening(prompt)], device=reference.model.device)
    start = clock()
    reference.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=tokens,
        do_sample=False,
        pad_token_id=0,
    )
    return tokens / (clock() - start)


def measure(options: argparse.Namespace, precision: str, root: Path) -> Figures:
    """Run all rounds in one precision."""
    reference, served = opened(options, precision), opened(options, precision)
    files = save_adapters(opened(options, "float32"), root / precision)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    idle = device == "cpu" and options.threads == 1
    clock = time.process_time if idle else time.perf_counter
    reference.model.to(device)
    text = "The museum in Aarhus opened in 1859, and 42 people came. "
    words = (text * PROMPT).split()
    prompts = [" ".join(words[n : n + PROMPT]) for n in range(max(STREAMS))]
    cells: dict[str, list[AdapterFiles | None]] = {str(n): [None] * n for n in STREAMS}
    cells[f"{ADAPTERS}, of as many adapters"] = [*files]
    runs: dict[str, list[Run]] = {name: [] for name in cells}
    ordinary: list[float] = []
    with closing(DeviceThread(dtype=DTYPES[precision])) as thread:
        generator = Generator(thread, served)
        for number in range(options.rounds + 1):
            console.STEPS.print(f"{precision}, round {number} of {options.rounds}")
            tokens = options.tokens if number else 2  # the first one warms up
            for name, those in cells.items():
                run = write(generator, prompts[: len(those)], those, tokens, clock)
                runs[name] += [run] if number else []
            rate = alone(reference, prompts[0], tokens, clock)
            ordinary += [rate] if number else []
    one = runs[str(STREAMS[0])]
    return {
        "precision": precision,
        "transformers": statistics.median(ordinary),
        "cells": {
            name: {
                "tokens_per_second": statistics.median(run.writing for run in found),
                "with_prompts": statistics.median(run.rate for run in found),
                "first_token_ms": statistics.median(run.first for run in found),
                "times_one": statistics.median(
                    run.writing / single.writing for run, single in zip(found, one, strict=True)
                ),
            }
            for name, found in runs.items()
        },
    }


def show(figures: Figures) -> Table:
    """Return a row for each number of texts."""
    rows = []
    for found in figures["compared"]:
        rows.append(
            (found["precision"], "transformers, 1", f"{found['transformers']:,.0f}", "", "", "")
        )
        rows += [
            (
                found["precision"],
                name,
                f"{cell['tokens_per_second']:,.0f}",
                f"{cell['with_prompts']:,.0f}",
                f"{cell['first_token_ms']:,.0f}",
                f"{cell['times_one']:.1f} x",
            )
            for name, cell in found["cells"].items()
        ]
    return table(
        f"{figures['decoder']}, prompts of {PROMPT} words, {figures['tokens']} tokens each, on "
        f"{figures['cores']} core(s), medians of {figures['rounds']} rounds",
        ("numbers", "texts at once"),
        ("tokens/s", "with prompts", "first token ms", "of one text's"),
        rows,
    )


def main() -> None:
    """Run the rounds, and print the table."""
    parser = console.parser("generation_serving", __doc__, quick="fewer rounds and tokens")
    parser.add_argument(
        "--decoder", default="", help="folder or name of a decoder (default: random)"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads and cores")
    parser.add_argument("--rounds", type=int, help="default 5, quick 3")
    parser.add_argument("--tokens", type=int, help="tokens of a text; default 48, quick 24")
    options = parser.parse_args()
    quick = (3, 24) if options.quick else (5, 48)
    for name, value in zip(("rounds", "tokens"), quick, strict=True):
        setattr(options, name, getattr(options, name) or value)
    torch.set_num_threads(options.threads)
    precisions = ["bfloat16"] if torch.cuda.is_available() else ["float32"]
    if precisions == ["float32"] and fast_bfloat16():
        precisions.append("bfloat16")
    with tempfile.TemporaryDirectory() as root, on_cores(options.threads):
        compared = [measure(options, precision, Path(root)) for precision in precisions]
    figures: Figures = {
        "decoder": options.decoder or f"random Llama, {LAYERS} x {WIDTH}, {TOKENS:,} tokens",
        "cores": options.threads,
        "rounds": options.rounds,
        "tokens": options.tokens,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "machine": platform.machine(),
        "versions": console.versions("torch", "transformers", "peft"),
        "compared": compared,
    }
    console.publish(options, figures, show(figures))


if __name__ == "__main__":
    main()
