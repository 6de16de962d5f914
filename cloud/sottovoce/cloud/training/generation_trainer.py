"""Train one adapter to write; read from top to bottom: data, losses, run, result.

Methods, schedule, checkpoints and reconstruction are the same as in `trainer.py`. There is no head
for the task, so there is no probe. The kept weights predict the largest share of the held-out
outputs' tokens, and among equals have the smallest loss.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import UNWATCHED, Example, TrainingOptions, Watch, check_number
from sottovoce.cloud.models import adapters
from sottovoce.cloud.models.adapters import fingerprint
from sottovoce.cloud.models.backbone import computing, fast_bfloat16, to_bfloat16
from sottovoce.cloud.models.batches import IGNORE, split
from sottovoce.cloud.models.chat import Chat, Turn
from sottovoce.cloud.models.decoder import Decoder, TextGenerator
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.training.run import Checkpoint, Losses, Result, Run
from sottovoce.cloud.training.trainer import Hyperparameters

LONGEST: Final = 1024
"""Tokens of an example; memory grows with them."""


@dataclass(frozen=True, slots=True)
class Written:
    """One example of n tokens.

    Attributes:
        ids: all input tokens.
        targets: for each input token the next token, if it is part of the answer or its end;
            `IGNORE` elsewhere.
        plain: (position, word id) of every plain token. The position is its last sub-token,
            because a decoder sees no further.
    """

    ids: tuple[int, ...]
    targets: tuple[int, ...]
    plain: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """B examples padded to length n: Int (B, n) each; see `Written`.

    ``plain`` holds targets of the reconstruction head, `IGNORE` elsewhere.
    """

    ids: Tensor
    attention: Tensor
    targets: Tensor
    plain: Tensor

    def to(self, device: torch.device) -> Self:
        return type(self)(*(getattr(self, f.name).to(device) for f in fields(self)))


@dataclass(frozen=True)
class GenerationDataset:
    """N examples as integers; see `sottovoce.cloud.models.batches.Dataset`.

    The attributes of the same name mean the same.
    """

    train: list[int]
    held: list[int]
    alone: list[Written]
    fronted: list[Written]
    vocabulary: dict[int, int]

    @classmethod
    def of(cls, examples: Sequence[Example], options: TrainingOptions, decoder: Decoder) -> Self:
        """Check, split and encode; see `train_generation` for errors."""
        check_number(len(examples))
        most = min(LONGEST, decoder.context - from_options(options).front)
        alone = [encode(decoder.chat, e, most) for e in examples]
        fronted = alone
        if options.reconstruction:
            fronted = [encode(decoder.chat, e, most, plain=True) for e in examples]
        words = sorted({word for row in fronted for _, word in row.plain})
        return cls(
            *split([0] * len(examples), options.seed),
            alone,
            fronted,
            {word: i for i, word in enumerate(words)},
        )

    @property
    def overhead(self) -> float:
        without = sum(len(row.ids) for row in self.alone)
        return sum(len(row.ids) for row in self.fronted) / without - 1

    def batch(self, rows: Sequence[int], *, plain: bool = False) -> WrittenBatch:
        some = [(self.fronted if plain else self.alone)[i] for i in rows]
        shape = len(some), max(len(row.ids) for row in some)
        ids, attention = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        targets, words = np.full(shape, IGNORE), np.full(shape, IGNORE)
        for i, row in enumerate(some):
            n = len(row.ids)
            ids[i, :n], attention[i, :n], targets[i, :n] = row.ids, 1, row.targets
            for position, number in row.plain:
                words[i, position] = self.vocabulary[number]
        return WrittenBatch(*map(torch.from_numpy, (ids, attention, targets, words)))


def encode(chat: Chat, example: Example, most: int, *, plain: bool = False) -> Written:
    """Return one example in at most ``most`` tokens.

    Args:
        most: must exceed an empty conversation by a few tokens.
        plain: put the plain tokens in front (RAPT v2, section III-B2).

    Raises:
        InvalidInput: the template refuses a single turn.
    """
    front, places = _fronted(chat, example) if plain else ([], [])
    answer = chat.answer(example.output)
    room = most - len(front) + 1  # the last token is only written
    prompt = _fitting(chat, example.text, room - len(answer))
    # An output that is too long is cut, and then has no end token.
    answer = answer[: room - len(prompt)]
    at = int(prompt[0] == chat.tokenizer.bos_token_id)
    ids = [*prompt[:at], *front, *prompt[at:], *answer]
    targets = [IGNORE] * (len(front) + len(prompt) - 1) + answer
    return Written(
        tuple(ids[:-1]),
        tuple(targets),
        tuple((at + p, w) for p, w in zip(places, example.plain_token_ids, strict=plain)),
    )


def _fronted(chat: Chat, example: Example) -> tuple[list[int], list[int]]:
    """Return the ids of the plain tokens as a line of words, and each one's last index."""
    ids: list[int] = []
    places = []
    for word in example.plain_tokens:
        ids += chat.tokenizer(f" {word}" if ids else word, add_special_tokens=False)["input_ids"]
        places.append(len(ids) - 1)
    return [*ids, *chat.tokenizer("\n", add_special_tokens=False)["input_ids"]], places


def _fitting(chat: Chat, text: str, most: int) -> list[int]:
    """Return the prompt for ``text``, or for the longest beginning that fits."""
    prompt = chat.prompt([Turn("user", text)])
    while len(prompt) > most and text:
        pieces = chat.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ends = [end for _, end in pieces["offset_mapping"]]
        keep = len(ends) - (len(prompt) - most)
        # Fewer characters may still be as long in tokens: at least one more character goes.
        text = text[: min(ends[keep - 1], len(text) - 1)] if keep > 0 else ""
        prompt = chat.prompt([Turn("user", text)])
    return prompt


@dataclass(frozen=True, slots=True)
class GenerationObjective:
    """Losses of the outputs to be written (RAPT v2, eq. 6, 8 and 9).

    Attributes:
        model: in evaluation mode, so without dropout.
        weight: of L_rec, a mean over an example's plain tokens.
    """

    model: TextGenerator
    weight: float = 0.0

    def __call__(self, batch: WrittenBatch) -> Losses:
        """Return each example's losses, means over its tokens."""
        losses, _, reconstruction = self.missed(batch)
        return Losses(losses, reconstruction, self.weight if reconstruction is not None else 0.0)

    def missed(self, batch: WrittenBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return three values for each example, Float (B,) each.

        They are the output's loss, the share of its tokens that were the likeliest, and the plain
        tokens' loss or None.
        """
        written, plain = batch.targets >= 0, batch.plain >= 0  # (B, n)
        with computing(self.model.encoder):
            states = self.model.states(batch.ids, batch.attention)  # (B, n, h)
            losses, hits = self.model.missed(states[written], batch.targets[written])
            head, named = self.model.reconstruction, None
            if head is not None and bool(plain.any()):
                named = F.cross_entropy(
                    head(states[plain].float()), batch.plain[plain], reduction="none"
                )
        reconstruction = None if named is None else _means(named, plain)
        return _means(losses, written), _means(hits.float(), written), reconstruction


def _means(values: Tensor, places: Tensor) -> Tensor:
    """Return the mean of each row: (true places,), Bool (B, n) -> (B,)."""
    spread = torch.zeros(places.shape, dtype=values.dtype, device=values.device)
    return spread.masked_scatter(places, values).sum(1) / places.sum(1).clamp_min(1)


RECIPE: Final = replace(Hyperparameters(), epochs=3, batch_size=8)

_ROWS: Final = 16
"""Examples in a pass without gradients."""


def train_generation(
    examples: Sequence[Example],
    options: TrainingOptions,
    decoder: Decoder,
    folder: Path,
    *,
    resume: Path | None = None,
    watch: Watch = UNWATCHED,
    origin: Mapping[str, Any] | None = None,
    recipe: Hyperparameters = RECIPE,
) -> Result:
    """Train an adapter that writes the examples' outputs, and save it to ``folder``.

    Args:
        examples: at least 8, with outputs.
        options: the tenant's choices; zeros take ``recipe``'s.
        decoder: freshly loaded; is changed, because the method is built into it.
        folder, resume, watch, origin: see `trainer.train`.

    Raises:
        NotReady: too few examples. InvalidInput: the decoder takes no single turn.
        Stopped: ``watch`` ended the run.
        SottovoceError: the loss is not a finite number. Unavailable: the disk is full.
    """
    started = time.monotonic()
    data = GenerationDataset.of(examples, options, decoder)
    plan = recipe.plan(options, data.train, [len(row.ids) for row in data.alone])
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = TextGenerator(
            decoder,
            from_options(options),
            vocabulary=len(data.vocabulary),
            width=options.reconstruction_width or recipe.reconstruction_width,
        )
        model.to(device).eval()
        if device.type == "cpu" and recipe.bfloat16 and fast_bfloat16():
            to_bfloat16(model)
        optimizer = torch.optim.AdamW(model.trained().values(), weight_decay=recipe.weight_decay)
        rate = options.learning_rate or model.method.learning_rate
        weight = options.reconstruction_weight or recipe.reconstruction_weight
        every = recipe.every(data.overhead)
        identity = fingerprint((), options, recipe, rate, decoder.backbone.sha256, len(examples))
        run = Run(identity, plan, rate, recipe.clip, resume, recipe.checkpoint_seconds)
        objective = GenerationObjective(model, weight)

        def scored() -> tuple[float, float]:
            return score(objective, data, watch.go_on)

        point = run.checkpoint()
        if point is None:
            point = Checkpoint.first(model.trained(), *scored())
        else:
            point.into(model, optimizer)

        def batch(at: int) -> WrittenBatch:
            with_plain = options.reconstruction and at % every == 0
            return data.batch(plan.rows(at), plain=with_plain).to(device)

        run.follow(objective, model, optimizer, point, batch, scored, watch)
    adapters.save(folder, model, (), decoder.backbone, dict(origin or {}))
    taken = time.monotonic() - started
    return Result(folder, (), point.accuracy, len(data.held), plan.epochs, taken)


@torch.no_grad()
def score(
    objective: GenerationObjective,
    data: GenerationDataset,
    go_on: Callable[[], None] = lambda: None,
) -> tuple[float, float]:
    """Return the share of held-out output tokens that were the likeliest, and their loss.

    Both are means over examples. ``go_on`` is called before every batch and may raise.
    """
    device = next(objective.model.parameters()).device
    hits = loss = 0.0
    by_length = sorted(data.held, key=lambda at: len(data.alone[at].ids))
    for start in range(0, len(by_length), _ROWS):
        go_on()
        rows = by_length[start : start + _ROWS]
        missed, hit, _ = objective.missed(data.batch(rows).to(device))
        loss, hits = loss + missed.sum().item(), hits + hit.sum().item()
    return hits / max(1, len(data.held)), loss / max(1, len(data.held))
