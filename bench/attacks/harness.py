"""Runs attacks on one mechanism at one level, and collects the rows of the table.

This module alone pairs attackers with mechanisms and texts. Attackers are fitted on a public
treebank. The private text is another treebank, unknown to all counts, language models and
attackers. The methods do not depend on the order of calls, so processes can share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.attacks import tokens
from bench.attacks.averaging import AFRESH, ONE_KEY, Averaging, afresh, under_one_key
from bench.attacks.bigram import Bigrams, numbered, public_sequences
from bench.attacks.channels import CLEAR, Noised, Words
from bench.attacks.costs import Embed, Meaning, Sentiment
from bench.attacks.frontier import Point
from bench.attacks.interface import OPEN, Attack, Channel, Floats, Releases, TextChannel
from bench.attacks.inversion import ContextMap, Map, Nearest, Rescaled
from bench.attacks.measures import Judged, Tally, scores
from bench.attacks.public import Public
from bench.attacks.text import Text, read_treebank
from sottovoce.cloud.models import backbone as backbones
from sottovoce.core.privacy.mechanisms.spherical import PCT2T, PCT2T2, T2T
from sottovoce.core.privacy.policies import Setting

__all__ = ["FULL", "MECHANISMS", "QUICK", "Budget", "Found", "Harness", "Row"]

Row = dict[str, Any]

MECHANISMS: Final = (PCT2T2.name, PCT2T.name, T2T.name)
"""The shipped mechanism, and the published ones in our space."""
_NO_NOISE: Final = 1e5
"""eta of vectors with almost no noise."""


@dataclass(frozen=True)
class Budget:
    """Sizes of all parts of the measurement.

    Attributes:
        sentences: sentences of the private treebank, and of the public one for fitting attacks.
        words: words of public text for counting the bigrams.
        repeated: number of sentences released repeatedly, and of releases each.
        reviews: training phrases of the sentiment classifier, number of trainings, and maximum
            number of test phrases. The last two narrow its interval about equally.
        posts: train and test posts of attribute inference.
        messages: labelled messages of the NER attack.
    """

    sentences: int
    words: int
    repeated: tuple[int, int]
    reviews: tuple[int, int, int]
    posts: tuple[int, int]
    messages: int


QUICK: Final = Budget(250, 2_500_000, (30, 32), (4_000, 16, 3_000), (3_000, 1_500), 3_400)
FULL: Final = Budget(900, 6_000_000, (100, 64), (8_000, 16, 4_000), (12_000, 4_400), 3_400)


@dataclass(frozen=True)
class Found:
    """Rows of every attack, the tallies of the strongest attack, and the attacked text."""

    rows: list[Row]
    tallies: dict[str, Tally]
    releases: Releases


class Harness:
    """The texts, the counts of the language, and the attacks.

    Args:
        public: the bundle and the counts.
        data: the project's data folder.
        budget: sizes.
    """

    def __init__(self, public: Public, data: Path, budget: Budget) -> None:
        self.public, self.data, self.budget = public, data, budget
        clitics, lexicon = public.bundle.manifest.clitics, public.lexicon
        banks = (data / "ud_gum" / "dev.conllu.gz", data / "ud_ewt" / "dev.conllu.gz")
        self.private, self.known = (
            read_treebank(bank, budget.sentences, lexicon, clitics) for bank in banks
        )
        tags = public.tags(PCT2T.name)
        assert tags is not None
        self.judged = Judged.of(self.private, tags, public.common)
        # Count now, not at the first use, because the lexicon's content is part of the model.
        text = numbered(public_sequences(data, budget.words), lexicon, clitics)
        self.bigrams = Bigrams.of(text, len(lexicon))

    @cached_property
    def sentiment(self) -> Sentiment | None:
        """Return the utility on reviews, if the data folder has them."""
        folder, (n, _, most) = self.data / "sst2", self.budget.reviews
        return Sentiment.read(folder, self.public, n, most) if folder.is_dir() else None

    @cached_property
    def meaning(self) -> Meaning:
        """Return the meaning of the private text."""
        return Meaning(self.public, self.private)

    def inversion(self, channel: Channel, bigrams: Bigrams, boundary: int) -> list[Attack]:
        """Return the attacks on single releases."""
        some: list[Attack] = [Nearest(channel)]
        if channel.sees == "vector":
            some.append(Rescaled(channel))
        return [*some, Map(channel), ContextMap(channel, bigrams, boundary)]

    def on_words(self, channel: TextChannel) -> Found:
        """Run the attacks on the releases of one mechanism at one level."""
        random = np.random.default_rng(1)
        seen = channel.release(self.private, random)
        known = channel.release(self.known, random)
        attacks = self.inversion(channel, self.bigrams, self.public.lexicon.boundary)
        return self._attacked(channel, attacks, known, seen, self.judged)

    def words_point(self, channel: TextChannel) -> tuple[Found, Point]:
        """Return the attacks' results, and the point with the mechanism's utility."""
        found = self.on_words(channel)
        utility = self.words_utility(channel, found.releases)
        return found, Point(channel.mechanism, channel.level, found.tallies, utility)

    def on_vectors(self, words: Words) -> list[Row]:
        """Attack the words before the search, as a bound on every attacker of released words."""
        channel, random = words.vectors, np.random.default_rng(2)
        seen, known = (
            channel.release(words.release(text, random), random)
            for text in (self.private, self.known)
        )
        attacks = self.inversion(channel, self.bigrams, self.public.lexicon.boundary)
        return self._attacked(channel, attacks, known, seen, self.judged).rows

    def on_tokens(self, channel: Noised) -> tuple[list[Row], Point]:
        """Return rows and point of a mechanism on tokens, for example `token-embedding.v1`."""
        bundle, embeddings, level = self.public.bundle, self.embeddings, channel.level
        (private, origin), (known, known_origin) = (
            tokens.to_tokens(text, bundle) for text in (self.private, self.known)
        )
        judged = tokens.judged_tokens(self.judged, private, origin, channel.candidates[0].log_prior)
        random = np.random.default_rng(3)
        seen = tokens.released(channel, private, self.private.sentence[origin], random)
        public = tokens.released(channel, known, self.known.sentence[known_origin], random)
        boundary = int(self.public.backbone.tokenizer.sep_token_id)
        attacks = self.inversion(channel, self._token_bigrams, boundary)
        found = self._attacked(channel, attacks, public, seen, judged)
        vectors = np.asarray(found.releases.seen.vectors)
        means = tokens.posterior(channel, embeddings)(vectors, channel.eta)
        cosines = self.meaning.of_tokens(private, means, seen.seen.sentence)
        utility = self._utility(tokens.as_sent(channel, embeddings, bundle), cosines, few=True)
        return found.rows, Point(channel.mechanism, level, found.tallies, utility)

    @cached_property
    def embeddings(self) -> Floats:
        """Return the backbone's input embeddings: Floats2d (tokens, width)."""
        return backbones.input_embeddings(self.public.backbone)

    @cached_property
    def _token_bigrams(self) -> Bigrams:
        sequences = public_sequences(self.data, self.budget.words // 2)
        return tokens.bigrams_of(sequences, self.public.backbone.tokenizer)

    def averaging(self, level: str) -> list[Row]:
        """Attack one text released many times, under the device's key and with fresh noise."""
        n, times = self.budget.repeated
        channel = Words(self.public, Setting(level))
        few = Text.of(
            self.private.documents[:n], self.public.lexicon, self.public.bundle.manifest.clitics
        )
        attack = Averaging(channel)
        attack.fit(channel.release(self.known, np.random.default_rng(5)))
        rows = []
        for name, released in (
            (f"averaging {times}, {AFRESH}", afresh(channel, few, times, np.random.default_rng(6))),
            (f"averaging {times}, {ONE_KEY}", under_one_key(channel, few, times)),
        ):
            true = released[0].true
            hidden = (released[0].seen.group != OPEN) & (true < self.public.lexicon.listed)
            judged = replace(self.judged, all=hidden, sentence=few.sentence)
            judged = replace(judged, rare=hidden & False, names=hidden & False)
            judged = replace(judged, numbers=hidden & False)
            guesses = attack.guess_all([each.seen for each in released])
            rows.append(self._row(channel, name, scores(judged.tallies(guesses == true))))
        return rows

    def clear_words(self) -> list[Row]:
        """Run the attacks on unchanged words."""
        return self.on_words(Words(self.public, CLEAR)).rows

    def clear_vectors(self) -> list[Row]:
        """Run the attacks on vectors with hardly any noise."""
        channel = tokens.levels_of(self.public.bundle)[0]
        channel = replace(channel, mechanism="none", level="clear", eta=_NO_NOISE)
        private, origin = tokens.to_tokens(self.private, self.public.bundle)
        random = np.random.default_rng(3)
        seen = tokens.released(channel, private, self.private.sentence[origin], random)
        none = Bigrams.of(private[:2], len(channel.rows))  # a bigram model that knows nothing
        attacks = self.inversion(channel, none, 0)
        judged = tokens.judged_tokens(self.judged, private, origin, channel.candidates[0].log_prior)
        return self._attacked(channel, attacks, seen, seen, judged).rows

    def words_utility(self, channel: TextChannel, releases: Releases) -> dict[str, Floats]:
        """Return the utility of the private text's ``releases``, and of reviews."""
        cosines = self.meaning.of_words(releases.seen.symbols)
        embed = self.sentiment.of_words(channel.release) if self.sentiment else None
        return self._utility(embed, cosines)

    def clear_utility(self) -> dict[str, Floats]:
        """Return the utility of text in the clear."""
        channel = Words(self.public, CLEAR)
        return self.words_utility(channel, channel.release(self.private, np.random.default_rng(1)))

    def _utility(
        self, embed: Embed | None, cosines: Floats, *, few: bool = False
    ) -> dict[str, Floats]:
        """Return the utility; see `Point`.

        With ``few``, half as many classifiers are trained, and they judge few phrases. This suits
        mechanisms with many other measurements, or with slow phrases.
        """
        found = {"cosine": cosines[None]}
        if self.sentiment and embed:
            trials = max(1, self.budget.reviews[1] // (2 if few else 1))
            found["accuracy"] = self.sentiment.right(embed, trials, few=few)
        return found

    def _attacked(
        self,
        channel: Channel,
        attacks: Sequence[Attack],
        known: Releases,
        seen: Releases,
        judged: Judged,
    ) -> Found:
        rows, best = [], {"all": Tally(np.zeros(1, int), np.ones(1, int))}
        for attack in attacks:
            attack.fit(known)
            tallies = judged.tallies(attack.guess(seen.seen) == seen.true)
            rows.append(self._row(channel, attack.name, scores(tallies)))
            best = max(best, tallies, key=lambda each: each["all"].share)
        return Found(rows, best, seen)

    @staticmethod
    def _row(channel: Channel, attack: str, found: Row) -> Row:
        names = {"mechanism": channel.mechanism, "level": channel.level, "attack": attack}
        return {**names, "sees": channel.sees, **found}
