"""What does a model recover that was trained on releases, beside the attackers that count words?

A transformer reads the whole release and names each word with noise. The attacker trains it on his
own releases of public text. By default, he also has other texts of the six kinds. The ensemble
multiplies its probabilities with those from the counting attackers. Training resumes from its
checkpoint, and ends when the loss on held-out texts no longer falls.

    python -m bench.attacks.trained --quick
    python -m bench.attacks.trained --full --backbone FOLDER
    python -m bench.attacks.trained --full --workers 15 --weights-only FOLDER
    python -m bench.attacks.trained --quick --minutes 0     # judge the checkpoint as it is
    python -m bench.attacks.trained --full --minutes 0 --checkpoint FOLDER
    python -m bench.attacks.trained --full --minutes 0 --checkpoint FOLDER --one-key

Noise is fresh for every word. With ``--one-key``, all texts of a kind leave under one key, as the
texts of a training job do, and the network reads equal releases together.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from bench import cache, console, data
from bench.attacks.bigram import public_sequences
from bench.attacks.channels import Words
from bench.attacks.interface import Attack, Channel, Floats, Releases, Seen, TextChannel
from bench.attacks.inversion import ContextMap, Map, chunks
from bench.attacks.kinds import KINDS, MORE, QUICK, Budget, Case, Split, attacked, broken, name_of
from bench.attacks.public import Public
from bench.attacks.reader import LENGTH, Reader, Trainer, View, Vocabulary, device
from bench.attacks.text import Ints, Lexicon, Text
from bench.console import Figures, share, span
from sottovoce.cloud.models import backbone as backbones
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import SottovoceError
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import LEVELS, Setting

__all__ = ["Corpus", "Ensemble", "Forms", "Lab", "Pooled", "Trained", "train"]

_BATCH: Final = {"cpu": 1_600, "cuda": 6_400}
"""Words in a step, by kind of device."""
_RUN: Final = 8
"""Shortest run of words that a training text may not share with a judged text."""
_HELD: Final = 6
"""Known texts of each kind, on whose releases the loss is watched."""
_TRIED: Final = 8_000
_MIXES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
_JUDGED_EVERY: Final = 50
"""Steps between judgements."""
_SAVED_EVERY: Final = 30
"""Seconds of training between checkpoints."""


@dataclass(frozen=True)
class Corpus:
    """Texts that the attacker trains on.

    Attributes:
        public: public texts.
        own: other texts of each kind; empty for an attacker without them.
        judged: texts whose runs of eight words are excluded from training.
    """

    public: Sequence[str]
    own: Sequence[Sequence[str]] = ()
    judged: Sequence[str] = ()

    @classmethod
    def read(cls, folder: Path, budget: Budget, *, own: bool) -> Corpus:
        """Read the texts, without those that are judged or that fit the attackers.

        ``budget`` says which texts of each kind are judged, and which fit the attackers.
        """
        public = [" ".join(each) for each in public_sequences(folder, budget.words)]
        kinds, judged = [], []
        for kind in KINDS:
            split = Split.of(folder, kind, budget)
            judged += [*split.judged, *split.fitted]
            kinds.append(split.others)
        return cls(public, [each for each in kinds if each] if own else (), judged)

    @cached_property
    def _runs(self) -> frozenset[tuple[str, ...]]:
        return frozenset(run for text in self.judged for run in _runs(text))

    def draw(self, random: Generator, words: int) -> list[str]:
        """Return pieces of texts from one source, of about ``words`` words.

        Half of all draws take public text, and the others take one kind.
        """
        texts = self.public
        if self.own and random.random() < 0.5:
            texts = self.own[int(random.integers(len(self.own)))]
        found: list[str] = []
        while words > 0:
            each = texts[int(random.integers(len(texts)))].split()
            start = int(random.integers(max(1, len(each) - LENGTH // 2)))
            piece = each[start : start + LENGTH - 4]
            words -= max(1, len(piece))
            if piece and self._runs.isdisjoint(_runs(" ".join(piece))):
                found.append(" ".join(piece))
        return found or self.draw(random, LENGTH)


def _runs(text: str) -> list[tuple[str, ...]]:
    """Return every run of eight words; a shorter text is one run."""
    words = text.lower().split()
    return [tuple(words[at : at + _RUN]) for at in range(max(1, len(words) - _RUN + 1))]


class Forms:
    """Embeddings of words that a bundle does not list, from the backbone's own tokens."""

    def __init__(self, backbone: backbones.LoadedBackbone) -> None:
        self._tokens, self._cut = backbones.input_embeddings(backbone), backbone.tokenizer
        self._known: dict[str, Floats] = {}

    def rows(self, lexicon: Lexicon, symbols: Ints) -> Floats:
        """Return embeddings of the unlisted words: Floats2d (unlisted words, width)."""
        other = symbols[symbols >= lexicon.listed]
        found = np.zeros((len(other), self._tokens.shape[1]), np.float32)
        for place, number in enumerate(other):
            form = lexicon.written(np.array([number]))
            if form not in self._known:
                ids = self._cut(form, add_special_tokens=False)["input_ids"]
                self._known[form] = self._tokens[ids].mean(axis=0) if ids else found[place]
            found[place] = self._known[form]
        return found


class Trained(Map):
    """The trained model alone: it guesses each word by itself, but reads the whole release.

    For noise that it was not trained on, the model reads as at its nearest level. The rates are
    scaled to the noise.

    Args:
        channel: that made the releases.
        reader: the model.
        etas: of the channel's noise, by class.
        unlisted: returns embeddings of the unlisted words of a text.
    """

    name: ClassVar[str] = "trained"

    def __init__(
        self, channel: Channel, reader: Reader, etas: Floats, unlisted: Callable[[Ints], Floats]
    ) -> None:
        super().__init__(channel)
        self._reader, self._unlisted = reader, unlisted
        self._level, self._times = reader.nearest(etas)
        self._read: list[tuple[Seen, torch.Tensor]] = []

    def fit(self, public: Releases) -> None:
        """Learn nothing more."""

    def _scores(self, seen: Seen, group: int, which: NDArray[np.int64]) -> Floats:
        """Return log-probabilities of the candidates."""
        hidden = self._hidden(seen)[torch.tensor(which)].to(self._reader.space.device)
        with torch.no_grad():
            times = float(self._times[group])
            scores = self._reader.scores(hidden, self._level, group, seen.symbols[which], times)
            found: Floats = scores.log_softmax(dim=1).cpu().numpy()
        return found

    def _hidden(self, seen: Seen) -> torch.Tensor:
        """Return the hidden states of a release; the last two releases' states are cached."""
        for known, hidden in self._read:
            if known is seen:
                return hidden
        with torch.no_grad():
            hidden = self._reader.read(View(seen, self._level, self._unlisted(seen.symbols)))
        self._read = [*self._read[-1:], (seen, hidden.float().cpu())]
        return self._read[-1][1]


class Pooled(Trained):
    """The trained model, with its log-probabilities averaged over equal releases of one key.

    Under a key, equal words after equal words have equal releases. So places hold one word, most
    likely, if their released words are equal and follow equal released words.
    """

    name: ClassVar[str] = "trained, equal releases read together"
    _means: tuple[Seen, int, NDArray[np.int64], Floats] | None = None

    def _scores(self, seen: Seen, group: int, which: NDArray[np.int64]) -> Floats:
        """Return mean log-probabilities of the candidates; the last group's means are cached."""
        if self._means is None or self._means[0] is not seen or self._means[1] != group:
            self._means = (seen, group, *self._averaged(seen, group))
        _, _, row, means = self._means
        found: Floats = means[row[which]]
        return found

    def _averaged(self, seen: Seen, group: int) -> tuple[NDArray[np.int64], Floats]:
        """Return the row of each place, and the mean of each row, (rows, candidates)."""
        before = np.where(np.diff(seen.sentence, prepend=-1), -1, np.roll(seen.symbols, 1))
        row, places = np.full(len(before), -1), np.flatnonzero(seen.group == group)
        pairs = np.stack([before, seen.symbols], axis=1)[places]
        _, row[places] = np.unique(pairs, axis=0, return_inverse=True)
        met = np.bincount(row[places])
        total = np.zeros((len(met), len(self.channel.candidates[group].ids)), np.float32)
        for _, which in chunks(self.channel, seen, group):
            np.add.at(total, row[which], self._alone(seen, group, which))
        total /= met[:, None]
        return row, total

    def _alone(self, seen: Seen, group: int, which: NDArray[np.int64]) -> Floats:
        return super()._scores(seen, group, which)


class Ensemble(ContextMap):
    """Product of experts: a counting attacker in context, and a trained one.

    Over whole sentences, it maximises a sum of three terms. They are the counting attacker's
    log-probabilities times 1 - mix, the trained one's times mix, and the weighted bigrams. With
    mix 0 it is the counting attacker.
    """

    name: ClassVar[str] = "ensemble"

    def __init__(self, counting: ContextMap, trained: Trained) -> None:
        super().__init__(counting.channel, counting.bigrams, counting.boundary)
        self._counting, self._trained, self.mix = counting, trained, 0.0

    def fit(self, public: Releases) -> None:
        """Fit mix and weight; the counting attacker is fitted already."""
        some = np.arange(min(_TRIED, len(public.true)))
        public = Releases(public.seen.part(some), public.true[some])
        best = (0, 0.0, 0.0)
        for self.mix in _MIXES:
            best = max(best, (*self.best_weight(public, _TRIED), self.mix))
        _, self.weight, self.mix = best

    def _scores(self, seen: Seen, group: int, which: NDArray[np.int64]) -> Floats:
        found = self._counting._scores(seen, group, which)
        if self.mix:
            found -= np.logaddexp.reduce(found, axis=1, keepdims=True)
            found *= np.float32(1 - self.mix)
            found += np.float32(self.mix) * self._trained._scores(seen, group, which)
        return found


@dataclass(frozen=True)
class Lab:
    """The network with everything that its releases need.

    Attributes:
        public: the bundle and the counts of the language.
        channels: the mechanism at each level that the network reads.
        backbone: initial weights of the network.
        corpus: training texts.
        on: the device that trains.
    """

    public: Public
    channels: Sequence[TextChannel]
    backbone: backbones.LoadedBackbone
    corpus: Corpus
    on: torch.device

    @cached_property
    def forms(self) -> Forms:
        """Return embeddings of unlisted words."""
        return Forms(self.backbone)

    def make(self, random: Generator, level: int) -> tuple[View, Ints]:
        """Return fresh releases of drawn texts."""
        words = _BATCH[self.on.type]
        return self.release(self.corpus.draw(random, words), level, random)

    def release(self, texts: Sequence[str], level: int, random: Generator) -> tuple[View, Ints]:
        """Return a release of ``texts`` for the network, and the truth."""
        text = Text.of(texts, self.public.lexicon, self.public.bundle.manifest.clitics)
        found = self.channels[level].release(text, random)
        unlisted = self.forms.rows(self.public.lexicon, found.seen.symbols)
        return View(found.seen, level, unlisted), found.true

    def _rates(self, level: int, random: Generator) -> list[float]:
        """Return the best rates of the attacker on single words, by group."""
        channel = self.channels[level]
        view, true = self.release(self.corpus.draw(random, 2 * _BATCH["cpu"]), level, random)
        single = Map(channel)
        single.fit(Releases(view.seen, true))
        return [single.rate(group) for group in range(len(channel.candidates))]

    def trainer(self, held: Sequence[str], *, own: bool, workers: int = 0) -> Trainer:
        """Return a trainer that watches the loss on ``held`` texts.

        ``workers`` is the number of processes that make releases.
        """
        bundle, random = self.public.bundle, np.random.default_rng(0)
        levels = range(len(self.channels))
        vocabulary = Vocabulary(
            _meaning(bundle, self.backbone),
            bundle.space,
            self.channels[0].candidates,
            np.array([self._rates(level, random) for level in levels], np.float32),
            np.array([_etas(each) for each in self.channels], np.float32),
        )
        torch.manual_seed(0)
        reader = Reader(self.backbone.model, vocabulary, _evidence(self.channels[0])).to(self.on)
        watched = [self.release(held, level, random) for level in levels]
        network = f"{type(self.backbone.model).__name__}-{vocabulary.meaning.shape[1]}"
        names = [each.level for each in self.channels]
        what = [bundle.space_id, *names, network, "own" if own else "public"]
        identity = " ".join(what)
        return Trainer(reader, self.make, len(self.channels), watched, identity, workers=workers)

    def attacks(self, case: Case, channel: TextChannel, reader: Reader) -> dict[str, Attack]:
        """Return the attackers of a case: the strongest counting one, the trained one, and both.

        ``channel`` belongs to an attacker with text of the kind. If it has a key, the trained
        attacker reads equal releases together.
        """
        lexicon, etas = case.public.lexicon, np.array(_etas(channel))
        name, counting = case.strongest(channel)
        kind = Pooled if isinstance(channel, Words) and channel.key else Trained
        trained = kind(channel, reader, etas, lambda ids: self.forms.rows(lexicon, ids))
        both = Ensemble(counting, trained)
        return {name: counting, trained.name: trained, both.name: both}


def _etas(channel: TextChannel) -> Sequence[float]:
    """Return the eta of each class, or 1 for a mechanism of other authors."""
    return channel.etas if isinstance(channel, Words) else [1.0] * len(channel.candidates)


def _evidence(channel: TextChannel) -> Callable[[Ints, int], Floats] | None:
    """Return the evidence of a mechanism of other authors; the network knows ours."""
    if isinstance(channel, Words):
        return None
    return lambda seen, group: channel.evidence(seen, channel.candidates[group])


def _meaning(bundle: Bundle, backbone: backbones.LoadedBackbone) -> Floats:
    """Return the mean token embedding of each listed word, Floats2d (words, width)."""
    tokens = backbones.input_embeddings(backbone)
    pieces = backbone.tokenizer(list(bundle.words), add_special_tokens=False)["input_ids"]
    unknown = [backbone.tokenizer.unk_token_id or 0]
    return np.stack([tokens[ids or unknown].mean(axis=0) for ids in pieces])


def train(trainer: Trainer, save: Callable[[], None], minutes: float) -> None:
    """Train until the time is over or the loss stops falling, and ``save`` now and then."""
    with console.progress() as bar:
        task = bar.add_task("training", total=round(60 * minutes))
        start = saved = trainer.seconds
        for _ in trainer.run(60 * minutes):
            bar.update(task, completed=round(trainer.seconds - start))
            if trainer.step % _JUDGED_EVERY == 0:
                loss = trainer.judge()
                bar.update(task, description=f"step {trainer.step}, held-out loss {loss:.3f}")
                if not trainer.falling():
                    break
                if trainer.seconds - saved >= _SAVED_EVERY:
                    save()
                    saved = trainer.seconds
        if minutes:
            trainer.judge()
            save()


def main() -> None:
    """Train, attack, and print the table."""
    arguments, budget = _asked()
    public = Public(Bundle.open(arguments.bundle), arguments.models)
    own, backbone = not arguments.public_only, backbones.load(arguments.backbone)
    held = [
        text for kind in KINDS for text in Split.of(arguments.data, kind, budget).fitted[:_HELD]
    ]
    corpus = Corpus.read(arguments.data, budget, own=own) if arguments.minutes else Corpus(held)
    channels = [Words(public, Setting(level)) for level in arguments.levels]
    lab = Lab(public, channels, backbone, corpus, device(arguments.device))
    trainer = lab.trainer(held, own=own, workers=arguments.workers)
    path = arguments.checkpoint
    if path.exists() and not arguments.afresh:
        try:
            trainer.unpack(path) if path.is_dir() else trainer.load(path)
        except ValueError as error:
            raise SystemExit(f"{error}; give --afresh or another --checkpoint") from None
    if arguments.weights_only:
        train(trainer, lambda: trainer.pack(arguments.weights_only), arguments.minutes)
        return
    train(trainer, lambda: trainer.save(path), arguments.minutes)
    rows: list[Figures] = []
    jobs = [(kind, level) for kind in arguments.kinds for level in arguments.judged]
    key = Key(bytes(32)) if arguments.one_key else None
    cases: dict[str, Case] = {}
    for kind, level in console.track(jobs, "kinds and levels"):
        facts = ["classes", public.bundle.id, trainer.identity, trainer.step, kind, level, budget]
        facts += ["one key"] if key else []
        kept = arguments.out / "cache" / "trained" / cache.name_of(*facts)
        if not kept.exists():
            if kind not in cases:
                fresh = Public(public.bundle, public.models)
                cases = {kind: Case.of(fresh, arguments.data, kind, budget)}
            channel = replace(cases[kind].familiar(Setting(level)), key=key)
            cache.keep(kept, _judged(lab, cases[kind], kind, channel, trainer.trained))
        rows += json.loads(kept.read_text())
        last = rows[-1]
        console.STEPS.print(kind, level, last["attack"], share(last["success"]), span(last["ci"]))
    figures = {
        "bundle": public.bundle.id,
        "rows": rows,
        "steps": trainer.step,
        "minutes": trainer.seconds / 60,
        "trained_words": trainer.words,
        "history": trainer.history,
        "own": own,
        "one_key": arguments.one_key,
    }
    trained = f"trained for {trainer.step:,} steps, {trainer.seconds / 60:.0f} minutes, on "
    trained += f"{trainer.words:,} words with noise"
    console.publish(arguments, figures, _table(rows), trained, *broken(rows))


def _judged(lab: Lab, case: Case, kind: str, channel: Words, reader: Reader) -> list[Figures]:
    learnt, seen = case.releases(channel)
    about = {"kind": kind, **name_of(case.public, channel.setting)}
    return [
        {**about, "attack": name, **attacked(attack, learnt, seen, channel.groups)}
        for name, attack in lab.attacks(case, channel, reader).items()
    ]


def _table(rows: Sequence[Figures]) -> console.Table:
    return console.table(
        "words with noise that attackers recover",
        ("kind", "level", "attack"),
        ("success", "95 %", "words", "the level's name"),
        (
            (
                *(row[name] for name in ("kind", "level", "attack")),
                share(row["success"]),
                span(row["ci"]),
                f"{row['words']:,}",
                share(row["name"], 2),
            )
            for row in rows
        ),
    )


def _asked() -> tuple[argparse.Namespace, Budget]:
    parser = console.parser(
        "attacks.trained",
        __doc__,
        quick="fewer texts, 40 minutes of training: an hour on two cores",
        models=True,
        data="the data sets",
    )
    add = parser.add_argument
    add("--full", action="store_true", help="more texts, up to ten hours: for a GPU or a night")
    add("--minutes", type=float, help="of training at most, in this run; 0 judges the checkpoint")
    add("--levels", type=console.names(), default=LEVELS, help="to train one model on")
    add("--judged", type=console.names(), default=(*LEVELS, "attack:0.3"), help="levels to attack")
    add("--one-key", action="store_true", help="release all texts of a kind under one key")
    add("--public-only", action="store_true", help="train without text of the six kinds")
    add("--backbone", default="default", help="a folder, or a name on the Hugging Face hub")
    add("--device", default="", help="cpu, or cuda where there is one (the default there)")
    add("--threads", type=int, help="of the CPU")
    add("--workers", type=int, default=(os.cpu_count() or 1) - 1, help="that make releases")
    add("--weights-only", type=Path, metavar="FOLDER", help="write the weights there, and end")
    add("--checkpoint", type=Path, help="to resume from and to keep, or a folder of weights")
    add("--afresh", action="store_true", help="start anew instead of resuming")
    console.ask_names(parser, "--kinds", KINDS)
    arguments = parser.parse_args()
    if arguments.quick == arguments.full:
        parser.error("give --quick or --full")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.minutes is None:
        arguments.minutes = 40.0 if arguments.quick else 600.0
    arguments.checkpoint = arguments.checkpoint or arguments.out / "trained.pt"
    if arguments.checkpoint.is_dir() and arguments.minutes and not arguments.weights_only:
        parser.error("a folder of weights is judged with --minutes 0; give --weights-only to train")
    if not arguments.minutes and not arguments.checkpoint.exists():
        parser.error(f"no checkpoint at {arguments.checkpoint}: train first, or name another")
    files = [file for table in (KINDS, MORE) for files, _ in table.values() for file in files]
    data.require(parser, arguments.data, *files)
    manifest = Bundle.open(arguments.bundle).manifest
    try:
        for level in (*arguments.levels, *arguments.judged):
            manifest.level(Setting().mechanism, level)
    except SottovoceError as error:
        parser.error(str(error))
    return arguments, replace(QUICK, words=Budget().words) if arguments.quick else Budget()


if __name__ == "__main__":
    main()
