"""Runs attacks on one mechanism at one level, and gathers what the table shows.

Why it is here: one place says which attackers meet which mechanism, on which text. Attackers are
fitted on a public treebank, the private text is another one that no count, no language model and no
attacker has seen. No method depends on which were called before, so that processes can share them
out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.attacks.bigram import Bigrams, numbered, public_sequences
from bench.attacks.channels import CLEAR, Noised, Words
from bench.attacks.costs import Meaning, Sentiment
from bench.attacks.interface import Attack, Channel, Releases
from bench.attacks.inversion import ContextMap, Map, Nearest
from bench.attacks.measures import Judged, scores, spread
from bench.attacks.public import Public
from bench.attacks.text import read_treebank
from sottovoce.core.privacy.mechanisms.pct2t import PCT2T
from sottovoce.core.privacy.mechanisms.pct2t2 import PCT2T2
from sottovoce.core.privacy.mechanisms.t2t import T2T

__all__ = ["FULL", "MECHANISMS", "QUICK", "Budget", "Harness", "Row"]

Row = dict[str, Any]

MECHANISMS: Final = (PCT2T2.name, PCT2T.name, T2T.name)
"""What ships, and the published ones in our space."""
_NO_NOISE: Final = 1e5
"""eta of vectors that are as good as clear."""


@dataclass(frozen=True)
class Budget:
    """How much of everything.

    Attributes:
        sentences: of the private treebank, and of the public one attacks are fitted on.
        words: of public text the bigrams are counted in.
        reviews: phrases the sentiment classifier is trained on, how often it is, and phrases it is
            judged on at most. Both narrow its interval about as much.
    """

    sentences: int
    words: int
    reviews: tuple[int, int, int]


QUICK: Final = Budget(250, 2_500_000, (4_000, 16, 3_000))
FULL: Final = Budget(900, 6_000_000, (8_000, 16, 4_000))


class Harness:
    """The texts, what is known of the language, and the attacks.

    Args:
        public: the bundle and the counts.
        data: the project's data folder.
        budget: how much.
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
        # Now, and not when first asked for: what the lexicon holds by then is part of the model.
        text = numbered(public_sequences(data, budget.words), lexicon, clitics)
        self.bigrams = Bigrams.of(text, len(lexicon))

    @cached_property
    def _sentiment(self) -> Sentiment | None:
        """Of reviews, where the data folder has them."""
        folder, (n, _, most) = self.data / "sst2", self.budget.reviews
        return Sentiment.read(folder, self.public, n, most) if folder.is_dir() else None

    @cached_property
    def _meaning(self) -> Meaning:
        """Of the private text."""
        return Meaning(self.public, self.private)

    def on_words(self, channel: Words) -> tuple[list[Row], Releases]:
        """The attacks on what one mechanism releases at one level, and what it released."""
        random = np.random.default_rng(1)
        seen = channel.release(self.private, random)
        return self._attacked(channel, channel.release(self.known, random), seen), seen

    def on_vectors(self, words: Words) -> list[Row]:
        """The same words before the search: the bound on every attacker of released words."""
        return self._on_vectors(words, words.vectors)

    def clear_vectors(self) -> list[Row]:
        """The attacks on vectors with hardly any noise."""
        words = Words(self.public, CLEAR)
        names = words.mechanism, words.level
        return self._on_vectors(words, Noised(*names, words.rows, words.candidates, _NO_NOISE))

    def costs(self, channel: Words, releases: Releases) -> Row:
        """What a mechanism leaves of the private text's ``releases``, and of reviews."""
        found = {"cosine": self._meaning.of_words(releases.seen.symbols)[None]}
        if self._sentiment:
            embed = self._sentiment.of_words(channel.release)
            found["accuracy"] = self._sentiment.right(embed, max(1, self.budget.reviews[1]))
        row: Row = {"mechanism": channel.mechanism, "level": channel.level}
        for name, each in found.items():
            row[name], row[f"{name}_ci"] = spread(each)
        return row

    def _on_vectors(self, words: Words, channel: Noised) -> list[Row]:
        random = np.random.default_rng(2)
        seen, known = (
            channel.release(words.release(text, random), random)
            for text in (self.private, self.known)
        )
        return self._attacked(channel, known, seen)

    def _attacked(self, channel: Channel, known: Releases, seen: Releases) -> list[Row]:
        context = ContextMap(channel, self.bigrams, self.public.lexicon.boundary)
        attacks: list[Attack] = [Nearest(channel), Map(channel), context]
        rows = []
        for attack in attacks:
            attack.fit(known)
            found = scores(self.judged.tallies(attack.guess(seen.seen) == seen.true))
            names = {"mechanism": channel.mechanism, "level": channel.level, "attack": attack.name}
            rows.append({**names, "sees": channel.sees, **found})
        return rows
