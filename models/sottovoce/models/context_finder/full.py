"""Trains the finder `full`: a language model with an adapter, which reads sentences.

The adapter is LoRA (Hu et al., 2021) in every linear layer. A vector for each word's case is added
to the input, because the model reads small letters only. A linear head scores the kinds. Marked
and made-up sentences are read once each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.random import Generator
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sottovoce.cloud.models.backbone import LoadedBackbone, fast_bfloat16
from sottovoce.core.bundle.full_finder import CASES, LONGEST, case_of
from sottovoce.core.text.context_finder import BREAK
from sottovoce.core.text.names import KINDS
from sottovoce.models.context_finder.sentences import (
    Sentences,
    ordinary_words,
    read_marked,
    read_written,
    weakened,
)
from sottovoce.models.names_data import (
    NONE,
    SLOTS,
    Lists,
    Marked,
    Mentions,
    changed,
    made_up,
    read_masc_and_web,
)
from sottovoce.models.tagger import NO_WORD, Progress, averaged, partial_loss

__all__ = [
    "FURTHER",
    "LARGE",
    "ROUNDS",
    "FullNetwork",
    "Passage",
    "Round",
    "kept_back",
    "learn",
    "padded",
    "train_full_finder",
]

_TOKENS: Final = {"cpu": 1_024, "cuda": 16_384}
"""Word pieces, with padding, of one batch."""
_MEMORY: Final = 0.998
"""Share of the running average of the weights that each step keeps."""
_INNER: Final = 0.5
"""Weight in the loss of a word's later pieces. A word has its likeliest piece's probability."""
_WORDS: Final = 80
"""Words of a passage, so that it is read whole."""
_LETTERS: Final = 3
"""Ordinary words in names of our own are longer."""
_NAMED: Final = 1.5
"""Weight in the loss of words that are names."""
_RANK: Final = 16


@dataclass(frozen=True)
class Passage:
    """Words, and the sets of kinds that each may have, see `Marked.allowed`."""

    words: tuple[str, ...]
    allowed: tuple[int, ...]


@dataclass(frozen=True)
class Round:
    """The texts of one round, each read once and changed.

    Attributes:
        treebanks, marked, capitals: sentences of treebanks, sentences marked with kinds, and
            marked sentences again in capitals.
        requests, mentions, records, made_up: made-up sentences of each kind. A number larger
            than the number of texts uses texts again, with other names.
        learning_rate, seed: of the round.
        epochs: times over all that.
        written: times over the texts that were written for this finder, in each epoch.
        teachers: networks of which all weights learn the same. The adapter then goes on with
            their opinions beside the marks.
    """

    treebanks: int
    marked: int
    capitals: int
    requests: int
    mentions: int
    records: int
    made_up: int
    learning_rate: float
    seed: int
    epochs: int = 1
    teachers: int = 0
    written: int = 1


ROUNDS: Final = (
    Round(800, 6_000, 0, 2_200, 2_200, 500, 500, 1e-3, 5),
    Round(4_000, 14_000, 700, 6_000, 3_500, 1_000, 700, 8e-4, 17),
)
"""The rounds for a computer without a GPU."""
LARGE: Final = Round(47_000, 137_000, 0, 82_000, 70_000, 17_500, 25_500, 2e-3, 101, 5, 3)
"""The round for a GPU, some six minutes of an H200."""
_TEACHING: Final = 2e-4
"""The learning rate of teachers."""
FURTHER: Final = Round(2_000, 9_000, 400, 4_000, 3_000, 1_000, 800, 5e-4, 31, written=2)
"""One more round, which goes on from `ADAPTER`."""


class _Adapted(nn.Module):
    """A linear layer with an adapter: W x + B A x."""

    def __init__(self, inner: nn.Linear, rank: int) -> None:
        super().__init__()
        self.inner = inner
        self.down = nn.Linear(inner.in_features, rank, bias=False)
        self.up = nn.Linear(rank, inner.out_features, bias=False)
        nn.init.normal_(self.down.weight, std=1 / math.sqrt(inner.in_features))
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` (..., in) -> (..., out)."""
        out: Tensor = self.inner(x) + self.up(self.down(x))
        return out


class FullNetwork(nn.Module):
    """Scores of all kinds for words in context.

    Args:
        backbone: an encoder of the BERT family.
        rank: of the adapter; with 0 there is none, and all weights learn.
    """

    def __init__(self, backbone: LoadedBackbone, rank: int = _RANK) -> None:
        super().__init__()
        self._tokenizer = backbone.tokenizer
        self.model = deepcopy(backbone.model).requires_grad_(not rank)
        for layer in self.model.encoder.layer if rank else ():
            _adapt(layer, rank)
        self.case = nn.Embedding(len(CASES), backbone.hidden_size)
        nn.init.zeros_(self.case.weight)
        self.out = nn.Linear(backbone.hidden_size, len(KINDS))

    def forward(self, ids: Tensor, present: Tensor, case: Tensor) -> Tensor:
        """Return scores (B, T, kinds).

        Args:
            ids: (B, T) word pieces.
            present: (B, T), 1 where there is a word piece.
            case: (B, T), places in `CASES`.
        """
        inputs = self.model.embeddings.word_embeddings(ids) + self.case(case)
        states = self.model(inputs_embeds=inputs, attention_mask=present).last_hidden_state
        scores: Tensor = self.out(states)
        return scores

    def pieces(self, words: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
        """Return the word pieces of a passage, their cases, and the first piece of each word.

        A word without a piece, or beyond the longest passage, has 0 as its first piece.
        """
        texts = [self._tokenizer.sep_token if word == BREAK else word for word in words]
        read = self._tokenizer(texts, is_split_into_words=True, truncation=True, max_length=LONGEST)
        cases = [CASES.index(case_of(word)) for word in words]
        first = [0] * len(words)
        case = []
        for at, word in enumerate(read.word_ids()):
            case.append(0 if word is None else cases[word])
            if word is not None and not first[word]:
                first[word] = at
        return read["input_ids"], case, first

    def save(self, path: Path) -> None:
        """Write the parameters that were trained, as 16-bit floats.

        Names are ``case.weight``, ``out.weight``, ``out.bias`` and, for each adapted layer of the
        encoder, ``encoder.layer.N.PATH.down.weight`` (rank, in) and ``.up.weight`` (out, rank).
        """
        save_file({name: value.half().cpu() for name, value in self._trained().items()}, path)

    def restore(self, path: Path) -> None:
        """Read what `save` wrote.

        Raises:
            ValueError: the file is of another model.
        """
        stored, own = load_file(path), self._trained()
        if {k: v.shape for k, v in stored.items()} != {k: v.shape for k, v in own.items()}:
            raise ValueError(f"the adapter in {path} is of another model")
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(stored[name].float())

    def _trained(self) -> dict[str, Tensor]:
        return {
            name.removeprefix("model."): value
            for name, value in self.named_parameters()
            if value.requires_grad
        }


def train_full_finder(
    data: Path,
    backbone: LoadedBackbone,
    lists: Lists,
    *,
    rounds: Sequence[Round] | None = None,
    start: Path | None = None,
    rare: Sequence[str] = (),
    foreign: Sequence[Sequence[str]] = (),
    progress: Progress | None = None,
    device: str = "cpu",
) -> FullNetwork:
    """Return a network that read all rounds.

    Args:
        data: the folder of marked text.
        backbone: the language model.
        lists: names for made-up sentences.
        rounds: what to read; by default `LARGE` on a GPU, else `ROUNDS`.
        start: the adapter from which to go on; without one, all adapters are zero.
        rare: more words in small letters.
        foreign: lists of words of other languages.
        progress: called every twenty steps.
        device: that computes, "cpu" or "cuda".

    Raises:
        InvalidInput: one of the data sets is missing.
    """
    rounds = rounds or ([LARGE] if device == "cuda" else ROUNDS)
    with torch.random.fork_rng():
        torch.manual_seed(rounds[0].seed)
        network = FullNetwork(backbone).to(device)
    if start:
        network.restore(start)
    treebanks, marked, written = read_masc_and_web(data), read_marked(data), read_written()
    words = ordinary_words(treebanks)
    long = [word for word in words if len(word) > _LETTERS]
    kept = set(kept_back(marked))
    for each in rounds:
        random = np.random.default_rng(each.seed)
        mentions = Mentions(lists, set(words).__contains__, long, random)
        own = Sentences(mentions, words, random, rare, foreign)
        texts = [
            *(
                changed(marked[at], random, partial(_name, mentions))
                for at in _some(marked, each.marked, random)
                if at not in kept
            ),
            *(
                _in_capitals(marked[at])
                for at in _some(marked, each.capitals, random)
                if at not in kept
            ),
            *(
                changed(sentence, random, partial(_name, mentions))
                for sentence in written * each.written
            ),
            *(changed(treebanks[at], random) for at in _some(treebanks, each.treebanks, random)),
        ]
        drawn = [
            *(own.request() for _ in range(each.requests)),
            *(own.mention() for _ in range(each.mentions)),
            *(own.record() for _ in range(each.records)),
            *(made_up(mentions, "") for _ in range(each.made_up)),
        ]
        texts += [weakened(changed(sentence, random)) for sentence in drawn]
        read = [
            Passage(tuple(word.text for word in text.words[:_WORDS]), text.allowed[:_WORDS])
            for text in texts
        ]
        study = partial(learn, passages=read, epochs=each.epochs, progress=progress)
        network = study(network, learning_rate=each.learning_rate, seed=each.seed)
        if each.teachers:
            teachers = [
                study(FullNetwork(backbone, 0).to(device), learning_rate=_TEACHING, seed=seed)
                for seed in range(each.teachers)
            ]
            network = study(
                network, learning_rate=each.learning_rate, seed=each.seed + 1, teachers=teachers
            )
    return network.cpu()


def kept_back(marked: Sequence[Marked]) -> list[int]:
    """Return the places of the marked sentences that no round reads, to judge a further one."""
    read: set[int] = set()
    for each in ROUNDS:
        read.update(_some(marked, each.marked, np.random.default_rng(each.seed)))
    return sorted(set(range(len(marked))) - read)


def learn(
    network: FullNetwork,
    passages: Sequence[Passage],
    learning_rate: float,
    seed: int,
    progress: Progress | None = None,
    *,
    epochs: int = 1,
    teachers: Sequence[FullNetwork] = (),
) -> FullNetwork:
    """Train a network on the passages, and return it with the running average of its weights.

    Args:
        network: on the device that computes.
        passages: read in random order, each once in an epoch.
        learning_rate: the highest.
        seed: of the order and of dropout.
        progress: called every twenty steps.
        epochs: times over the passages.
        teachers: networks whose mean opinion counts beside the marks.
    """
    random = np.random.default_rng(seed)
    device = network.out.weight.device
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        read = [network.pieces(passage.words) for passage in passages]
        lengths = [len(ids) for ids, _, _ in read]
        batches = [batch for _ in range(epochs) for batch in _batches(lengths, random, device.type)]

        def losses() -> Iterator[tuple[float, Tensor]]:
            for step, batch in enumerate(batches):
                inputs = [each.to(device) for each in padded([read[at] for at in batch])]
                marks = [(read[at], passages[at].allowed) for at in batch]
                targets, weights = (each.to(device) for each in _targets(marks))
                with _autocast(device):
                    scores = network(*inputs)
                loss = partial_loss(scores.float(), targets, weights)
                if teachers:
                    told = _opinion(teachers, inputs)
                    loss = 0.3 * loss + _apart(scores, told, inputs[1])
                yield step / len(batches), loss

        memory = min(_MEMORY, max(0.0, 1 - 20 / len(batches)))
        return averaged(network, losses(), learning_rate, memory, progress)


def _autocast(device: torch.device) -> torch.autocast:
    """Return what computes in bfloat16, where the device is fast at it."""
    enabled = device.type == "cuda" or fast_bfloat16()
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


def _opinion(teachers: Sequence[FullNetwork], inputs: Sequence[Tensor]) -> Tensor:
    """Return the mean of the teachers' probabilities."""
    with torch.no_grad(), _autocast(inputs[0].device):
        likely = [teacher(*inputs).float().softmax(-1) for teacher in teachers]
    return torch.stack(likely).mean(0)


def _apart(scores: Tensor, likely: Tensor, present: Tensor) -> Tensor:
    """Return the mean divergence of scores from probabilities, where names weigh more."""
    each = nn.functional.kl_div(scores.float().log_softmax(-1), likely, reduction="none").sum(-1)
    weights = present * (1 + 3 * (1 - likely[..., 0]))
    return (each * weights).sum() / present.sum()


_Pieces = tuple[list[int], list[int], list[int]]


def _adapt(module: nn.Module, rank: int) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, _Adapted(child, rank))
        else:
            _adapt(child, rank)


def _batches(lengths: Sequence[int], random: Generator, device: str) -> list[list[int]]:
    """Return batches of passages of like length, in random order."""
    noise = random.random(len(lengths)) * 4
    batches: list[list[int]] = []
    longest = 0
    for at in np.argsort(np.array(lengths) + noise, kind="stable").tolist():
        longest = max(longest, lengths[at])
        if not batches or longest * (len(batches[-1]) + 1) > _TOKENS[device]:
            batches.append([])
            longest = lengths[at]
        batches[-1].append(at)
    return [batches[at] for at in random.permutation(len(batches))]


def padded(read: Sequence[_Pieces]) -> tuple[Tensor, Tensor, Tensor]:
    """Return pieces, presence and cases of passages, as `FullNetwork` takes them."""
    shape_of = (len(read), max(len(ids) for ids, _, _ in read))
    ids, present, case = (torch.zeros(shape_of, dtype=torch.long) for _ in range(3))
    for row, (own, own_case, _) in enumerate(read):
        ids[row, : len(own)] = torch.tensor(own)
        case[row, : len(own)] = torch.tensor(own_case)
        present[row, : len(own)] = 1
    return ids, present, case


def _targets(read: Sequence[tuple[_Pieces, Sequence[int]]]) -> tuple[Tensor, Tensor]:
    """Return the allowed kinds of every piece of a word, and its weight in the loss."""
    targets = torch.full((len(read), max(len(p[0]) for p, _ in read)), NO_WORD)
    weights = torch.full(targets.shape, _INNER)
    for row, ((ids, _, first), allowed) in enumerate(read):
        words = [(at, bits) for at, bits in zip(first, allowed, strict=True) if at]
        for (at, bits), (end, _) in zip(words, [*words[1:], (len(ids) - 1, 0)], strict=True):
            targets[row, at:end] = bits
            weights[row, at] = 1.0
    return targets, weights * torch.where(targets & NONE == 0, _NAMED, 1.0)


def _name(mentions: Mentions, kind: str) -> str:
    return mentions.draw(SLOTS[kind])


def _in_capitals(sentence: Marked) -> Marked:
    words = tuple(word._replace(text=word.text.upper()) for word in sentence.words)
    return Marked(words, sentence.allowed, sentence.document)


def _some(items: Sequence[object], most: int, random: Generator) -> list[int]:
    chosen: list[int] = random.permutation(len(items))[:most].tolist()
    return [*chosen * (most // max(len(chosen), 1)), *chosen[: most % max(len(chosen), 1)]]
