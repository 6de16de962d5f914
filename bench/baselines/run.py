"""Accuracy and attack success of one mechanism at one setting, on one task."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache as remembered
from functools import cached_property, partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from bench import cache
from bench.attacks import people, tokens
from bench.attacks.attributes import ATTRIBUTES, read_blogs
from bench.attacks.bigram import Bigrams, public_sequences
from bench.attacks.channels import Noised, Words
from bench.attacks.entities import read_entities
from bench.attacks.frontier import Point
from bench.attacks.interface import Candidates, Floats, TextChannel
from bench.attacks.inversion import ContextMap
from bench.attacks.kinds import Budget, Case, Split, tallied
from bench.attacks.measures import Tally
from bench.attacks.public import Public
from bench.attacks.text import Text
from bench.baselines.cape import Cape
from bench.baselines.custext import CusText
from bench.baselines.decoder import Bags, Decoder
from bench.baselines.dpnr import DROPOUT, noised, shortened
from bench.baselines.full_width import FullWidth
from bench.baselines.interface import Baseline, eta_of_success
from bench.baselines.santext import SanText
from bench.baselines.scrubbing import Scrubbed
from bench.utility.tasks import Task, load
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.encoder import Encoder
from sottovoce.cloud.training.trainer import Hyperparameters, probe
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.mechanisms.spherical import PCT2T, T2T
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.text.words import split
from sottovoce.models.denoiser_data import Passages, encode, tokenize

__all__ = ["BASELINES", "BUDGET", "CLEAR", "OURS", "TASKS", "WORDS", "Cell", "Job", "Lab", "Place"]
__all__ += ["cells_of", "opened", "points"]

TASKS: Final = {"sst2": "reviews", "trec": "questions", "agnews": "news"}
"""Tasks, and the kind of text whose releases the attacker reads."""
CLEAR: Final = "clear"
OURS: Final = "ours"
SCRUBBING: Final = "PII scrubbing"
TOKENS: Final = "token embedding"
SENTENCES: Final = ("DPNR", "CAPE")
WORDS: Final = ("PCT2T", "T2T", "SanText", "CusText")
_REPLACED: Final = ("replaced:0.3", "replaced:0.6", "replaced:0.85")
_EPSILONS: Final = ("2", "5", "10", "30")
BASELINES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(WORDS, _REPLACED),
    SCRUBBING: ("-",),
    TOKENS: ("light", "balanced", "strong"),
    **dict.fromkeys(SENTENCES, _EPSILONS),
}
"""Mechanisms of other authors, and their settings.

For words, a setting is the share of hidden words of running text that become another word. For
tokens, it is our level with the same success of an attacker on single tokens. For sentences, it is
the epsilon of one entry.
"""

_CONTENT: Final = frozenset(("NOUN", "VERB", "ADJ", "ADV", "PROPN"))
"""Universal parts of speech of content words."""
_TRAIN: Final = 2_000
"""Texts to learn from."""
BUDGET: Final = Budget(judged=6_000, fitted=2_500, words=1_000_000)
_KNOWN: Final = 6_000
"""Texts that the attacker on sentences learns from."""
_POSTS: Final = (1_500, 30)
"""Posts for CAPE, and words of each."""
_PASSAGES: Final = 500
"""Texts whose token vectors are in memory at once."""

Bools = NDArray[np.bool_]


class Job(NamedTuple):
    """A mechanism at a setting, on a task."""

    task: str
    name: str
    setting: str


class Cell(NamedTuple):
    """The accuracy of a job with a seed, or its attack success.

    With ``fresh``, noise on words is drawn anew for each word. Otherwise all texts leave under one
    key, as from one device: equal words after equal words are equal releases.
    """

    job: Job
    seed: int | None = None
    fresh: bool = False


def cells_of(job: Job, seeds: int, *, fresh: bool) -> list[Cell]:
    """Return the cells of a job: its attack success, then its accuracies."""
    drawn = fresh and job.name in (OURS, *WORDS)
    return [Cell(job), *(Cell(job, seed, drawn) for seed in range(seeds))]


@dataclass(frozen=True)
class Place:
    """Settings of a process."""

    bundle: Path
    models: Path
    data: Path
    cache: Path

    def file(self, cell: Cell) -> Path:
        """Return the file with a cell's result."""
        facts = (Bundle.open(self.bundle).id, cell, _TRAIN, BUDGET)
        return self.cache / f"{cache.name_of(*facts)}.json"


def opened(place: Place) -> Callable[[Cell], None]:
    """Return the function that runs a cell and keeps its result; see `processes.share_out`."""
    lab = remembered(partial(Lab, place))

    def run(cell: Cell) -> None:
        file = place.file(cell)
        if file.exists():
            return
        if cell.seed is not None:
            cache.keep(file, lab(cell.job.task).right(cell))
        else:
            tally = lab(cell.job.task).tally(cell.job)
            cache.keep(file, [tally.right.tolist(), tally.judged.tolist()])

    return run


def points(place: Place, jobs: Iterable[Job], seeds: int, *, fresh: bool) -> dict[Job, Point]:
    """Return the results of finished jobs."""
    found = {}
    for job in jobs:
        cells = cells_of(job, seeds, fresh=fresh)
        (right, judged), *told = (json.loads(place.file(cell).read_text()) for cell in cells)
        tally = Tally(np.array(right), np.array(judged))
        accuracy = np.array(told, np.float32)
        found[job] = Point(job.name, job.setting, {"all": tally}, {"accuracy": accuracy})
    return found


class Lab:
    """The texts of one task, the attackers' knowledge, and the backbone."""

    def __init__(self, place: Place, task: str) -> None:
        self.place, self.task = place, task
        self.public = Public(Bundle.open(place.bundle), place.models)
        self.case = Case.of(self.public, place.data, TASKS[task], BUDGET)
        self.encoder = Encoder(backbones.load())
        self.texts = remembered(self._texts)

    # Accuracy

    def _texts(self, seed: int) -> Task:
        return load(self.task, self.place.data, _TRAIN, seed)

    def right(self, cell: Cell) -> list[int]:
        """Learn from releases, and return for each held-out release if its label was told."""
        assert cell.seed is not None
        task = self.texts(cell.seed)
        texts = [*task.train.texts, *task.dev.texts]
        labels, n = [*task.train.labels, *task.dev.labels], len(task.train)
        names = sorted({*labels})
        wanted = torch.tensor([names.index(label) for label in labels])
        rows = self._rows(cell, texts)
        penalty = Hyperparameters().probe_penalty
        weight, bias = probe(rows[:n], wanted[:n], penalty, len(names))
        told = (rows[n:] @ weight.T + bias).argmax(1) == wanted[n:]
        return [int(each) for each in told.tolist()]

    def _rows(self, cell: Cell, texts: Sequence[str]) -> Tensor:
        """Return the embeddings that the cloud has of releases: Float (texts, width)."""
        job, random = cell.job, np.random.default_rng((cell.seed or 0, 17))
        if job.name in SENTENCES:
            return torch.tensor(self._sentences(job)(self._passages(job, texts, random), random))
        if job.name == TOKENS:
            return self._from_tokens(self._tokens(job.setting), texts, random)
        return self.encoder.encode_clean(self._released(cell, texts, random))

    def _released(self, cell: Cell, texts: Sequence[str], random: Generator) -> Sequence[str]:
        """Release texts under one key, or with fresh noise; see `Cell`."""
        job, public = cell.job, self.public
        if job.name == CLEAR:
            return texts
        key = None if cell.fresh else Key(bytes([cell.seed or 0]) * 32)
        if job.name == OURS:
            setting, drawn = Setting(job.setting), random if cell.fresh else None
            released = (public.privatizer.release(each, setting, drawn, key=key) for each in texts)
            return [each.text for each in released]
        channel = self.channel(job)
        if isinstance(channel, Baseline):
            channel = copy(channel)
            channel.ours = replace(channel.ours, key=key)
        text = Text.of(texts, public.lexicon, public.bundle.manifest.clitics)
        symbols = channel.release(text, random).seen.symbols
        ends = np.searchsorted(text.sentence, np.arange(1, len(texts)))
        return [public.lexicon.written(part) for part in np.split(symbols, ends)]

    # Attack success

    def tally(self, job: Job) -> Tally:
        """Return the content words that the attacker recovers, by text."""
        if job.name == CLEAR:
            everything = np.array([len(bag) for bag in self._bags])
            return Tally(everything, everything)
        if job.name in SENTENCES:
            return self._decoded(job)
        if job.name == TOKENS:
            return self._read_tokens(self._tokens(job.setting))
        channel = self.channel(job)
        _, attack = self.case.strongest(self.familiar(channel))
        return tallied(attack, *self.case.releases(channel), self.content)

    @remembered  # noqa: B019 - a laboratory lives as long as its process
    def channel(self, job: Job) -> TextChannel:
        public = self.public
        match job.name:
            case "ours":
                return Words(public, Setting(job.setting))
            case "PII scrubbing":
                known = read_entities(self.place.data / "wnut17" / "train.jsonl.gz")
                return Scrubbed(public, people.recogniser(public, known))
            case "SanText":
                return SanText(Words(public, Setting(job.setting, T2T.name)))
            case "CusText":
                return CusText(Words(public, Setting(job.setting, T2T.name)))
        mechanism = {"PCT2T": PCT2T.name, "T2T": T2T.name}[job.name]
        return FullWidth(Words(public, Setting(job.setting, mechanism)))

    def familiar(self, channel: TextChannel) -> TextChannel:
        """Return the channel for an attacker with counts from other text of the kind."""
        if isinstance(channel, Words):
            return self.case.familiar(channel.setting)
        if isinstance(channel, Baseline):
            found = copy(channel)
            found.ours = self.case.familiar(channel.ours.setting)
            return found
        return channel

    @cached_property
    def content(self) -> Bools:
        """The content words of the judged texts, by tags of the true words: Bools1d (n,)."""
        return np.concatenate([self._is_content(text) for text in self.case.private.documents])

    def _is_content(self, text: str) -> Bools:
        words = [word.text for word in split(text, self.public.bundle.manifest.clitics)]
        tagger = self.public.tagger
        tags = [tagger.tagset[tag] for tag in tagger.tag(words).ids] if words else []
        pairs = zip(words, tags, strict=True)
        return np.array(
            [tag in _CONTENT and any(map(str.isalnum, word)) for word, tag in pairs], bool
        )

    # Embeddings of sentences

    def _bag(self, text: str) -> frozenset[str]:
        words = split(text, self.public.bundle.manifest.clitics)
        pairs = zip(words, self._is_content(text), strict=True)
        return frozenset(word.text.casefold() for word, content in pairs if content)

    @cached_property
    def _bags(self) -> Bags:
        return [self._bag(text) for text in self.case.private.documents]

    @cached_property
    def _others(self) -> tuple[list[str], Bags]:
        """Other texts of the kind, and their content words."""
        texts = Split.of(self.place.data, TASKS[self.task], BUDGET).others
        some = [text for text in texts[:: max(1, len(texts) // _KNOWN)][:_KNOWN] if text]
        return some, [self._bag(text) for text in some]

    def _passages(self, job: Job, texts: Sequence[str], random: Generator) -> Floats:
        """Return the embeddings before noise: Floats2d (texts, width)."""
        passages = tokenize(backbones.load().tokenizer, texts)
        if job.name == "DPNR":
            passages = shortened(passages, DROPOUT, random)
        return self._clean(passages)

    def _clean(self, passages: Passages) -> Floats:
        rows = [self.encoder.token_embeddings(passages[i].tolist()) for i in range(len(passages))]
        return encode(self.encoder, rows)

    @remembered  # noqa: B019 - a laboratory lives as long as its process
    def _sentences(self, job: Job) -> Callable[[Floats, Generator], Floats]:
        """Return the noise of a mechanism on sentences."""
        epsilon = float(job.setting)
        if job.name == "DPNR":
            return lambda rows, random: noised(rows, epsilon, random)
        authored, attributes = self._authored
        task = self.texts(0)
        names = sorted({*task.train.labels})
        labels = np.array([names.index(label) for label in task.train.labels])
        rows = self._passages(job, task.train.texts, np.random.default_rng(0))
        cape = Cape.fit((rows, labels), authored, attributes, epsilon)
        return lambda rows, random: noised(cape.mapped(rows), epsilon, random)

    @cached_property
    def _authored(self) -> tuple[Floats, dict[str, NDArray[np.int64]]]:
        blogs = read_blogs(self.place.data / "blogs" / "train.tsv.gz", *_POSTS)
        passages = tokenize(backbones.load().tokenizer, blogs.texts)
        return self._clean(passages), {name: blogs.labels[name] for name in ATTRIBUTES}

    def _decoded(self, job: Job) -> Tally:
        noise = self._sentences(job)
        texts, bags = self._others
        known = self._passages(job, texts, np.random.default_rng(2))
        seen = self._passages(job, self.case.private.documents, np.random.default_rng(3))
        decoder = Decoder.fit(partial(noise, known), bags)
        return decoder.tally(noise(seen, np.random.default_rng(1)), self._bags)

    # Vectors of tokens

    @cached_property
    def _embeddings(self) -> Floats:
        return backbones.input_embeddings(self.public.backbone)

    @remembered  # noqa: B019 - a laboratory lives as long as its process
    def _tokens(self, level: str) -> Noised:
        """Return noise over the full width of token embeddings, at equal success of MAP on tokens.

        This is TokEmbPriv, a baseline of Split-and-Denoise (section 3.3), without its clipping.
        """
        bundle = self.public.bundle
        channel = next(each for each in tokens.levels_of(bundle) if each.level == level)
        wide = replace(channel, mechanism="token-embedding, full width", rows=self._embeddings)
        return replace(wide, eta=eta_of_success(wide, bundle.manifest.embed[level].map_attack))

    def _from_tokens(self, channel: Noised, texts: Sequence[str], random: Generator) -> Tensor:
        """Return embeddings from the posterior means of noisy tokens."""
        passages = tokenize(backbones.load().tokenizer, texts)
        means, found = tokens.posterior(channel, self._embeddings), []
        for first in range(0, len(passages), _PASSAGES):
            lengths = passages.lengths[first : first + _PASSAGES]
            end = passages.ends[first : first + _PASSAGES][-1]
            ids = passages.flat[end - lengths.sum() : end]
            sent = channel.send(ids, np.zeros(len(ids), np.int32), random)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                rows = means(sent, channel.eta).float()
            found.append(encode(self.encoder, torch.split(rows, lengths.tolist())))
        return torch.tensor(np.concatenate(found))

    @cached_property
    def _token_counts(self) -> tuple[Bigrams, Floats]:
        """Bigrams of tokens and counts of each, in public text and other texts of the kind."""
        tokenizer, texts = self.public.backbone.tokenizer, self._others[0]
        public = [*public_sequences(self.place.data, BUDGET.words // 2)]
        own = [[text] for text in texts]
        flat = np.concatenate(tokenizer(texts, add_special_tokens=False)["input_ids"])
        counts = np.bincount(flat.astype(np.int64), minlength=len(tokenizer)).astype(np.float32)
        return tokens.bigrams_of([*public, *own, *own], tokenizer), counts

    def _read_tokens(self, channel: Noised) -> Tally:
        """Attack tokens in context; a word is recovered if all its tokens are."""
        bigrams, counts = self._token_counts
        (everyone,) = channel.candidates
        public = np.exp(everyone.log_prior.astype(float))
        mixed = public / public.sum() + counts[everyone.ids] / counts.sum()
        prior = np.log(mixed / mixed.sum()).astype(np.float32)
        knowing = Noised(
            channel.mechanism,
            channel.level,
            channel.rows,
            (Candidates(everyone.ids, prior),),
            channel.eta,
        )
        attack = ContextMap(knowing, bigrams, int(self.public.backbone.tokenizer.sep_token_id))
        text, random, bundle = self.case.private, np.random.default_rng(1), self.public.bundle
        releases, origins = [], []
        for each in (self.case.known, text):
            ids, origin = tokens.to_tokens(each, bundle)
            releases.append(tokens.released(channel, ids, each.sentence[origin], random))
            origins.append(origin)
        attack.fit(releases[0])
        wrong = attack.guess(releases[1].seen) != releases[1].true
        right = (np.bincount(origins[1][wrong], minlength=len(text)) == 0) & self.content
        n = len(text.documents)
        return Tally(
            np.bincount(text.sentence[right], minlength=n),
            np.bincount(text.sentence[self.content], minlength=n),
        )
