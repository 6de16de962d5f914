"""What do the strongest attackers recover on other kinds of text than the treebank's?

A level is named after the most that the strongest attacker recovers. This bench releases a
treebank, reviews, news, questions, blogs and messages at the given levels. The attackers guess word
by word, in context, and in context with other text of the same kind. The worst kind counts.

    python -m bench.attacks.kinds --quick
    python -m bench.attacks.kinds --levels attack:0.3 --kinds news,blogs
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench import console, data
from bench.attacks.bigram import Bigrams, numbered, public_sequences
from bench.attacks.channels import Words
from bench.attacks.entities import read_entities
from bench.attacks.interface import OPEN, Attack, Candidates, Channel, Releases, TextChannel
from bench.attacks.inversion import ContextMap, Map
from bench.attacks.measures import Tally
from bench.attacks.public import Public
from bench.attacks.text import Ints, Text
from bench.console import Figures, share, span
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import NAMES, strongest
from sottovoce.core.errors import SottovoceError
from sottovoce.core.privacy.policies import LEVELS, Setting
from sottovoce.models.corpus import read_conllu

__all__ = ["KINDS", "MORE", "QUICK", "Budget", "Case", "InDomain", "Split", "attacked", "broken"]
__all__ += ["measure", "name_of", "tallied"]

_KEPT: Final = 200
"""Maximum number of words of a text; the rest is cut."""


def _tsv(*files: str) -> Callable[[Path], Iterator[str]]:
    return lambda folder: (row["text"] for file in files for row in data.rows(folder / file))


def _treebank(file: str) -> Callable[[Path], Iterator[str]]:
    return lambda folder: (" ".join(each.words) for each in read_conllu(folder / file))


def _messages(file: str) -> Callable[[Path], Iterator[str]]:
    return lambda folder: (" ".join(each) for each in read_entities(folder / file).tokens)


_Kind = tuple[tuple[str, ...], Callable[[Path], Iterator[str]]]

KINDS: Final[dict[str, _Kind]] = {
    name: (files, read(*files))
    for name, files, read in (
        ("treebank", ("ud_gum/dev.conllu.gz",), _treebank),
        ("reviews", ("sst2/dev.tsv.gz",), _tsv),
        ("news", ("agnews/train.tsv.gz",), _tsv),
        ("questions", ("trec/train.tsv.gz",), _tsv),
        ("blogs", ("blogs/dev.tsv.gz",), _tsv),
        ("messages", ("wnut17/dev.jsonl.gz",), _messages),
    )
}
"""Files of the data folder, and the texts in them; no bundle counted these texts."""

MORE: Final[dict[str, _Kind]] = {
    name: (files, read(*files))
    for name, files, read in (
        ("treebank", ("ud_gum/train.conllu.gz",), _treebank),
        ("reviews", ("sst2/train.tsv.gz",), _tsv),
        ("blogs", ("blogs/train.tsv.gz",), _tsv),
        ("messages", ("wnut17/train.jsonl.gz",), _messages),
    )
}
"""Other texts of a kind, to train on."""


@dataclass(frozen=True)
class InDomain(Words):
    """The same releases, for an attacker with a prior that includes text of the kind.

    Attributes:
        counts: occurrences of each listed word in that text, Ints1d (words,).
    """

    counts: Ints = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def candidates(self) -> tuple[Candidates, ...]:
        """Return candidates; half of each prior is public, half from the kind's own counts."""
        return tuple(self._met(each) for each in super().candidates)

    def _met(self, each: Candidates) -> Candidates:
        public = np.exp(each.log_prior.astype(float))
        own = self.counts[each.ids].astype(float)
        if not own.any():
            return each
        mixed = public / public.sum() + own / own.sum()
        return Candidates(each.ids, np.log(mixed / mixed.sum()).astype(np.float32))


@dataclass(frozen=True)
class Budget:
    """Sizes of a measurement.

    Attributes:
        judged: words of the judged texts of a kind; at most half of the kind's texts are judged.
        fitted: words of the texts that fit the attackers; at most an eighth of the texts.
        known: maximum number of other texts of the kind that attackers count.
        words: public words that attackers count.
    """

    judged: int = 20_000
    fitted: int = 8_000
    known: int = 40_000
    words: int = 4_000_000


QUICK: Final = Budget(judged=6_000, fitted=2_500, known=3_000, words=500_000)


@dataclass(frozen=True)
class Split:
    """Texts of a kind: texts to judge, texts that fit attackers, and texts to learn from."""

    judged: list[str]
    fitted: list[str]
    others: list[str]

    @classmethod
    def of(cls, folder: Path, kind: str, budget: Budget) -> Split:
        """Split the texts of a kind in a fixed order, each cut to 200 words."""
        texts = [" ".join(text.split()[:_KEPT]) for text in KINDS[kind][1](folder)]
        order = np.random.default_rng(0).permutation(len(texts)).tolist()
        texts = [texts[i] for i in order if texts[i]]
        ends = np.cumsum([len(text.split()) for text in texts])
        first = min(int(np.searchsorted(ends, budget.judged)) + 1, len(texts) // 2)
        second = int(np.searchsorted(ends, ends[first - 1] + budget.fitted)) + 1
        second = min(second, first + max(1, len(texts) // 8))
        more = MORE[kind][1](folder) if kind in MORE else ()
        return cls(texts[:first], texts[first:second], [*texts[second:], *more])


@dataclass(frozen=True)
class Case:
    """Texts of a kind under attack, and the counting attackers' knowledge.

    Attributes:
        private: the judged texts.
        known: other texts of the kind, on whose releases attackers are fitted.
        everyday, both: bigrams of public text, without and with other texts of the kind.
        counts: of the listed words in other texts of the kind, Ints1d (words,).
    """

    public: Public
    private: Text
    known: Text
    everyday: Bigrams
    both: Bigrams
    counts: Ints

    @classmethod
    def of(cls, public: Public, folder: Path, kind: str, budget: Budget) -> Case:
        """Build a case; ``public`` must be fresh, because other kinds would change word numbers."""
        clitics, lexicon = public.bundle.manifest.clitics, public.lexicon
        split = Split.of(folder, kind, budget)
        private = Text.of(split.judged, lexicon, clitics)
        known = Text.of(split.fitted, lexicon, clitics)
        text = numbered(public_sequences(folder, budget.words), lexicon, clitics)
        # Leave out the known texts: attackers that count them would trust their counts too much.
        domain = numbered([[each] for each in split.others[: budget.known]], lexicon, clitics)
        counts = np.bincount(domain[domain < lexicon.listed], minlength=lexicon.listed)
        both = np.concatenate([text, *[domain] * _weight(len(text), len(domain))])
        everyday, mixed = (Bigrams.of(each, len(lexicon)) for each in (text, both))
        return cls(public, private, known, everyday, mixed, counts.astype(np.int32))

    def releases(self, channel: TextChannel) -> tuple[Releases, Releases]:
        """Return releases of the known and of the judged texts."""
        seen = channel.release(self.private, np.random.default_rng(1))
        return channel.release(self.known, np.random.default_rng(2)), seen

    def familiar(self, setting: Setting) -> InDomain:
        """Return the channel of an attacker with text of the kind."""
        return InDomain(self.public, setting, counts=self.counts)

    def attacks(self, setting: Setting) -> dict[str, Attack]:
        """Return the attackers that count words and pairs of words."""
        channel, boundary = Words(self.public, setting), self.public.lexicon.boundary
        name, strongest = self.strongest(self.familiar(setting))
        return {
            "MAP": Map(channel),
            "MAP in context": ContextMap(channel, self.everyday, boundary),
            name: strongest,
        }

    def strongest(self, channel: Channel) -> tuple[str, ContextMap]:
        """Return the strongest attacker that counts, with his name."""
        counting = ContextMap(channel, self.both, self.public.lexicon.boundary)
        return "MAP in context, text of the kind", counting


def measure(case: Case, kind: str, level: str) -> list[Figures]:
    """Measure the noised words that each attacker recovers, with a 95 % interval over texts."""
    setting = Setting(level)
    channel = Words(case.public, setting)
    learnt, seen = case.releases(channel)
    about = {"kind": kind, **name_of(case.public, setting)}
    return [
        {**about, "attack": name, **attacked(attack, learnt, seen, channel.groups)}
        for name, attack in case.attacks(setting).items()
    ]


def name_of(public: Public, setting: Setting) -> Figures:
    """Return the level, the success on single vectors, and the share that the name promises."""
    level = setting.level
    single = public.bundle.manifest.level(setting.mechanism, level).map_attack
    measure, _, share = level.partition(":")
    promised = float(share) if measure == "attack" else float(strongest(single))
    return {"level": level, "single": single, "name": NAMES.get(level, promised)}


def broken(rows: Sequence[Figures]) -> list[str]:
    """Return a line for each level: the highest upper bound of all attackers and kinds."""
    found = []
    for level in dict.fromkeys(row["level"] for row in rows):
        worst = max((row for row in rows if row["level"] == level), key=lambda row: row["ci"][1])
        kept = "kept" if worst["ci"][1] <= worst["name"] else "broken"
        found.append(
            f"{level}: at most {share(worst['ci'][1])} of {worst['kind']} by {worst['attack']}, "
            f"the name says {share(worst['name'], 2)}: {kept}"
        )
    return found


def _weight(everyday: int, domain: int) -> int:
    """Return how often to count the kind's own text, so that its share is at most a fifth."""
    return max(1, min(20, everyday // (4 * max(1, domain))))


def attacked(attack: Attack, learnt: Releases, seen: Releases, groups: Sequence[str]) -> Figures:
    """Fit an attack, and judge it on the words with noise, all and by class.

    Args:
        groups: names of the classes, by group.
    """
    attack.fit(learnt)
    right, group = attack.guess(seen.seen) == seen.true, seen.seen.group
    tally = _tally(right, seen, group != OPEN)
    classes = {name: right[group == each] for each, name in enumerate(groups)}
    return {
        "success": tally.share,
        "ci": tally.interval(),
        "words": int(tally.judged.sum()),
        "classes": {name: float(each.mean()) for name, each in classes.items() if len(each)},
    }


def tallied(attack: Attack, learnt: Releases, seen: Releases, judged: NDArray[np.bool_]) -> Tally:
    """Fit an attack, and count the right guesses of the ``judged`` words, Bools1d (n,)."""
    attack.fit(learnt)
    return _tally(attack.guess(seen.seen) == seen.true, seen, judged)


def _tally(right: NDArray[np.bool_], seen: Releases, judged: NDArray[np.bool_]) -> Tally:
    right = right & judged
    place = np.unique(seen.seen.sentence, return_inverse=True)[1]
    n = int(place.max()) + 1
    return Tally(np.bincount(place[right], minlength=n), np.bincount(place[judged], minlength=n))


def main() -> None:
    """Print the table."""
    parser = console.parser(
        "attacks.kinds", __doc__, quick="fewer texts", models=True, data="the data sets"
    )
    parser.add_argument("--levels", type=console.names(), default=(*LEVELS, "attack:0.3"))
    console.ask_names(parser, "--kinds", KINDS)
    arguments = parser.parse_args()
    data.require(parser, arguments.data, *(f for kind in arguments.kinds for f in KINDS[kind][0]))
    budget = QUICK if arguments.quick else Budget()
    rows: list[dict[str, Any]] = []
    public = Public(Bundle.open(arguments.bundle), arguments.models)
    try:
        for level in arguments.levels:
            public.bundle.manifest.level(Setting().mechanism, level)
    except SottovoceError as error:
        parser.error(f"--levels: {error}")
    jobs = [(kind, level) for kind in arguments.kinds for level in arguments.levels]
    cases: dict[str, Case] = {}
    for kind, level in console.track(jobs, "kinds of text"):
        if kind not in cases:
            # A fresh one for each kind: other kinds' words would change the lexicon's numbers.
            fresh = Public(public.bundle, public.models)
            cases = {kind: Case.of(fresh, arguments.data, kind, budget)}
        rows += measure(cases[kind], kind, level)
        console.STEPS.print(kind, level, rows[-1]["attack"], span(rows[-1]["ci"]))
    shown = console.table(
        "words with noise that attackers recover, by kind of text",
        ("kind", "level", "attack"),
        ("success", "95 %", "words"),
        (
            (
                *(row[name] for name in ("kind", "level", "attack")),
                share(row["success"]),
                span(row["ci"]),
                f"{row['words']:,}",
            )
            for row in rows
        ),
    )
    worst = max(rows, key=lambda row: float(row["success"]))
    figures = {"bundle": public.bundle.id, "rows": rows, "worst": worst}
    console.publish(arguments, figures, shown, *broken(rows))


if __name__ == "__main__":
    main()
