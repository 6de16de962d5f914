"""Public tasks, in clear text and as a device would release them.

All utility measurements use the same phrases, held-out part and share of replaced words. RAPT v2
(table III) states levels as the probability that a word is replaced. This is the share of words
that get noise, because PCT2T could not reach .94 of all words. It leaves out words outside the
vocabulary, which are always replaced and would put .05 out of reach.

So eta is chosen by that share, on the given text and for each mechanism: all words under T2T, the
words of the policy's parts of speech under PCT2T. Texts go through the device's `Privatizer`.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench import cache
from bench.attacks.public import Remembering
from bench.data import labelled_messages, rows
from sottovoce.core.bundle import levels
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import policies
from sottovoce.core.privacy.mechanisms.spherical import PCT2T2
from sottovoce.core.privacy.policies import PUNCTUATION, Setting, Treatment
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text.tagger import OnnxTagger

__all__ = ["CACHE", "REPLACED", "TASKS", "Device", "Parts", "Released"]
__all__ += ["Split", "Task", "files", "join", "load"]

REPLACED: Final = (0.85, 0.45, 0.14)
"""Replacement probabilities at which tables are made: eta 75, 125 and 150 of RAPT v2, table III."""

CACHE: Final = Path("build/bench/cache")
"""Cache of releases, ignored by git, because some data may not be committed."""

Parts = tuple[str, ...]
"""The one or two texts of an example."""

_HELD_OUT: Final = 20
"""Seed of the split of single-file data sets; the same for every run."""
_MATCHED_ON: Final = 10_000
"""Approximate number of words on which a level is matched to its share."""


@dataclass(frozen=True)
class _Source:
    """Format of a data set: its columns, and rows to hold out if it has no development file.

    Instead of columns it may give a number of first words of the example's messages.
    """

    columns: tuple[str, ...] = ("text",)
    held_out: int = 0
    words: int = 0


TASKS: Final = {
    "sst2": _Source(),
    "cola": _Source(),
    "agnews": _Source(held_out=500),
    "trec": _Source(held_out=500),
    "mrpc": _Source(columns=("text_a", "text_b"), held_out=500),
    "dbpedia": _Source(),
    "helpdesk": _Source(words=20),
    "helpdesk70": _Source(words=70),
}


@dataclass(frozen=True)
class Split:
    """Examples, with one label for each text."""

    texts: tuple[Parts, ...]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.texts)


@dataclass(frozen=True)
class Task:
    """Training and development examples of a task.

    Attributes:
        name: one of `TASKS`.
        train: drawn at random from the data set's training part.
        dev: the data set's development file, or rows set apart from its only file by a fixed seed.
    """

    name: str
    train: Split
    dev: Split

    @property
    def majority(self) -> float:
        """Accuracy of always answering the commonest label."""
        return max(self.dev.labels.count(label) for label in set(self.dev.labels)) / len(self.dev)


@dataclass(frozen=True)
class Released:
    """A release, and figures that only the device knows.

    Attributes:
        texts: the released parts of each example.
        protected: share of all words (punctuation apart) that got noise.
        replaced: the papers' replacement probability: share of noisy words in the bundle's list
            that became another word.
        replaced_all: the same over all noisy words, with unlisted words and identifiers.
    """

    texts: tuple[Parts, ...]
    protected: float
    replaced: float
    replaced_all: float


def files(names: Sequence[str]) -> list[str]:
    """Return the files of the tasks, relative to the data folder; for `bench.data.require`."""
    return [
        f"{name}/{part}.tsv.gz"
        for name in names
        if not TASKS[name].words
        for part in (("train",) if TASKS[name].held_out else ("train", "dev"))
    ]


def load(name: str, data: Path, train: int = 10_000, seed: int = 0) -> Task:
    """A task with up to ``train`` training examples, all where it is 0.

    Args:
        name: one of `TASKS`.
        data: the folder of data sets.
        train: how many.
        seed: which ones; it does not touch the held-out part.
    """
    source = TASKS[name]
    if source.words:
        return Task(name, *(_messages(part, source.words) for part in ("train", "test")))
    known = _read(data / name / "train.tsv.gz", source)
    if source.held_out:
        order = np.random.default_rng(_HELD_OUT).permutation(len(known))
        held = [known[place] for place in np.sort(order[: source.held_out])]
        known = [known[place] for place in np.sort(order[source.held_out :])]
    else:
        held = _read(data / name / "dev.tsv.gz", source)
    if 0 < train < len(known):
        chosen = np.random.default_rng(seed).choice(len(known), train, replace=False)
        known = [known[place] for place in np.sort(chosen)]
    return Task(name, _split(known), _split(held))


def join(texts: Sequence[Parts], tokenizer: Any) -> list[str]:
    """One text an example; two parts stand apart as the backbone's tokenizer separates sentences.

    Fast tokenizers read their own separator in a text as the token it is.
    """
    separator = getattr(tokenizer, "sep_token", None) or getattr(tokenizer, "eos_token", None)
    return [(f" {separator} " if separator else "\n").join(parts) for parts in texts]


class Device:
    """Release tasks as a device with ``bundle`` does; earlier releases come from disk.

    Args:
        bundle: an opened bundle.
        folder: cache of the releases.
    """

    def __init__(self, bundle: Bundle, folder: Path = CACHE) -> None:
        self.bundle = bundle
        self._cache = folder

    @cached_property
    def _privatizer(self) -> Privatizer:
        tagger = Remembering(OnnxTagger.load(self.bundle.tagger_folder))
        return Privatizer.of(self.bundle, tagger=lambda: tagger)

    def eta(self, setting: Setting) -> float:
        """Return the privacy parameter of a setting."""
        return self.bundle.manifest.level(setting.mechanism, setting.level).eta

    def setting(
        self, task: Task, share: float, mechanism: str = PCT2T2.name, policy: str = policies.DEFAULT
    ) -> Setting:
        """The level at which ``share`` of the words with noise are replaced in this task's text.

        The bundle's own levels hold over general text; another kind of text keeps some points more
        or fewer. Found in hundredths, from the level of that name on, on 10,000 training words.
        """
        some = _some(task.train.texts)
        curve = self.bundle.manifest.curve[mechanism]
        low, high = (round(100 * end) for end in levels.span(curve, "replaced"))
        tried = round(100 * share)
        while low < high:
            tried = min(max(tried, low), high - 1)
            found = self.release(some, Setting(_level(tried), mechanism, policy), 0).replaced
            missing = math.ceil(100 * (share - found))  # the share moves about as the level does
            if found < share:
                low, tried = tried + 1, tried + missing
            else:
                high, tried = tried, tried + min(missing, -1)
        return Setting(_level(low), mechanism, policy)

    def release(self, texts: Sequence[Parts], setting: Setting, seed: int) -> Released:
        """Releases every part on its own.

        Args:
            texts: the parts of each example.
            setting: level, mechanism and policy.
            seed: makes the noise repeatable, which a device never does.
        """
        facts = [self.bundle.id, setting.level, setting.mechanism, seed, texts]
        facts.append(
            {kind: int(each) for kind, each in policies.find(setting.policy).table.items()}
        )
        file = self._cache / "releases" / f"{cache.name_of(*facts)}.json.gz"
        if not file.is_file():
            _write(file, self._release(texts, setting, seed))
        with gzip.open(file, "rt", encoding="utf-8") as opened:
            stored = json.load(opened)
        released = tuple(tuple(parts) for parts in stored["texts"])
        return Released(released, **stored["shares"])

    def _release(self, texts: Sequence[Parts], setting: Setting, seed: int) -> dict[str, Any]:
        random = np.random.default_rng([seed, 3])
        words = 0
        met: Counter[tuple[bool, bool]] = Counter()  # with noise or drawn, replaced or not
        released = []
        for parts in texts:
            found = [self._privatizer.release(part, setting, random) for part in parts]
            released.append([each.text for each in found])
            for each in found:
                for word in each.each_word():
                    words += word.tag != PUNCTUATION
                    if word.protected:
                        met[word.treatment is Treatment.NOISE, word.replaced] += 1
        with_noise, protected = met[True, True] + met[True, False], met.total()
        shares = {
            "protected": protected / max(1, words),
            "replaced": met[True, True] / max(1, with_noise),
            "replaced_all": (met[True, True] + met[False, True]) / max(1, protected),
        }
        return {"texts": released, "shares": shares}


def _some(texts: Sequence[Parts]) -> Sequence[Parts]:
    """Return evenly spaced examples with about `_MATCHED_ON` words."""
    words = sum(len(part.split()) for parts in texts for part in parts)
    return texts[:: max(1, words // _MATCHED_ON)]


def _level(hundredths: int) -> str:
    return levels.name_of("replaced", hundredths / 100)


def _read(file: Path, source: _Source) -> list[tuple[Parts, str]]:
    return [
        (tuple(row[each].strip() for each in source.columns), row["label"]) for row in rows(file)
    ]


def _messages(part: str, words: int) -> Split:
    """Return the beginnings of the example's messages."""
    return _split(
        [((" ".join(text.split()[:words]),), label) for text, label in labelled_messages(part)]
    )


def _split(examples: Sequence[tuple[Parts, str]]) -> Split:
    return Split(tuple(parts for parts, _ in examples), tuple(label for _, label in examples))


def _write(file: Path, content: dict[str, Any]) -> None:
    with (
        cache.aside(file) as path,
        gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as opened,
    ):
        json.dump(content, opened)
